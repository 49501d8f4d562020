#!/usr/bin/env python3
"""Measures the Python package: small calls compared with http.client and tritonclient, and JSON compared with binary.

    python_client.py [--binary PATH] [--calls N] [--rounds N]

Needs NumPy, and for tritonclient's rows also tritonclient[http]. The clients take turns on one daemon. A figure is the median over the rounds.
"""
import argparse
import http.client
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "api" / "clients" / "python"))
import numpy as np
import tensord
from tensord import calls

SMALL = np.array([2, 3], "int64")

# The code that a user writes for one lookup. The lines up to the one that creates the client run only once.
USER_CODE = {
    "http.client, prepared body": """
import http.client
client = http.client.HTTPConnection(address)
client.request("POST", path, body, headers)
rows = client.getresponse().read()
""",
    "tensord": """
import tensord
client = tensord.Client(url)
rows = client.gather("planets", indices)
""",
    "tritonclient": """
import tritonclient.http
client = tritonclient.http.InferenceServerClient(address)
query = tritonclient.http.InferInput("indices", list(indices.shape), "INT64")
query.set_data_from_numpy(indices)
rows = client.infer("planets", [query]).as_numpy("output")
"""}


def user(code, url):
    """Returns a function that runs the code of one lookup, and the number of lines of the whole code."""
    call = calls.op_call("gather", calls.one, {"params": "planets", "indices": SMALL}, {})
    names = {"url": url, "address": url.partition("//")[2], "indices": SMALL, "path": call.path, "body": b"".join(call.body),
             "headers": call.headers}
    lines = code.strip().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("client = ")) + 1
    exec("\n".join(lines[:first]), names)
    each = compile("\n".join(lines[first:]), "lookup", "exec")
    return lambda: exec(each, names), len(lines)


def json_lookup(url, table, indices):
    """Returns a function that runs the same lookup in JSON, from array to array."""
    connection = http.client.HTTPConnection(url.partition("//")[2])

    def run():
        connection.request("POST", "/v1/gather", json.dumps({"params": {"ref": table}, "indices": indices.tolist()}))
        return np.array(json.loads(connection.getresponse().read())["output"]["data"], "f4")
    return run


def measured(run, calls_):
    """Returns the microseconds for each call: wall time, and processor time of this process."""
    begin, used = time.perf_counter(), time.process_time()
    for _ in range(calls_):
        run()
    return 1e6 * (time.perf_counter() - begin) / calls_, 1e6 * (time.process_time() - used) / calls_


def take_turns(clients, calls_, rounds):
    """Returns, for each client, (microseconds, processor time, ratio to the first client), the medians over the rounds."""
    for run in clients.values():
        measured(run, 20)
    found = {name: [] for name in clients}
    for _ in range(rounds):
        for name, run in clients.items():
            found[name].append(measured(run, calls_))
    first = next(iter(found.values()))
    return {name: (statistics.median(clock for clock, _ in turns), statistics.median(used for _, used in turns),
                   statistics.median(one[0] / base[0] for one, base in zip(turns, first))) for name, turns in found.items()}


def small_calls(url, args):
    clients, lines = {}, {}
    for name, code in USER_CODE.items():
        try:
            clients[name], lines[name] = user(code, url)
        except ImportError as error:
            print(f"skipped: {name}: {error}")
    for name, (clock, used, ratio) in take_turns(clients, args.calls, args.rounds).items():
        print(f"{name:28} {clock:6.0f} us, processor {used:5.0f} us, {ratio:.2f} times http.client, {lines[name]} lines")


def formats(client, url, args):
    client.tables["wide"].put(np.random.default_rng(1).random((100_000, 64), "f4"))
    for rows in 1, 100, 10_000:
        indices = np.random.default_rng(rows).integers(0, 100_000, rows)
        found = take_turns({"JSON": json_lookup(url, "wide", indices), "binary": lambda: client.gather("wide", indices)},
                           max(1, args.calls // (10 * rows)), args.rounds)
        (json_, json_used, _), (binary, binary_used, ratio) = found["JSON"], found["binary"]
        print(f"{rows:6} rows of 64: JSON {json_:9.0f} us (processor {json_used:.0f}), binary {binary:8.0f} us (processor {binary_used:.0f}), "
              f"which is {1 / ratio:.1f} times as fast")


def main():
    parser = argparse.ArgumentParser(description="Measures the Python package.")
    parser.add_argument("--binary", default=str(ROOT / "build" / "tensord"))
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=21, help="number of turns of each client")
    args = parser.parse_args()
    os.environ["TENSORD"] = args.binary
    with open("/proc/cpuinfo", encoding="ascii") as info:
        print(next(line.partition(": ")[2].strip() for line in info if line.startswith("model name")),
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}", sep=", ")
    with tensord.serve(ROOT / "deploy" / "sample") as server:
        small_calls(server.url, args)
        formats(server.client, server.url, args)


if __name__ == "__main__":
    main()
