#!/usr/bin/env python3
"""MLServer's client, `mlserver infer`, looks rows of tables up as it asks any model: by its input alone.

    mlserver_client.py [--binary PATH]

With `indices` and with `keys`, as JSON and as binary tensors; an index out of bounds is told by the table's name. The package is
installed once into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/mlserver-venv. Exit status 77, with the reason, if it cannot be.
"""
import argparse, json, os, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
from run import CACHE, enter_venv

VENV = os.path.join(CACHE, "mlserver-venv")
PACKAGES = ["mlserver==1.7.1"]
IMPORTS = "import mlserver.cli"
PROGRAM = os.path.join(VENV, "bin", "mlserver")
TABLES = {"plain": [[1, 2], [3, 4], [5, 6]], "words": {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["a", "b", "c"]}}
REQUESTS = {"plain": [{"name": "indices", "datatype": "INT64", "shape": [2], "data": [2, 0]}, {"name": "indices", "datatype": "INT32", "shape": [1], "data": [1]}],
            "words": [{"name": "keys", "datatype": "BYTES", "shape": [2], "data": ["c", "a"]}, {"name": "keys", "datatype": "BYTES", "shape": [1], "data": ["b"]}]}
ROWS = [[5, 6, 1, 2], [3, 4]]


def infer(url, model, inputs, *options):
    """the replies to requests of one input each, in their order"""
    with tempfile.TemporaryDirectory() as folder:
        asked, told = os.path.join(folder, "requests"), os.path.join(folder, "replies")
        with open(asked, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"inputs": [tensor]}) + "\n" for tensor in inputs)
        subprocess.run([PROGRAM, "infer", "-u", url, "-m", model, "-i", asked, "-o", told, "-r", "1", *options], check=True, timeout=600,
                       capture_output=True)
        with open(told, encoding="utf-8") as file:
            return sorted(map(json.loads, file), key=lambda reply: reply["parameters"]["batch_index"])


def main():
    from daemon import Client, Daemon
    tried = 0
    with Daemon() as daemon, Client(daemon) as client:
        url = f"127.0.0.1:{daemon.port}"
        for name, table in TABLES.items():
            reply = client.request("PUT", f"/v1/tensors/{name}", table)
            assert reply.status == 201, reply
        for name, inputs in REQUESTS.items():
            for options in ([], ["-b"]):
                replies = infer(url, name, inputs, *options)
                assert [reply["outputs"][0]["data"] for reply in replies] == ROWS, replies
                tried += 1
        reply, = infer(url, "plain", [{"name": "indices", "datatype": "INT64", "shape": [2], "data": [0, 7]}])
        assert "plain: indices[1] = 7 is not in [0, 3)" in json.dumps(reply), reply
    print(f"{tried + 1} passed, 0 failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    os.environ["TD_TEST_BINARY"] = os.path.abspath(parser.parse_args().binary)
    enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS)
    main()
