#!/usr/bin/env python3
"""Tests deploy/import, which makes tables from Parquet, CSV, NPZ, PyTorch and Hugging Face files.

    run.py [--binary PATH] [--only PATTERN] [-v]

PATTERN is part of a test's name.  Prints a line per failing test, then "N passed, M failed".

The libraries of deploy/import/requirements.txt, safetensors and mypy are installed once with pip, into a virtual
environment, ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/import-venv.  Exit status 77, with the reason, if that
fails.
"""
import argparse, importlib.util, os, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)

VENV = os.path.join(oip_run.CACHE, "import-venv")
with open(os.path.join(ROOT, "deploy", "import", "requirements.txt"), encoding="utf-8") as f:
    PACKAGES = [*f.read().split(), "safetensors", "mypy==2.4.1"]
IMPORTS = "import numpy, pyarrow.parquet, safetensors.numpy, mypy.api"
MODULES = ["test_formats", "test_columns", "test_text", "test_more_formats", "test_encoding", "test_refusals", "test_folder",
           "test_command_line", "test_served", "test_libraries"]


def main():
    parser = argparse.ArgumentParser(description="Tests deploy/import.")
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    oip_run.enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS)
    binary = os.path.abspath(args.binary or os.path.join(ROOT, "build", "tensord"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"run.py: there is no daemon at {binary}")
    os.environ["TD_TEST_BINARY"] = binary
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
    sys.exit(oip_run.run([importlib.import_module(name) for name in MODULES], args.only, args.verbose))


if __name__ == "__main__":
    main()
