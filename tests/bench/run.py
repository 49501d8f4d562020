#!/usr/bin/env python3
"""Compares the speed of tensord with servers and loops that do the minimum of work.

    run.py [--binary build/tensord] [--only NAME] [--seconds S] [--rounds N]

Needs wrk, and the programs of tests/bench next to the binary: cmake --build build --target tensord benchmarks.
tensord and the drop server (drop_server.c) alternate in turns of S seconds.  Figures are medians over N rounds.  A ratio
is the median of the rounds' ratios, with the smallest and the largest in brackets.  CPU is the CPU time of the server's
process for each request.  The script repeats rounds in which other processes were busy, up to 3 N rounds in all.  The N
quietest rounds count, and "others" is the use by other processes in them.  Each case first checks one reply.  A bad ratio
never fails the run; exit status 1 means an error.
"""
import argparse, json, os, random, sys, tempfile, threading
from turns import (HERE, Broken, DropServer, machine, output_of, report, report_p99, resident, resident_of_file, row,
                   take_turns, upload_turn, wrk_turn)
import daemon
from daemon import JSON, SAFETENSORS, Client, Daemon
from inputs import *
from device_cases import DeviceCases
from load_cases import LoadCases
from oip_cases import OipCases, Target
from table_cases import TableCases

NAMES = ["json", "safetensors", "lookup", "keyed_lookup", "upload", "workers", "memory", "oip_lookup", "oip_round_trip",
         "shared_memory", "replace", "start", "keyed_start", "stored_index", "many_tensors", "batches", "program_batches", "beside_a_device",
         "unix", "overload", "fairness", "json_steady", "safetensors_steady", "keyed_steady", "bench_json", "bench_rows",
         "bench_stitch", "bench_scatter", "bench_einsum_memory", "bench_loops"]

# ---------------------------------------------------------------- cases
class Bench(DeviceCases, LoadCases, OipCases, TableCases):
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.tools = os.path.join(os.path.dirname(os.path.abspath(args.binary)), "tests", "bench")
        self.data = os.path.join(folder, "data")
        os.mkdir(self.data)
        write_table(self.data)

    def tensord(self, *options):
        return Daemon("--data-dir", self.data, *options)

    def file(self, name):
        return os.path.join(self.folder, name)

    def body_file(self, request):
        path = self.file("body")
        with open(path, "wb") as f:
            f.write(request.body)
        return path

    def small(self, name, request, check, target, cpu_target, reply=64):
        with self.tensord() as tensord, DropServer(self.tools, reply) as drop:
            check(tensord)
            file = self.body_file(request)
            pairs = take_turns(lambda s: wrk_turn(s, request, file, self.args.seconds), tensord, drop, self.args.rounds)
        report(name, pairs, "req/s", 1, target, cpu_target)

    def json(self):
        self.small("json", SMALL_JSON, lambda s: check_json(s, SMALL_JSON, [SMALL_PARAMS[i] for i in SMALL_INDICES]),
                   "at least 0.62", "at most 1.6")

    def safetensors(self):
        raw = floats(v for i in SMALL_INDICES for v in SMALL_PARAMS[i]).tobytes()
        self.small("safetensors", SMALL_BINARY, lambda s: check_binary(s, SMALL_BINARY, [4, 8], raw),
                   "at least 0.75", "at most 1.35")

    def lookup(self):
        raw = rows_of_range(LOOKUP_IDS, TABLE_WIDTH)
        self.small("lookup", LOOKUP, lambda s: check_binary(s, LOOKUP, [32, TABLE_WIDTH], raw),
                   "at least 0.65", "", reply=8192)

    def keyed_lookup(self):
        """Looks up 32 ids by key, with lookup and with gather, and by row number."""
        keys = [10**12 + 7919 * i for i in range(TABLE_ROWS)]
        wanted = ("int64", [32], daemon.pack("int64", [keys[i] for i in LOOKUP_IDS]))
        raw, shape = rows_of_range(LOOKUP_IDS, TABLE_WIDTH), [32, TABLE_WIDTH]

        def request(op, name, ids):
            return Request("/v1/" + op, daemon.safetensors({name: ids}, {"params.ref": "table"}), SAFETENSORS)
        by_row = request("gather", "indices", ("int64", [32], daemon.pack("int64", LOOKUP_IDS)))
        with self.tensord() as tensord:
            with Client(tensord) as client:
                reply = client.request("PUT", "/v1/tensors/table/keys", daemon.npy("int64", [TABLE_ROWS], daemon.pack("int64", keys)),
                                       {"Content-Type": "application/x-npy"})
            if reply.status != 201:
                raise Broken(f"wrong reply: {reply}")
            check_binary(tensord, by_row, shape, raw)
            for op, name, more in (("lookup", "queries", {"found": ("bool", [32], b"\1" * 32)}), ("gather", "indices.keys", {})):
                by_key = request(op, name, wanted)
                check_binary(tensord, by_key, shape, raw, **more)
                pairs = take_turns(lambda t: wrk_turn(t.server, t.request, t.path, self.args.seconds),
                                   Target(tensord, by_key, self.file("by_key")), Target(tensord, by_row, self.file("by_row")),
                                   self.args.rounds)
                report(f"{op} by key", pairs, "req/s", 1, "at least 0.95")

    def upload(self):
        request, raw = large_binary(65536, 256, 1000)
        file, uploads = self.body_file(request), 40 * self.args.seconds
        with self.tensord() as tensord, DropServer(self.tools) as drop:
            check_binary(tensord, request, [1000, 256], raw)
            pairs = take_turns(lambda s: upload_turn(s, request, file, uploads, self.tools), tensord, drop,
                               self.args.rounds)
        report("upload", pairs, "GB/s", len(request.body) / 1e9, "at least 0.75")

    def workers(self):
        rows = [SMALL_PARAMS[i] for i in SMALL_INDICES]
        file = self.body_file(SMALL_JSON)
        with self.tensord("--inline-limit-us", "0") as queued, self.tensord() as inline:
            check_json(queued, SMALL_JSON, rows)
            check_json(inline, SMALL_JSON, rows)
            pairs = take_turns(lambda s: wrk_turn(s, SMALL_JSON, file, self.args.seconds), queued, inline,
                               self.args.rounds)
        report("workers", pairs, "req/s", 1, "at least 0.55")
        report_p99("workers, p99", pairs, "at most 2")

    def memory(self):
        with self.tensord() as tensord:
            with Client(tensord) as client:
                client.request("GET", "/readyz")
                idle = resident(tensord.process)
                run_mixed_requests(tensord, mixed_requests())
                announced = client.request("GET", "/readyz").json()["memory"]
            used, peak = resident(tensord.process), resident(tensord.process, "VmHWM")
            touched = resident_of_file(tensord.process, "table.npy")
        total = announced["in_use"] + announced["warm"] + announced["calls"] + touched
        row("memory, idle", f"{idle / 1e6:.1f} MB", "", "", "below 20 MB")
        row("memory, 1000 mixed", f"{used / 1e6:.1f} MB", f"{total / 1e6:.1f} MB", f"{used / total:5.2f}",
            "at most 1.2")
        print(f"    announced: in use {announced['in_use'] / 1e6:.1f}, warm {announced['warm'] / 1e6:.1f}, calls"
              f" {announced['calls'] / 1e6:.1f}, pages of the table {touched / 1e6:.1f}; peak {peak / 1e6:.1f} MB")

    def program(self, name):
        print(f"{name}:", flush=True)
        for line in output_of([os.path.join(self.tools, name)]).splitlines():
            print("    " + line, flush=True)

    def bench_json(self):
        self.program("bench_json")

    def bench_rows(self):
        self.program("bench_rows")

    def bench_loops(self):
        self.program("bench_loops")

    def bench_stitch(self):
        self.program("bench_stitch")

    def bench_scatter(self):
        self.program("bench_scatter")

    def bench_einsum_memory(self):
        self.program("bench_einsum_memory")


# ---------------------------------------------------------------- memory
def mixed_requests():
    """Returns 1000 requests with their expected statuses: small, large, in both formats, and invalid."""
    many = json.dumps({"params": [round(i * 0.37 % 100, 4) for i in range(100_000)],
                       "indices": list(range(0, 100_000, 10))})
    out_of_bounds = json.dumps({"params": SMALL_PARAMS, "indices": [3, 16]})
    parts = [(300, 200, SMALL_JSON), (250, 200, SMALL_BINARY), (150, 200, LOOKUP),
             (60, 200, Request("/v1/gather", many.encode(), JSON)),
             (40, 200, large_binary(8192, 256, 1000)[0]), (4, 200, large_binary(65536, 256, 1000)[0]),
             (80, 400, Request("/v1/gather", SMALL_JSON.body[:-40], JSON)),
             (60, 422, Request("/v1/gather", out_of_bounds.encode(), JSON)),
             (30, 404, SMALL_JSON._replace(path="/v1/gatter")),
             (26, 415, SMALL_JSON._replace(type="text/csv"))]
    out = [(status, request) for count, status, request in parts for _ in range(count)]
    random.Random(3).shuffle(out)
    return out


def run_mixed_requests(server, requests, threads=4):
    wrong = []

    def run(part):
        with Client(server) as client:
            for status, request in part:
                reply = post(client, request)
                if reply.status != status:
                    wrong.append(f"{status} expected, got {reply}")
    workers = [threading.Thread(target=run, args=(requests[i::threads],)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if wrong:
        raise Broken(f"{len(wrong)} wrong replies; the first: {wrong[0]}")


# ---------------------------------------------------------------- main
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    parser.add_argument("--only", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=1, help="length of a turn in seconds")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    daemon.BINARY = args.binary
    program = os.path.join(os.path.dirname(os.path.abspath(args.binary)), "tests", "bench", "drop_server")
    if not os.access(program, os.X_OK):
        sys.exit(f"run.py: {program} does not exist; run cmake --build build --target tensord benchmarks")
    print(f"{machine()}, shared with the load generator; {args.rounds} rounds of {args.seconds} s each", flush=True)
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        row("case", "tensord", "baseline", "ratio", "target", "CPU a request, ratio, target", "others")
        for name in [args.only] if args.only else NAMES:
            try:
                getattr(bench, name)()
            except (Broken, AssertionError, OSError) as e:
                broken += 1
                print(f"{name:20} BROKEN: {e}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
