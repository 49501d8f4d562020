#!/usr/bin/env python3
"""Tests the online store of api/clients/feast: with the tests of this folder, and with Feast's own tests for online stores.

    run.py [--binary PATH] [--feast FOLDER] [pytest's arguments]

FOLDER is a clone of github.com/feast-dev/feast with the version VERSION, whose tests are not in its packages. By default it is cloned once
into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/feast-VERSION; if that fails, Feast's own tests are skipped, with the reason. Feast
and what its tests need are installed once into feast-venv in the same folder (700 MB). Exit status 77, with the reason, if that fails.
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
VERSION = "0.66.0"
# The tests of Feast import clients of clouds and containers, although no cloud or container is used.
PACKAGES = [f"feast[test,gcp,aws]=={VERSION}", "assertpy", "pymysql", "sqlalchemy", "setuptools", "wheel"]
IMPORTS = f"""import assertpy, google.cloud.bigquery, boto3, pymysql, pytest, setuptools, sqlalchemy, testcontainers, wheel, xdist
from importlib.metadata import version
assert version("feast") == "{VERSION}" """
FEAST_TESTS = ["integration/online_store/test_universal_online.py", "integration/online_store/test_universal_online_types.py",
               "integration/online_store/test_universal_e2e.py", "integration/online_store/test_push_features_to_online_store.py",
               "integration/materialization/test_universal_materialization.py", "integration/registration/test_universal_odfv_feature_inference.py"]
# Tests of other stores: the expiry of Redis's keys, and a container of DynamoDB.
OTHER_STORES = "not entity_ttl and not dynamo"


def load_oip():
    spec = importlib.util.spec_from_file_location("oip_run", ROOT / "tests" / "oip" / "run.py")
    oip = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oip)
    return oip


def install(work):
    """the folder with the packages tensord and tensord-feast, which are installed from copies"""
    copies = [shutil.copytree(ROOT / "api" / "clients" / name, work / name, ignore=shutil.ignore_patterns("__pycache__")) for name in ("python", "feast")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
                    "--target", work / "installed", *copies], check=True, stdin=subprocess.DEVNULL)
    return work / "installed"


def clone(oip):
    """the folder with Feast's sources, or None if they cannot be fetched"""
    folder = Path(oip.CACHE, f"feast-{VERSION}")
    with oip.locked(str(folder)):
        if not (folder / "sdk").exists():
            shutil.rmtree(folder, ignore_errors=True)
            why = oip.quietly("git", "clone", "--quiet", "--depth", "1", "--branch", f"v{VERSION}", "https://github.com/feast-dev/feast", str(folder))
            if why:
                print(f"SKIP Feast's own tests: {why}")
                return None
    return folder


def run_pytest(folder, env, *arguments):
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd=folder, env=env, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description="Tests the online store for Feast.")
    parser.add_argument("--binary", default=ROOT / "build" / "tensord", type=Path)
    parser.add_argument("--feast", type=Path, help=f"clone of Feast {VERSION}")
    args, rest = parser.parse_known_args()
    if args.feast and not (args.feast / "sdk" / "python" / "tests").is_dir():
        parser.error(f"--feast {args.feast}: the folder has no sdk/python/tests; expected a clone of github.com/feast-dev/feast")
    oip = load_oip()
    oip.enter_venv(str(HERE / "run.py"), os.path.join(oip.CACHE, "feast-venv"), PACKAGES, IMPORTS)
    with tempfile.TemporaryDirectory(prefix="tensord-feast-") as folder:
        installed = install(Path(folder))
        env = {**os.environ, "TENSORD": str(args.binary.resolve()), "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
        failed = run_pytest(HERE, env, *rest)
        feast = args.feast or clone(oip)
        if feast:
            failed |= run_feast_tests(feast / "sdk" / "python", installed, env, rest)
    sys.exit(1 if failed else 0)


def run_feast_tests(folder, installed, env, rest):
    os.environ["TENSORD"] = env["TENSORD"]
    sys.path.insert(0, str(installed))
    import tensord
    with tensord.serve() as server:
        own = {"TENSORD_URL": server.url, "PYTHONPATH": os.pathsep.join([str(installed), str(HERE), "."]),
               "FULL_REPO_CONFIGS_MODULE": "tensord_repo_configuration"}
        # -o: without Feast's own options, which list the times of all tests
        return run_pytest(folder, {**env, **own}, "--integration", "-o", "addopts=", "--disable-warnings", "--show-capture=no", "--tb=short", "-rs",
                          "-k", OTHER_STORES, *rest, *(f"tests/{name}" for name in FEAST_TESTS))


if __name__ == "__main__":
    main()
