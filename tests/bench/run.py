#!/usr/bin/env python3
"""How fast tensord is, against servers and loops that do as little as can be done.

    run.py [--binary build/tensord] [--only NAME] [--seconds S] [--rounds N]

Needs wrk, and the programs of tests/bench beside the binary.  tensord and the drop server (drop_server.c) run
side by side and take turns of S seconds; figures are medians over N rounds, ratios are medians of the rounds'
own ratios, with the least and the largest in brackets.  CPU is what the server's process took per request.
Rounds in which other processes were busy are repeated, up to 3 N in all, and the N quietest count; "others" is
what was left of them.  Each case first checks one answer.  Ratios never fail the run: exit status 1 means that
something broke.
"""
import argparse, array, collections, json, os, platform, random, resource, statistics, subprocess, sys, tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import daemon
from daemon import JSON, SAFETENSORS, Client, Daemon

TICK = 1 / os.sysconf("SC_CLK_TCK")
CONNECTIONS = 16
QUIET = 0.05  # of the machine
NAMES = ["json", "safetensors", "lookup", "upload", "workers", "memory", "bench_json", "bench_rows", "bench_stitch",
         "bench_einsum_memory", "bench_loops"]

Request = collections.namedtuple("Request", "path body type accept")  # accept may be None
# per second; seconds per request; microseconds; part of the machine that other processes took
Turn = collections.namedtuple("Turn", "rate cpu p99 others")


class Broken(Exception):
    """something that is not about speed"""


# ---------------------------------------------------------------- servers
class DropServer:
    def __init__(self, tools, reply=64):
        self.host = "127.0.0.1"
        self.process = subprocess.Popen([os.path.join(tools, "drop_server"), "--reply", str(reply)],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline() or 0)
        if not self.port:
            raise Broken("the drop server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def cpu_seconds(process):
    """user and system time of all threads so far"""
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def machine_seconds():
    """(busy, all) time of all CPUs so far"""
    with open("/proc/stat") as f:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, f.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy * TICK, (busy + idle + iowait) * TICK


def own_seconds():
    """this process and the clients it has waited for"""
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in used)


# ---------------------------------------------------------------- turns
def output_of(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        raise Broken(f"{os.path.basename(command[0])} ended with {done.returncode}: {done.stdout.strip()[-500:]}")
    return done.stdout


def turn(server, command, figures):
    """one turn: runs the client and asks figures(output) for (requests, rate, p99)"""
    cpu, (busy, capacity), own = cpu_seconds(server.process), machine_seconds(), own_seconds()
    output = output_of(command)
    cpu = cpu_seconds(server.process) - cpu
    others = machine_seconds()[0] - busy - (own_seconds() - own) - cpu
    capacity = machine_seconds()[1] - capacity
    requests, rate, p99 = figures(output)
    return Turn(rate, cpu / requests, p99, max(0.0, others / capacity))


def wrk_turn(server, request, body_file, seconds):
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s",
               os.path.join(HERE, "lua", "post.lua"), f"http://{server.host}:{server.port}{request.path}", "--",
               body_file, request.type, *([request.accept] if request.accept else [])]

    def figures(output):
        line = next((l for l in output.splitlines() if l.startswith("figures ")), None)
        if not line:
            raise Broken("wrk gave no figures: " + output.strip()[-500:])
        requests, us, failed, p99 = map(int, line.split()[1:])
        if failed or not requests:
            raise Broken(f"{failed} of {requests} requests failed")
        return requests, requests / us * 1e6, p99
    return turn(server, command, figures)


def upload_turn(server, request, body_file, uploads, tools):
    command = [os.path.join(tools, "upload_client"), str(server.port), request.path, request.type, body_file,
               str(uploads)]

    def figures(output):
        times = [int(l) / 1e9 for l in output.split()]
        return len(times), 1 / statistics.median(times), 0
    return turn(server, command, figures)


def take_turns(one_turn, server, baseline, rounds):
    """[(turn of the server, turn of the baseline)], after a warm-up of each"""
    def foreign(pair):
        return max(pair[0].others, pair[1].others)
    one_turn(server), one_turn(baseline)
    pairs = []
    while len(pairs) < 3 * rounds and sum(foreign(p) < QUIET for p in pairs) < rounds:
        pairs.append((one_turn(server), one_turn(baseline)))
    return sorted(pairs, key=foreign)[:rounds]


# ---------------------------------------------------------------- what is printed
def spread(ratios):
    return f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def row(name, measured, baseline, ratio, target, cpu="", others=""):
    print(f"{name:19} {measured:>13} {baseline:>13}  {ratio:18} {target:14} {cpu:45} {others}".rstrip(), flush=True)


def report(name, pairs, unit, scale, target, cpu_target=""):
    rates = [statistics.median(p[i].rate for p in pairs) * scale for i in (0, 1)]
    cpu = statistics.median(a.cpu for a, _ in pairs)
    row(name, *(f"{r:,.0f} {unit}" if r >= 100 else f"{r:.2f} {unit}" for r in rates),
        spread([a.rate / b.rate for a, b in pairs]), target,
        (f"{cpu * 1e6:6.1f} us" if cpu < 1e-3 else f"{cpu * 1e3:6.1f} ms")
        + f" {spread([a.cpu / b.cpu for a, b in pairs])} {cpu_target}",
        f"{100 * statistics.median((a.others + b.others) / 2 for a, b in pairs):4.0f} %")


# ---------------------------------------------------------------- requests and their right answers
def floats(values):
    return array.array("f", values)


def ints(values):
    return array.array("i", values)


SMALL_PARAMS = [[round(random.Random(100 * i + j).uniform(1, 9.999), 3) for j in range(8)] for i in range(16)]
SMALL_INDICES = [3, 0, 15, 7]
SMALL_JSON = Request("/v1/gather", json.dumps({"params": SMALL_PARAMS, "indices": SMALL_INDICES},
                                              separators=(",", ":")).encode(), JSON, None)
SMALL_BINARY = Request("/v1/gather", daemon.safetensors({
    "params": ("float32", [16, 8], floats(v for r in SMALL_PARAMS for v in r).tobytes()),
    "indices": ("int32", [4], ints(SMALL_INDICES).tobytes())}), SAFETENSORS, None)

TABLE_ROWS, TABLE_WIDTH = 100_000, 64
LOOKUP_IDS = [random.Random(1).randrange(TABLE_ROWS) for _ in range(32)]
LOOKUP = Request("/v1/gather", json.dumps({"params": {"ref": "table"}, "indices": LOOKUP_IDS}).encode(), JSON,
                 SAFETENSORS)


def write_table(folder):
    """table.npy: the row at i holds i * 64, i * 64 + 1, ..., all exact in float32"""
    with open(os.path.join(folder, "table.npy"), "wb") as f:
        f.write(daemon.npy("float32", [TABLE_ROWS, TABLE_WIDTH], floats(range(TABLE_ROWS * TABLE_WIDTH)).tobytes()))


def rows_of_range(indices, width):
    return floats(v for i in indices for v in range(i * width, (i + 1) * width)).tobytes()


def large_binary(rows, width, n_indices):
    """(request, its output's bytes); no more than 2^24 elements, so that all are exact"""
    indices = [7919 * i % rows for i in range(n_indices)]
    body = daemon.safetensors({"params": ("float32", [rows, width], floats(range(rows * width)).tobytes()),
                               "indices": ("int32", [n_indices], ints(indices).tobytes())})
    return Request("/v1/gather", body, SAFETENSORS, None), rows_of_range(indices, width)


def post(client, request):
    headers = {"Content-Type": request.type, **({"Accept": request.accept} if request.accept else {})}
    return client.post(request.path, request.body, headers)


def ask(server, request):
    with Client(server) as client:
        return post(client, request)


def check_json(server, request, rows):
    answer = ask(server, request)
    wanted = {"output": {"dtype": "float32", "shape": [len(rows), len(rows[0])], "data": rows}}
    if answer.status != 200 or answer.json() != wanted:
        raise Broken(f"a wrong answer: {answer}")


def check_binary(server, request, shape, raw):
    answer = ask(server, request)
    if answer.status != 200 or daemon.read_safetensors(answer.body)[0] != {"output": ("float32", shape, raw)}:
        raise Broken(f"a wrong answer: {answer}")


# ---------------------------------------------------------------- cases
class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.tools = os.path.join(os.path.dirname(os.path.abspath(args.binary)), "tests", "bench")
        self.data = os.path.join(folder, "data")
        os.mkdir(self.data)
        write_table(self.data)

    def tensord(self, *options):
        return Daemon("--data-dir", self.data, *options)

    def body_file(self, request):
        path = os.path.join(self.folder, "body")
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
        p99 = [statistics.median(p[i].p99 for p in pairs) for i in (0, 1)]
        row("workers, p99", f"{p99[0]:.0f} us", f"{p99[1]:.0f} us", spread([a.p99 / b.p99 for a, b in pairs]),
            "at most 2")

    def memory(self):
        with self.tensord() as tensord:
            with Client(tensord) as client:
                client.ask("GET", "/readyz")
                idle = resident(tensord.process)
                run_mixture(tensord, mixture())
                announced = client.ask("GET", "/readyz").json()["memory"]
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

    def bench_einsum_memory(self):
        self.program("bench_einsum_memory")


# ---------------------------------------------------------------- memory
def resident(process, what="VmRSS"):
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith(what + ":"))


def resident_of_file(process, name):
    """bytes of a mapped file that are resident"""
    total, inside = 0, False
    with open(f"/proc/{process.pid}/smaps") as f:
        for line in f:
            if "-" in line.split(" ", 1)[0]:
                inside = line.rstrip().endswith("/" + name)
            elif inside and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total


def mixture():
    """1000 requests with the status each must get: small and large, both formats, and mistakes"""
    many = json.dumps({"params": [round(i * 0.37 % 100, 4) for i in range(100_000)],
                       "indices": list(range(0, 100_000, 10))})
    out_of_bounds = json.dumps({"params": SMALL_PARAMS, "indices": [3, 16]})
    parts = [(300, 200, SMALL_JSON), (250, 200, SMALL_BINARY), (150, 200, LOOKUP),
             (60, 200, Request("/v1/gather", many.encode(), JSON, None)),
             (40, 200, large_binary(8192, 256, 1000)[0]), (4, 200, large_binary(65536, 256, 1000)[0]),
             (80, 400, Request("/v1/gather", SMALL_JSON.body[:-40], JSON, None)),
             (60, 422, Request("/v1/gather", out_of_bounds.encode(), JSON, None)),
             (30, 404, SMALL_JSON._replace(path="/v1/gatter")),
             (26, 415, SMALL_JSON._replace(type="text/csv"))]
    out = [(status, request) for count, status, request in parts for _ in range(count)]
    random.Random(3).shuffle(out)
    return out


def run_mixture(server, requests, threads=4):
    wrong = []

    def run(part):
        with Client(server) as client:
            for status, request in part:
                answer = post(client, request)
                if answer.status != status:
                    wrong.append(f"{status} expected, got {answer}")
    workers = [threading.Thread(target=run, args=(requests[i::threads],)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if wrong:
        raise Broken(f"{len(wrong)} wrong answers; the first: {wrong[0]}")


# ---------------------------------------------------------------- all of it
def machine():
    with open("/proc/cpuinfo") as f:
        info = dict(l.split(":", 1) for l in f.read().split("\n\n")[0].replace("\t", "").splitlines())
    family = "".join(f" {key.split()[-1]} {info[key].strip()}" for key in ("cpu family", "model") if key in info)
    return f"{info.get('model name', platform.machine()).strip()}{family}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    parser.add_argument("--only", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=1, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    daemon.BINARY = args.binary
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
