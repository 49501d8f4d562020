#!/usr/bin/env python3
"""Measures searches over HTTP.

    search_http.py [BINARY] [--only NAME] [--rows N] [--seconds S] [--rounds N]

small     a query of 384 numbers, 10 of 10,000 rows, compared with FastAPI and NumPy: two worker processes of uvicorn with uvloop. Both
          servers read and write binary numbers. One connection gives the latency, 16 connections give the rate.
clients   16 clients with one query each, 10 of a million rows (--rows) of 384 columns. Their requests share passes over the
          table. A pass is the median latency of a single client, which has all threads of the server for itself, so without
          sharing, the rate of 16 clients would be the rate of one.
programs  the same with a stored program, which scales the query to length 1, searches, and gathers the rows found.

The clients are connections of load_client.c. The servers alternate. Figures are medians of the rounds.
"""
import argparse, contextlib, json, os, statistics, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "http")]
import daemon, peers

COLUMNS, K, SMALL, CLIENTS, LOCAL = 384, 10, 10_000, 16, "127.0.0.2"
APP = '''
import os, numpy
from fastapi import FastAPI, Request, Response
app, table = FastAPI(), numpy.load(os.environ["TABLE"])

@app.get("/ready")
def ready():
    return True

@app.post("/search")
async def search(request: Request):
    scores = table @ numpy.frombuffer(await request.body(), "f4")
    best = numpy.argpartition(-scores, %d)[:%d]
    best = best[numpy.argsort(-scores[best])]
    return Response(best.astype("i8").tobytes() + scores[best].tobytes(), media_type="application/octet-stream")
''' % (K, K)

PROGRAM = {"inputs": {"queries": {"dtype": "float32", "shape": [COLUMNS]}},
           "steps": [{"op": "l2_normalize", "x": "$queries", "as": "scaled"},
                     {"op": "search", "params": {"ref": "table"}, "queries": "$scaled", "k": {"attr": "k"}, "as": {"scores": "scores", "indices": "rows"}},
                     {"op": "gather", "params": {"ref": "table"}, "indices": "$rows", "as": "found"}],
           "outputs": ["scores", "rows", "found"]}


@contextlib.contextmanager
def fastapi(folder, table, app=APP):
    """a server with two processes; yields its port"""
    port = daemon.free_ports(1)[0]
    with open(os.path.join(folder, "app.py"), "w", encoding="utf-8") as file:
        file.write(app)
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--workers", "2", "--log-level", "warning"]
    process = subprocess.Popen(command, cwd=folder, env={**peers.environment(1), "TABLE": table})
    try:
        def is_ready():
            with contextlib.suppress(OSError):
                return subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/ready"], stdout=subprocess.DEVNULL, check=False).returncode == 0
        daemon.eventually(is_ready, "that FastAPI starts")
        yield port
    finally:
        process.terminate()
        process.wait()


class Load:
    def __init__(self, args, folder):
        self.tools, self.folder, self.seconds = os.path.join(os.path.dirname(args.binary), "tests", "bench"), folder, args.seconds

    def __call__(self, port, connections, path, bodies, *headers):
        """(requests per second, p50 in ms, p99 in ms); bodies: the requests send them in turn"""
        files = [os.path.join(self.folder, f"body-{i}") for i in range(len(bodies))]
        for file, body in zip(files, bodies):
            with open(file, "wb") as f:
                f.write(body)
        command = [f"{self.tools}/load_client", str(port), LOCAL, str(connections), "0", str(self.seconds), "POST", path, ",".join(files), *headers]
        words = subprocess.check_output(command, text=True).split()
        accepted, refused, failed, seconds, p50, p99 = map(float, words[1:7])
        if refused or failed or not accepted:
            sys.exit(f"search_http.py: {words}")
        return accepted / seconds, p50 / 1000, p99 / 1000


def medians(rounds):
    return [statistics.median(figures) for figures in zip(*rounds)]


def make_table(np, folder, rows):
    path = os.path.join(folder, "table.npy")
    np.save(path, np.random.default_rng(1).standard_normal((rows, COLUMNS), "f4"))
    return path


def small(np, args, folder):
    table = make_table(np, folder, SMALL)
    query = np.random.default_rng(2).standard_normal(COLUMNS, "f4").tobytes()
    bodies = [daemon.safetensors({"queries": ("float32", [COLUMNS], query)}, {"k": str(K)})]
    own = "/v1/tensors/table/search", bodies, f"Content-Type: {daemon.SAFETENSORS}", f"Accept: {daemon.SAFETENSORS}"
    load, figures = Load(args, folder), []
    with daemon.Daemon("--data-dir", folder) as server, fastapi(folder, table) as port:
        for _ in range(args.rounds):
            figures.append((load(server.port, 1, *own)[1], load(port, 1, "/search", [query])[1],
                            load(server.port, CLIENTS, *own)[0], load(port, CLIENTS, "/search", [query])[0]))
    mine, theirs, rate, their_rate = medians(figures)
    ratios = [ours / others for _, _, ours, others in figures]
    print(f"small: p50 {mine:.2f} ms, FastAPI {theirs:.2f}; {CLIENTS} connections: {rate:,.0f} req/s, FastAPI {their_rate:,.0f}, "
          f"ratio {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})", flush=True)


def shared_passes(name, path, args, folder, query):
    """the rates of one client and of 16 clients that call `path` with `query`"""
    own = path, [daemon.safetensors({"queries": ("float32", [COLUMNS], query)}, {"k": str(K)})], f"Content-Type: {daemon.SAFETENSORS}", f"Accept: {daemon.SAFETENSORS}"
    load, figures = Load(args, folder), []
    with daemon.Daemon("--data-dir", folder) as server:
        for _ in range(args.rounds):
            rate, one, _ = load(server.port, 1, *own)
            many, p50, p99 = load(server.port, CLIENTS, *own)
            figures.append((rate, one, many, p50, p99, many / rate, p99 / one))
    rate, one, many, p50, p99, ratio, passes = medians(figures)
    print(f"{name}: one {rate:.1f} req/s, a pass takes {one:.1f} ms; {CLIENTS}: {many:.1f} req/s, ratio {ratio:.1f}, "
          f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {passes:.2f} passes", flush=True)


def clients(np, args, folder):
    make_table(np, folder, args.rows)
    shared_passes("clients", "/v1/tensors/table/search", args, folder, np.random.default_rng(2).standard_normal(COLUMNS, "f4").tobytes())


def programs(np, args, folder):
    make_table(np, folder, args.rows)
    with open(os.path.join(folder, "nearest.program.json"), "w", encoding="ascii") as file:
        json.dump(PROGRAM, file)
    shared_passes("programs", "/v1/programs/nearest", args, folder, np.random.default_rng(2).standard_normal(COLUMNS, "f4").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default=os.path.join(ROOT, "build", "tensord"))
    parser.add_argument("--only", choices=("small", "clients", "programs"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    daemon.BINARY = os.path.abspath(args.binary)
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "fastapi", "uvicorn", "uvloop", "httptools"):
        peers.install(package)
    import numpy as np
    with open("/proc/cpuinfo", encoding="ascii") as file:
        print(next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    for case in small, clients, programs:
        if args.only in (None, case.__name__):
            with tempfile.TemporaryDirectory(prefix="tensord-bench-") as folder:
                case(np, args, folder)


if __name__ == "__main__":
    main()
