#!/usr/bin/env python3
"""The web console in a real browser: headless Chromium, driven by Selenium.

    run.py [--binary build/tensord] [--only PATTERN] [--pictures FOLDER]

PATTERN is part of a test's name; FOLDER gets a picture of each view.  Prints a line per failing test, then "N passed, M failed".
Chromium and chromedriver are packages of Debian, which deploy/dependencies.sh --test installs; Selenium and axe-core are installed once
with pip, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/browser-venv.  Exit status 77, with the reason, without them.
"""
import argparse, importlib.util, os, shutil, sys

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
MODULES = ["test_try", "test_large", "test_tables", "test_live", "test_docs", "test_page", "test_accessibility"]


def main():
    parser = argparse.ArgumentParser(description="Tests the web console in Chromium.")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"))
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--pictures", metavar="FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed; deploy/dependencies.sh --test installs it")
            sys.exit(77)
    oip_run.enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS, alone=AXE)
    os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary)
    if args.pictures:
        os.makedirs(args.pictures, exist_ok=True)
        os.environ["TD_TEST_PICTURES"] = os.path.abspath(args.pictures)
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
    sys.exit(oip_run.run([importlib.import_module(name) for name in MODULES], args.only, args.verbose))


if __name__ == "__main__":
    main()
