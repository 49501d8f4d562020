#!/usr/bin/env python3
"""Runs the black-box tests: starts daemons on free ports and sends them requests over HTTP.

    run.py [--binary PATH] [--only PATTERN]... [--jobs N] [-v]

PATTERN is part of a test's name, such as "gzip" or "test_errors"; with several, a test matches one of them.  Prints
a line per failing test, then "N passed, M failed, K skipped".  Exit status 0 only if at least one test ran and none
failed.  A daemon that crashes, does not stop, or prints a sanitizer report is a failure too.  The last lines but one name the
slowest tests, for tests/run.sh.
"""
import argparse, concurrent.futures, glob, importlib, json, os, signal, subprocess, sys, time, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from reason import reason

HANG_S = 1800  # ends a test file that hangs


class Reporter(unittest.TestResult):
    """one JSON line per test, for the parent process"""

    def __init__(self):
        super().__init__()
        self.began = 0.0

    def emit(self, test, outcome, why=""):
        line = {"test": test if isinstance(test, str) else test.id(), "outcome": outcome, "why": why,
                "seconds": round(time.monotonic() - self.began, 3)}
        print(json.dumps(line), flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.began, self.bad = time.monotonic(), False

    def _fail(self, test, err):
        self.bad = True
        self.emit(test, "failed", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self._fail(test, err)

    def addError(self, test, err):
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self._fail(subtest, err)

    def addSkip(self, test, reason):
        self.bad = True
        self.emit(test, "skipped", reason)

    def addSuccess(self, test):
        pass

    def stopTest(self, test):
        if not self.bad:
            self.emit(test, "passed")
        super().stopTest(test)


def run_module(name, only):
    """runs a test file, in a process of its own so that files do not share daemons and threads"""
    sys.path.insert(0, HERE)
    module = importlib.import_module(name)
    import daemon

    def wanted(suite):
        for item in suite:
            if isinstance(item, unittest.TestSuite):
                yield from wanted(item)
            elif not only or any(pattern in item.id() for pattern in only):
                yield item
    reporter = Reporter()
    unittest.TestSuite(wanted(unittest.defaultTestLoader.loadTestsFromModule(module))).run(reporter)
    reporter.began = time.monotonic()
    for why in daemon.stop_shared():
        reporter.emit(f"{name}: the end of the daemon", "failed", why)


def main():
    parser = argparse.ArgumentParser(description="Black-box tests of tensord.")
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="only tests whose name contains a PATTERN")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="test files at the same time (2)")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every test, and complete errors")
    parser.add_argument("--run-module", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run_module:
        return run_module(args.run_module, args.only)

    binary = os.path.abspath(args.binary or os.environ.get("TD_TEST_BINARY")
                             or os.path.join(HERE, "..", "..", "build", "tensord"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"run.py: there is no daemon at {binary}")
    env = dict(os.environ, TD_TEST_BINARY=binary, PYTHONDONTWRITEBYTECODE="1")
    times = []
    modules = [os.path.basename(f)[:-3] for f in sorted(glob.glob(os.path.join(HERE, "test_*.py")))]
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def report(outcome, test, why, seconds):
        counts[outcome] += 1
        times.append((seconds, test))
        if outcome == "failed":
            print(f"FAIL {test}:{reason(why, args.verbose)}", flush=True)
        elif outcome == "skipped":
            print(f"SKIP {test}: {why}", flush=True)
        elif args.verbose:
            print(f"ok   {test} ({seconds:.2f} s)", flush=True)

    children = []

    def interrupted(*_):
        for child in children:  # and their daemons
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
        os._exit(130)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)

    def one(name):
        command = [sys.executable, os.path.abspath(__file__), "--run-module", name,
                   *(option for pattern in args.only for option in ("--only", pattern))]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                                 start_new_session=True)
        children.append(child)
        try:
            out, err = child.communicate(timeout=HANG_S)
            ended = f"ended with status {child.returncode}: {err}" if child.returncode else ""
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # and its daemons
            out, err = child.communicate()
            ended = "did not end"
        return name, [json.loads(line) for line in out.splitlines() if line.startswith("{")], ended

    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, name) for name in modules]):
            name, lines, ended = future.result()
            for line in lines:
                report(line["outcome"], line["test"], line["why"], line["seconds"])
            if ended:
                report("failed", name, ended, 0)
    for seconds, test in sorted(times, reverse=True)[:10]:
        print(f"TIME {seconds:.1f} {test}")
    print(f"{counts['passed']} passed, {counts['failed']} failed"
          + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(0 if counts["passed"] and not counts["failed"] else 1)


if __name__ == "__main__":
    main()
