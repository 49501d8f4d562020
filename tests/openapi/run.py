#!/usr/bin/env python3
"""GET /openapi.json is valid, a client generated from it works, and the daemon does what it says: openapi-spec-validator,
openapi-python-client, and schemathesis against a daemon.

    run.py [--binary PATH]

They are installed once with pip, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/openapi-venv. Exit status 77, with the
reason, if that fails. schemathesis.toml says which checks run.
"""
import argparse, json, os, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "oip"), os.path.join(HERE, "..", "http")]
from run import CACHE, enter_venv

VENV = os.path.join(CACHE, "openapi-venv")
PACKAGES = ["schemathesis==4.32.5", "openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"]
IMPORTS = "import schemathesis, openapi_spec_validator, openapi_python_client"
LIMIT_S = 1800  # only ends a hang


def check_document(document):
    import openapi_spec_validator
    openapi_spec_validator.validate(document)
    print(f"{len(document['paths'])} paths: openapi-spec-validator finds the document valid")


def check_client(port, document):
    """calls of a generated client; whether one failed"""
    import generated
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "openapi.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        try:
            print(f"{generated.check(f'http://127.0.0.1:{port}', path, folder)} calls of a client that openapi-python-client generated")
            return False
        except Exception as e:
            print(f"FAIL generated client: {e}")
            return True


def check_daemon(port, folder):
    """runs schemathesis in a folder, where it keeps what it finds; its exit status"""
    command = [os.path.join(VENV, "bin", "schemathesis"), "--config-file", os.path.join(HERE, "schemathesis.toml"), "run",
               f"http://127.0.0.1:{port}/openapi.json", "--seed", "1"]
    return subprocess.run(command, cwd=folder, timeout=LIMIT_S, check=False).returncode


def main():
    from daemon import Client, Daemon
    with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
        with Client(daemon) as client:
            document = client.request("GET", "/openapi.json").json()
        check_document(document)
        failed = sum(map(bool, (check_client(daemon.port, document), check_daemon(daemon.port, folder))))
    print(f"{2 - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    os.environ["TD_TEST_BINARY"] = os.path.abspath(parser.parse_args().binary)
    enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS)
    main()
