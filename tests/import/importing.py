"""Shared by the tests of deploy/import: runs it in this process, and reads what it wrote without its code."""
import contextlib, importlib.util, io, os, pathlib, shutil, sys, tempfile, unittest

from daemon import read_safetensors, temporary_folder

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "import"
sys.path.insert(0, str(PROGRAM))
spec = importlib.util.spec_from_file_location("import_program", PROGRAM / "__main__.py")
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)


def run(*arguments):
    """the exit status, the output and the errors of an import"""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = program.main([str(argument) for argument in arguments])
        except SystemExit as e:
            status = e.code
    return status, out.getvalue(), errors.getvalue()


class ImportTest(unittest.TestCase):
    """A test with a folder for inputs, and a data folder."""

    def setUp(self):
        self.work = pathlib.Path(temporary_folder())
        self.data = self.work / "data"

    def tearDown(self):
        shutil.rmtree(self.work)

    def imported(self, *arguments):
        """runs an import that succeeds; its output"""
        status, out, errors = run(*arguments, "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        return out

    def refused(self, *arguments):
        """runs an import that is refused and leaves nothing; the error"""
        before = sorted(self.data.iterdir()) if self.data.exists() else []
        status, out, errors = run(*arguments, "--quiet", "--data-dir", self.data)
        self.assertEqual((status, out), (1, ""), errors)
        self.assertEqual(sorted(self.data.iterdir()) if self.data.exists() else [], before)
        self.assertRegex(errors, r"\Aimport: error: .*\n\Z")
        return errors.removeprefix("import: error: ").removesuffix("\n")

    def tensors(self, *path):
        """{name: (dtype, shape, bytes)} of a file of the data folder"""
        return read_safetensors(self.data.joinpath(*path).read_bytes())[0]


def strings(tensors, name):
    """the strings NAME.bytes and NAME.offsets of a file"""
    offsets = numbers(tensors, name + ".offsets")
    data = tensors[name + ".bytes"][2]
    return [data[begin:end].decode() for begin, end in zip(offsets, offsets[1:])]


def numbers(tensors, name):
    """the values of a tensor, flat"""
    import struct
    from daemon import FORMATS, SIZES
    dtype, _, data = tensors[name]
    return list(struct.unpack(f"<{len(data) // SIZES[dtype]}{FORMATS[dtype]}", data))
