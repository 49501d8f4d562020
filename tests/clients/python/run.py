#!/usr/bin/env python3
"""Tests the Python package of api/clients/python: mypy --strict, then pytest against a daemon and against false servers.

    run.py [--binary PATH] [pytest's arguments]

The package is installed by pip from its sdist, which is made of a copy. pytest, mypy and NumPy are installed once, into
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/python-client-venv.  Exit status 77, with the reason, if that fails.
"""
import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGES = ["numpy", "pytest", "mypy", "setuptools", "wheel"]


def enter_venv():
    spec = importlib.util.spec_from_file_location("oip_run", ROOT / "tests" / "oip" / "run.py")
    oip = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oip)
    oip.enter_venv(str(HERE / "run.py"), os.path.join(oip.CACHE, "python-client-venv"), PACKAGES, "import " + ", ".join(PACKAGES))


def install(work):
    """the folder with the package, which is installed from its sdist"""
    shutil.copytree(ROOT / "api" / "clients" / "python", work / "source", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-c", "import setuptools.build_meta; setuptools.build_meta.build_sdist('..')"], cwd=work / "source",
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation",
                    "--no-deps", "--target", work / "installed", *work.glob("*.tar.gz")], check=True, stdin=subprocess.DEVNULL)
    return work / "installed"


def main():
    parser = argparse.ArgumentParser(description="Tests the Python package.")
    parser.add_argument("--binary", default=ROOT / "build" / "tensord", type=Path)
    args, rest = parser.parse_known_args()
    enter_venv()
    with tempfile.TemporaryDirectory(prefix="tensord-python-") as folder:
        work = Path(folder)
        binary = str(args.binary.resolve())
        env = {**os.environ, "PYTHONPATH": str(install(work)), "TENSORD": binary, "TD_TEST_BINARY": binary,
               "PYTHONDONTWRITEBYTECODE": "1"}
        checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", work / "mypy", "-p", "tensord"],
                                 cwd=work / "source", env=env, check=False)
        tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, *rest], cwd=work, env=env,
                                check=False)
    sys.exit(1 if checked.returncode or tested.returncode else 0)


if __name__ == "__main__":
    main()
