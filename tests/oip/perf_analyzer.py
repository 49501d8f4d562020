#!/usr/bin/env python3
"""Triton's perf_analyzer looks rows of tables up, as it measures any model: by their metadata alone.

    perf_analyzer.py [--binary PATH]

With `indices` and with `keys`, over the socket and through system shared memory. Each run must send requests, and the table's statistics
have no failed one. The program is in the wheel of tritonclient 2.41.1, which is installed once, with CUDA's runtime, which it is linked
with, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/perf-venv; libb64 is a package of the distribution
(deploy/dependencies.sh --test). Exit status 77, with the reason, if one of them is missing.
"""
import argparse, json, os, re, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
from run import CACHE, enter_venv, locked, skip

VENV = os.path.join(CACHE, "perf-venv")
PACKAGES = ["tritonclient==2.41.1", "nvidia-cuda-runtime-cu12==12.9.79"]
IMPORTS = "import tritonclient, nvidia.cuda_runtime"
PROGRAM = os.path.join(VENV, "bin", "perf_analyzer")
SHARED = ["--shared-memory", "system", "--output-shared-memory-size", "4096"]
TABLES = {"plain": {"dtype": "float32", "shape": [5, 2], "data": [[row, -row] for row in range(5)]},
          "words": {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["a", "b", "c"]},
          "numbers": {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": [7, -8, 2**40]}}
LOOKUPS = {"plain": {"indices": {"content": [4, 0, 2], "shape": [3]}}, "words": {"keys": {"content": ["c", "a"], "shape": [2]}},
           "numbers": {"keys": {"content": [7, 2**40, -8], "shape": [3]}}}


def environment():
    import nvidia.cuda_runtime
    libraries = os.path.join(list(nvidia.cuda_runtime.__path__)[0], "lib")
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, env=env, check=False)
    missing = re.findall(r"(\S+) => not found", linked.stdout)
    if missing or linked.returncode:
        skip(f"perf_analyzer needs {', '.join(missing) or linked.stderr.strip()}")
    return env


def measure(url, model, env, shared):
    """analyzes a model; the number of its requests"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"data": [LOOKUPS[model]]}, file)
        file.flush()
        shapes = [part for name, tensor in LOOKUPS[model].items() for part in ("--shape", f"{name}:{tensor['shape'][0]}")]
        done = subprocess.run([PROGRAM, "-m", model, "-u", url, "--input-data", file.name, *shapes, *shared, "--concurrency-range", "2",
                               "--measurement-mode", "count_windows", "--measurement-request-count", "100",
                               "--stability-percentage", "999"],  # a busy machine is no failure
                              capture_output=True, text=True, env=env, timeout=600, check=False)
    counts = re.findall(r"Request count: (\d+)", done.stdout)
    assert done.returncode == 0 and counts and int(counts[0]) > 0, done.stdout[-2000:] + done.stderr[-2000:]
    return int(counts[0])


def main():
    from daemon import Client, Daemon
    env, requests = environment(), 0
    with Daemon("--system-shared-memory") as daemon, Client(daemon) as client:
        for name, table in TABLES.items():
            reply = client.request("PUT", f"/v1/tensors/{name}", table)
            assert reply.status == 201, reply
        for name in TABLES:
            requests += measure(f"127.0.0.1:{daemon.port}", name, env, [])
            with locked(os.path.join(CACHE, "perf-shared-memory")):  # its objects in /dev/shm have the names of the tensors
                requests += measure(f"127.0.0.1:{daemon.port}", name, env, SHARED)
            stats = client.request("GET", f"/v2/models/{name}/stats").json()["model_stats"][0]
            assert stats["inference_stats"]["fail"]["count"] == 0 and stats["inference_count"] > 0, stats
    print(f"{requests} lookups of {len(TABLES)} tables: 1 passed, 0 failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    os.environ["TD_TEST_BINARY"] = os.path.abspath(parser.parse_args().binary)
    enter_venv(os.path.abspath(__file__), VENV, PACKAGES, IMPORTS)
    main()
