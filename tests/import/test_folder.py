"""What the data folder has when an import ends, is killed, or meets another one: the old or the new, whole."""
import fcntl, hashlib, json, os, pathlib, shutil, signal, sys, unittest.mock

import numpy as np

from importing import ImportTest, run

# The calls that change a folder or wait for the disk; a crash can fall between any two of them.
STEPS = ["mkdir", "open", "posix_fallocate", "pwrite", "fsync", "rename", "rmdir", "unlink"]


def run_until(step, *arguments):
    """runs an import in a child that is killed before its call number `step`; whether it came that far"""
    child = os.fork()
    if child == 0:
        count = 0

        def before(name, call):
            def counted(*given, **named):
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **named)
            return unittest.mock.patch.object(os, name, counted)
        for name in STEPS:
            before(name, getattr(os, name)).start()
        os._exit(run(*arguments, "--quiet")[0])
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WIFSIGNALED(status), status
    return status != 0


class Folder(ImportTest):
    def setUp(self):
        super().setUp()
        self.input = self.work / "m.npz"
        self.write(1)

    def write(self, value):
        np.savez(self.input, w=np.full((100, 4), value, "f4"), **{"w.keys": np.arange(100)})

    def test_a_version_is_described_by_its_manifest(self):
        out = self.imported(self.input, "--version", "2026-11.22_a", "--alias", "movies=w", "--alias", "latest=w")
        content = (self.data / "2026-11.22_a" / "m.safetensors").read_bytes()
        self.assertEqual(json.loads((self.data / "2026-11.22_a" / "manifest.json").read_text()), {
            "files": {"m.safetensors": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}},
            "aliases": {"movies": "m:w@2026-11.22_a", "latest": "m:w@2026-11.22_a"}})
        self.assertIn("m:w@2026-11.22_a: float32 [100, 4], keys int64", out)
        self.assertEqual(sorted(os.listdir(self.data)), ["2026-11.22_a"])

    def test_the_aliases_of_a_quantised_table_name_its_scale_and_offset_too(self):
        self.imported(self.input, "--version", "1", "--dtype", "int8", "--alias", "movies=w", "--alias", "other.scale=w")
        self.assertEqual(json.loads((self.data / "1" / "manifest.json").read_text())["aliases"], {
            alias + part: f"m:w{part}@1" for alias in ("movies", "other.scale") for part in ("", ".scale", ".offset")})

    def test_a_version_does_not_change(self):
        self.imported(self.input, "--version", "1")
        self.assertIn("the version already exists", self.refused(self.input, "--version", "1"))

    def test_a_file_is_replaced(self):
        self.imported(self.input)
        self.write(2)
        self.imported(self.input)
        self.assertEqual(self.tensors("m.safetensors")["w"][2], np.full(400, 2, "f4").tobytes())
        self.assertEqual(os.listdir(self.data), ["m.safetensors"])

    def test_a_table_that_the_daemon_wrote_would_hide_it(self):
        for name, options in (("m:w", ()), ("m:w.scale", ("--dtype", "int8")), ("m:w@1", ("--version", "1"))):
            with self.subTest(name):
                own = self.data / f"{name}.tensord"
                self.data.mkdir(exist_ok=True)
                own.touch()
                self.assertIn(f"{name}.tensord has data stored over HTTP", self.refused(self.input, *options))
                self.assertEqual(os.listdir(self.data), [own.name])
                own.unlink()

    def killed_everywhere(self, *options):
        """kills an import before each of its steps; yields after each kill, and after the import that ends"""
        step, killed = 1, True
        while killed:
            killed = run_until(step, self.input, "--data-dir", self.data, *options)
            yield step, killed
            step += 1
        self.assertGreater(step, 10)

    def test_a_killed_import_leaves_the_old_file_or_the_new_one(self):
        self.imported(self.input)
        old = (self.data / "m.safetensors").read_bytes()
        self.write(2)
        seen = set()
        for step, killed in self.killed_everywhere():
            content = (self.data / "m.safetensors").read_bytes()
            seen.add(content == old)
            if content != old:
                self.assertEqual(self.tensors("m.safetensors")["w"][2], np.full(400, 2, "f4").tobytes(), step)
                (self.data / "m.safetensors").write_bytes(old)
        self.assertEqual((seen, os.listdir(self.data)), ({True, False}, ["m.safetensors"]))

    def test_a_killed_import_leaves_a_whole_version_or_none(self):
        seen = set()
        for step, killed in self.killed_everywhere("--version", "7"):
            version = self.data / "7"
            seen.add(version.exists())
            if version.exists():
                files = json.loads((version / "manifest.json").read_text())["files"]
                self.assertEqual(sorted(os.listdir(version)), sorted([*files, "manifest.json"]))
                for name, expected in files.items():
                    content = (version / name).read_bytes()
                    self.assertEqual(expected, {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
                shutil.rmtree(version)
        self.assertEqual((seen, os.listdir(self.data)), ({True, False}, []))

    def test_everything_is_on_disk_before_the_rename_and_the_rename_after_it(self):
        calls, paths = [], {}
        real = {name: getattr(os, name) for name in ("open", "fsync", "rename")}

        def fsync(fd):
            calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            real["fsync"](fd)

        def rename(old, new):
            calls.append("rename")
            real["rename"](old, new)
        with unittest.mock.patch.object(os, "fsync", fsync), unittest.mock.patch.object(os, "rename", rename):
            self.imported(self.input, "--version", "1")
            self.imported(self.input)
        self.assertEqual(calls, ["m.safetensors", "manifest.json", ".import-1", "rename", "data",
                                 "m.safetensors", "rename", "data"])

    def test_two_imports_of_one_name_exclude_each_other(self):
        (self.data / ".import-m").mkdir(parents=True)
        (self.data / ".import-m" / "left").write_text("by a crash")
        fd = os.open(self.data / ".import-m", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        self.assertIn("another import is writing to it", self.refused(self.input))
        os.close(fd)
        self.imported(self.input)
        self.assertEqual(os.listdir(self.data), ["m.safetensors"])

    def test_links_are_not_followed(self):
        self.data.mkdir()
        elsewhere = self.work / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "file").write_text("kept")
        (self.data / ".import-m").symlink_to(elsewhere)
        self.refused(self.input)
        (self.data / "1").symlink_to(elsewhere)
        self.assertIn("already exists", self.refused(self.input, "--version", "1"))
        self.assertEqual(os.listdir(elsewhere), ["file"])

    def test_a_full_disk_is_found_before_rows_are_read(self):
        error = OSError(28, "No space left on device")
        with unittest.mock.patch.object(os, "posix_fallocate", side_effect=error):
            self.assertRegex(self.refused(self.input), r"data: not enough space on the disk; \d+ bytes are needed")

    def test_an_input_that_grows_or_shrinks_meanwhile_is_refused(self):
        import table
        real = table.read_rows
        for change, expected in ((lambda rows: [*rows, np.zeros((1, 4), "f4")], "it has more rows than at the start of the import"),
                                 (lambda rows: rows[:0], "it ends 1600 bytes before w is complete")):
            with unittest.mock.patch("archives.read_rows", lambda *given: iter(change(list(real(*given))))):
                self.assertIn(expected, self.refused(self.input))


class Interrupt(ImportTest):
    def test_ctrl_c_leaves_nothing(self):
        import writer
        np.savez(self.work / "m.npz", w=np.zeros(3))
        with unittest.mock.patch.object(writer, "write_rows", side_effect=KeyboardInterrupt):
            status, _, errors = run(self.work / "m.npz", "--data-dir", self.data)
        self.assertEqual((status, errors), (130, "import: interrupted; nothing was changed\n"))
        self.assertEqual(os.listdir(self.data), [])
