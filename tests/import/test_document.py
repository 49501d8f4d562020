"""The commands of docs/tables.md print what it shows, in the order of the page, in an empty folder.

In a block without a language a line "$ COMMAND" is followed by what it prints, where an ellipsis stands for anything. The
line that starts the daemon in the background starts one on a free port; "kill -HUP %1" reaches it. A block of Python
runs as a program. What names the model of tests/real is run there.
"""
import importlib.util, os, pathlib, re, signal, subprocess, sys, unittest

from daemon import Daemon, temporary_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("clients_run", ROOT / "tests" / "clients" / "run.py")
clients_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(clients_run)


def commands(lines):
    """(command, lines that it prints) of a block"""
    at = 0
    while at < len(lines):
        command = lines[at].removeprefix("$ ")
        assert command != lines[at], f"no command: {lines[at]}"
        at += 1
        while clients_run.unfinished(command):
            command, at = command + "\n" + lines[at], at + 1
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown, at = shown + [lines[at]], at + 1
        yield command, "\n".join(shown)


class Document(unittest.TestCase):
    def setUp(self):
        self.work, self.daemon = temporary_folder(), None
        for name in "deploy", "docs":
            os.symlink(ROOT / name, os.path.join(self.work, name))

    def reload(self):
        """sends SIGHUP, and waits until the folder has been read"""
        def scans():
            return sum(e.get("event") == "data_dir_scanned" for e in self.daemon.events())
        before = scans()
        self.daemon.send_signal(signal.SIGHUP)
        self.daemon.wait_log(lambda _: scans() > before, what="the end of a reload")

    def run_command(self, command, shown):
        if command.startswith("build/tensord ") and command.endswith(" &"):
            os.chdir(self.work)  # the data folder is relative to it
            self.daemon = Daemon(*command.removesuffix(" &").split()[1:])
        elif command == "kill -HUP %1":
            self.reload()
        elif "minilm" not in command and "-m venv" not in command:
            command = command.replace("~/tables/bin/python", sys.executable)
            if self.daemon:
                command = command.replace("localhost:8080", self.daemon.address)
            done = subprocess.run(["bash", "-c", command], cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=300)
            self.assertTrue(clients_run.same(done.stdout, shown), f"{command}\nprinted\n{done.stdout}instead of\n{shown}")

    def test_the_commands_print_what_the_page_shows(self):
        text = (ROOT / "docs" / "tables.md").read_text()
        here, ran = os.getcwd(), 0
        try:
            for language, lines in clients_run.blocks(text):
                if language == "python":
                    subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=self.work, check=True)
                elif not language:
                    for command, shown in commands(lines):
                        with self.subTest(command):
                            self.run_command(command, shown)
                            ran += 1
            self.assertGreater(ran, 5)
        finally:
            os.chdir(here)
            if self.daemon:
                self.daemon.stop()
