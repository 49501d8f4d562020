#!/usr/bin/env python3
"""Tests the Open Inference Protocol with its client library, tritonclient[http].

    run.py [--binary PATH] [--only PATTERN] [-v]

Runs cases.py against daemons that it starts, once with small requests on the I/O threads and once with every request
on a worker.  PATTERN is part of a test's name.  Prints a line per failing test, then "N passed, M failed".

The library, NumPy and ml_dtypes are installed once with pip, into a virtual environment,
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/oip-venv.  Exit status 77, with the reason, if that fails.
"""
import argparse, os, subprocess, sys, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from cache import CACHE, locked
from reason import reason

VENV = os.path.join(CACHE, "oip-venv")
PACKAGES = ["tritonclient[http]", "numpy", "ml_dtypes"]
IMPORTS = "import tritonclient.http, tritonclient.utils.shared_memory, numpy, ml_dtypes"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def quietly(*command):
    """None, or the last line of the error"""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=3600)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return None if done.returncode == 0 else (done.stdout.strip().splitlines() or ["it failed"])[-1]


def complete_venv(venv=VENV, packages=PACKAGES, imports=IMPORTS, alone=()):
    """makes the virtual environment complete, one process at a time; None, or why that is not possible"""
    python, wanted = os.path.join(venv, "bin", "python"), ", ".join([*packages, *alone])
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]

    def complete():
        # pip comes last, so a process that was killed while it made the environment has left none.
        if not os.path.exists(os.path.join(venv, "bin", "pip")) and (why := quietly(sys.executable, "-m", "venv", "--clear", venv)):
            return why
        if not quietly(python, "-c", imports):
            return None
        print(f"fetching {wanted} into {venv}", flush=True)
        return quietly(*install, *packages) or (alone and quietly(*install, "--no-deps", *alone)) or quietly(python, "-c", imports)
    try:
        with locked(venv):
            why = complete()
    except OSError as e:
        why = str(e)
    return f"{wanted} cannot be installed: {why}" if why else None


def enter_venv(program=os.path.abspath(__file__), venv=VENV, packages=PACKAGES, imports=IMPORTS, alone=()):
    """completes the virtual environment and restarts the program in it; what packages of `alone` depend on is not installed"""
    if os.path.realpath(sys.prefix) == os.path.realpath(venv):
        return
    why = complete_venv(venv, packages, imports, alone)
    if why:
        skip(why)
    python = os.path.join(venv, "bin", "python")
    os.execv(python, [python, "-B", program, *sys.argv[1:]])


class Reporter(unittest.TestResult):
    def __init__(self, verbose):
        super().__init__()
        self.verbose, self.passed, self.failed = verbose, 0, 0

    def _fail(self, test, err):
        self.bad = True
        self.failed += 1
        text = self._exc_info_to_string(err, test)
        print(f"FAIL {test.id()}:{reason(text, self.verbose)}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.bad = False

    def addFailure(self, test, err):
        self._fail(test, err)

    def addError(self, test, err):
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self._fail(subtest, err)

    def stopTest(self, test):
        if not self.bad:
            self.passed += 1
            if self.verbose:
                print(f"ok   {test.id()}", flush=True)
        super().stopTest(test)


def tests_of(suite, only):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item, only)
        elif only in item.id():
            yield item


def run(modules, only, verbose):
    """runs the tests of the modules; the exit status"""
    import daemon
    reporter = Reporter(verbose)
    for module in modules:
        unittest.TestSuite(tests_of(unittest.defaultTestLoader.loadTestsFromModule(module), only)).run(reporter)
    for why in daemon.stop_shared():
        reporter.failed += 1
        print(f"FAIL the end of the daemon: {why}")
    print(f"{reporter.passed} passed, {reporter.failed} failed")
    return 0 if reporter.passed and not reporter.failed else 1


def main():
    parser = argparse.ArgumentParser(description="Tests tensord with tritonclient.")
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    enter_venv()
    binary = os.path.abspath(args.binary or os.path.join(HERE, "..", "..", "build", "tensord"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"run.py: there is no daemon at {binary}")
    os.environ["TD_TEST_BINARY"] = binary
    sys.dont_write_bytecode = True
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
    import cases
    sys.exit(run([cases], args.only, args.verbose))


if __name__ == "__main__":
    main()
