#!/usr/bin/env python3
"""The web console in a real browser: headless Chromium, driven by Selenium.

    run.py [--binary build/tensord] [--only PATTERN] [--jobs 3] [--pictures FOLDER]

PATTERN is part of a test's name; FOLDER gets a picture of each view.  Without a PATTERN the modules run side by side, as many as there are
jobs.  Prints a line per failing test, then "N passed, M failed".
Debian's packages chromium-headless-shell and chromium-driver come with deploy/dependencies.sh --test; Selenium and axe-core are installed
once with pip, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/browser-venv.  Exit status 77, with the reason, without them.
"""
import argparse, concurrent.futures, importlib.util, os, re, shutil, subprocess, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)

VENV = os.path.join(oip_run.CACHE, "browser-venv")
PACKAGES = ["selenium==4.38.0"]
AXE = ["axe-playwright-python==0.1.8"]  # only for its axe.min.js, axe-core 4.12.1; it needs no playwright for that
IMPORTS = "import selenium.webdriver, axe_playwright_python"
MODULES = ["test_try", "test_large", "test_tables", "test_programs", "test_live", "test_docs", "test_page", "test_accessibility"]  # the longest first


def run_module(module):
    """in a process of its own; its lines, and the number of its tests that passed and failed"""
    child = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), *sys.argv[1:], "--only", module + "."],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counted = re.search(r"^(\d+) passed, (\d+) failed\n\Z", child.stdout, re.M)
    if not counted:
        return f"{child.stdout}FAIL {module}: exit status {child.returncode} without a result\n", 0, 1
    return child.stdout[:counted.start()], int(counted[1]), int(counted[2])


def run_modules(jobs):
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for lines, *counts in pool.map(run_module, MODULES):
            print(lines, end="", flush=True)
            passed, failed = passed + counts[0], failed + counts[1]
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


def main():
    parser = argparse.ArgumentParser(description="Tests the web console in Chromium.")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"))
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--jobs", type=int, default=3, metavar="N")
    parser.add_argument("--pictures", metavar="FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    for program in ("chromium-headless-shell", "chromedriver"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed; deploy/dependencies.sh --test installs it")
            sys.exit(77)
    oip_run.enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS, alone=AXE)
    os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary)
    if args.pictures:
        os.makedirs(args.pictures, exist_ok=True)
        os.environ["TD_TEST_PICTURES"] = os.path.abspath(args.pictures)
    if not args.only:
        sys.exit(run_modules(args.jobs))
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
    sys.exit(oip_run.run([importlib.import_module(name) for name in MODULES], args.only, args.verbose))


if __name__ == "__main__":
    main()
