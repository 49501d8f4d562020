"""Measures load from load_client.c: overload and fairness with clients that retry at once, each from its own address, and
latencies at a fixed rate."""
import collections, json, os, random, statistics, subprocess, time
import daemon
from inputs import (SMALL_BINARY, SMALL_INDICES, SMALL_JSON, SMALL_PARAMS, TABLE_ROWS, TABLE_WIDTH, Request, check_binary,
                    check_json, floats, rows_of_range)
from turns import (CONNECTIONS, Broken, DropServer, cpu_seconds, machine_seconds, own_seconds, report, row, spread, take_turns,
                   turn)
from daemon import JSON, SAFETENSORS, Client

# per second; microseconds
Load = collections.namedtuple("Load", "accepted refused failed p50 p99")

# A server and the PORT argument of load_client.
Way = collections.namedtuple("Way", "process port")

FEW, MANY, HOG = "127.0.0.2", "127.0.0.3", 600
QUEUE = 64
SMALL_PACE = "1000us" # between small requests of a connection; without a pause they would take all CPU that sums leave
WARM_UP = 0.5  # seconds of load before the measurement
PEAK_TURNS = 3
STEADY = 0.7  # of the peak rate

# Sums over resident tensors: name (with the time on an idle worker), number of float32 rows of 64 elements
SUMS = (("sum_100us", 5_000), ("sum_5ms", 150_000))


def sum_of(name):
    return Request("/v1/einsum", json.dumps({"equation": "ij->", "inputs": [{"ref": name}]}).encode(), JSON)


def read_load(output):
    line = next((l for l in output.splitlines() if l.startswith("figures ")), None)
    if not line:
        raise Broken("load_client printed no figures: " + output.strip()[-500:])
    accepted, refused, failed, seconds, p50, p99, _ = map(float, line.split()[1:])
    if failed or not accepted:
        raise Broken(f"{failed:.0f} requests failed and {accepted:.0f} were accepted")
    return Load(accepted / seconds, refused / seconds, failed / seconds, p50, p99)


def wait_until_closed(server):
    """Waits until the server has closed the connections of the turn before, which would influence this turn."""
    with Client(server) as client:
        daemon.eventually(lambda: client.request("GET", "/readyz").json()["open"]["connections"] == 1)


class LoadCases:
    def load_command(self, server, source, connections, seconds, request, pace="0"):
        body = self.file(f"body-{len(request.body)}")
        with open(body, "wb") as f:
            f.write(request.body)
        headers = [f"{name}: {value}" for name, value in request.headers().items()]
        return [f"{self.tools}/load_client", str(server.port), source, str(connections), pace, str(seconds),
                "POST", request.path, body, *headers]

    def load(self, *args):
        return read_load(subprocess.check_output(self.load_command(*args), text=True))

    def unix(self):
        """Sends *json* to one server over a Unix socket and over TCP, and to the drop server over TCP."""
        socket = "unix:" + self.file("socket")
        with self.tensord("--listen", "127.0.0.1:0", "--listen", socket) as tensord, DropServer(self.tools) as drop:
            check_json(tensord, SMALL_JSON, [SMALL_PARAMS[i] for i in SMALL_INDICES])

            def one_turn(server):
                command = self.load_command(server, FEW, CONNECTIONS, self.args.seconds, SMALL_JSON)

                def figures(output):
                    load = read_load(output)
                    return load.accepted * self.args.seconds, load.accepted, load.p99
                return turn(server, lambda: subprocess.check_output(command, text=True), figures)
            rounds = take_turns(one_turn, Way(tensord.process, socket), tensord, self.args.rounds, drop)
        report("unix, TCP", [(unix, tcp) for unix, tcp, _ in rounds], "req/s", 1, "at least 1.4", "")
        report("unix, drop", [(unix, drop) for unix, _, drop in rounds], "req/s", 1, "", "below 1")

    def steady(self, name, server, baseline, request, target):
        """Measures latencies at STEADY of the peak rate of each of the two servers."""
        def turns(paces):
            return [self.load(s, FEW, CONNECTIONS, self.args.seconds, request, pace) for s, pace in zip((server, baseline), paces)]
        fastest = ("0", "0")
        turns(fastest)
        peaks = [statistics.median(l.accepted for l in loads) for loads in zip(*(turns(fastest) for _ in range(PEAK_TURNS)))]
        rounds = [turns([f"{STEADY * peak:.0f}/s" for peak in peaks]) for _ in range(self.args.rounds)]
        self.report_steady(name, peaks, rounds, target)

    def report_steady(self, name, peaks, rounds, target):
        def line(what, get, target=""):
            row(f"{name}, {what}", *(f"{statistics.median(map(get, loads)):,.0f} us" for loads in zip(*rounds)),
                spread([get(a) / max(1, get(b)) for a, b in rounds]), target)
        row(f"{name}, peak", *(f"{peak:,.0f} req/s" for peak in peaks), "", "")
        row(f"{name}, replies", *(f"{statistics.median(l.accepted for l in loads):,.0f} req/s" for loads in zip(*rounds)), "",
            f"{STEADY} of the peak")
        line("p50", lambda l: l.p50)
        line("p99", lambda l: l.p99, target)

    def json_steady(self):
        with self.tensord() as tensord, DropServer(self.tools) as drop:
            check_json(tensord, SMALL_JSON, [SMALL_PARAMS[i] for i in SMALL_INDICES])
            self.steady("json", tensord, drop, SMALL_JSON, "at most 2")

    def safetensors_steady(self):
        with self.tensord() as tensord, DropServer(self.tools) as drop:
            check_binary(tensord, SMALL_BINARY, [4, 8], floats(v for i in SMALL_INDICES for v in SMALL_PARAMS[i]).tobytes())
            self.steady("safetensors", tensord, drop, SMALL_BINARY, "at most 2")

    def keyed_steady(self):
        """Looks up 32 rows by keys of text, as redis.py does, but always the same rows."""
        keys = [f"key:{i:012d}" for i in range(TABLE_ROWS)]
        wanted = [random.Random(2).randrange(TABLE_ROWS) for _ in range(32)]
        look = Request("/v1/tensors/table/gather", json.dumps({"keys": [keys[i] for i in wanted]}).encode(), JSON, SAFETENSORS)
        with self.tensord() as tensord, DropServer(self.tools, 8192) as drop:
            with Client(tensord) as client:
                reply = client.request("PUT", "/v1/tensors/table/keys", keys)
            if reply.status != 201:
                raise Broken(f"wrong reply: {reply}")
            check_binary(tensord, look, [32, TABLE_WIDTH], rows_of_range(wanted, TABLE_WIDTH))
            self.steady("keyed", tensord, drop, look, "at most 1000 us")

    def beside(self, background, foreground):
        """Runs two commands and returns their loads. The second command is shorter and runs while the first one runs."""
        hog = subprocess.Popen(background, stdout=subprocess.PIPE, text=True)
        time.sleep(WARM_UP)
        small = read_load(subprocess.check_output(foreground, text=True))
        return read_load(hog.communicate()[0]), small

    def busy_server(self, *options):
        server = self.tensord(*options)
        with Client(server) as client:
            for name, rows in SUMS:
                table = daemon.npy("float32", [rows, 64], bytes(rows * 256))
                reply = client.request("PUT", f"/v1/tensors/{name}", table, {"Content-Type": "application/x-npy"})
                if reply.status != 201:
                    raise Broken(f"PUT {name}: {reply}")
        check_json(server, SMALL_JSON, [SMALL_PARAMS[i] for i in SMALL_INDICES])
        return server

    def measured(self, server, work):
        """Returns the result of work(), the CPUs that the server used, and the fraction of the machine that others used."""
        cpu, (busy, capacity), own, began = cpu_seconds(server.process), machine_seconds(), own_seconds(), time.monotonic()
        out = work()
        took, cpu = time.monotonic() - began, cpu_seconds(server.process) - cpu
        others = machine_seconds()[0] - busy - (own_seconds() - own) - cpu
        return out, cpu / took, max(0.0, others / (machine_seconds()[1] - capacity))

    def overload(self):
        """Compares as many connections as fit in the queue with ten times as many."""
        seconds = self.args.seconds
        for name, _ in SUMS:
            with self.busy_server("--queue-limit", str(QUEUE)) as server:
                def turn(connections):
                    wait_until_closed(server)
                    return self.measured(server, lambda: self.beside(
                        self.load_command(server, MANY, connections, seconds + 2 * WARM_UP, sum_of(name)),
                        self.load_command(server, FEW, 2, seconds, SMALL_JSON, SMALL_PACE)))
                turn(QUEUE)
                pairs = [(turn(10 * QUEUE), turn(QUEUE)) for _ in range(self.args.rounds)]
            self.report_overload(name, pairs)

    def report_overload(self, name, pairs):
        def median(value):
            return [statistics.median(value(p[i]) for p in pairs) for i in (0, 1)]

        def line(what, unit, value, target):
            row(f"{name}, {what}", *(f"{v:,.0f} {unit}" for v in median(value)),
                spread([value(a) / max(1, value(b)) for a, b in pairs]), target)
        ten, one = median(lambda t: t[1])
        line("10x", "req/s", lambda t: t[0][0].accepted, "at least 0.9")
        others = 100 * statistics.median((a[2] + b[2]) / 2 for a, b in pairs)
        print(f"{'':19} CPU {ten:.2f} and {one:.2f} of {os.cpu_count()}; others {others:.0f} %", flush=True)
        line("10x, per CPU", "req/s", lambda t: t[0][0].accepted / t[1], "")
        line("refused", "req/s", lambda t: t[0][0].refused, "")
        line("p99", "us", lambda t: t[0][0].p99, "")
        line("small p99", "us", lambda t: t[0][1].p99, "below 20 ms")

    def fairness(self):
        """Measures a client with four connections, alone and next to a client with 600."""
        seconds = self.args.seconds
        requests = {"inline": SMALL_JSON, **{name: sum_of(name) for name, _ in SUMS}}
        with self.busy_server() as server:
            for mine, theirs in (("inline", "inline"), ("sum_100us", "sum_100us"), ("inline", "sum_100us"),
                                 ("sum_5ms", "sum_5ms"), ("inline", "sum_5ms"), ("sum_100us", "sum_5ms")):
                few = self.load_command(server, FEW, 4, seconds, requests[mine])
                many = self.load_command(server, MANY, HOG, seconds + 2 * WARM_UP, requests[theirs])
                pairs, others = [], []
                for _ in range(self.args.rounds):
                    wait_until_closed(server)
                    alone, _, quiet = self.measured(server, lambda: read_load(subprocess.check_output(few, text=True)))
                    wait_until_closed(server)
                    (hog, beside), cpu, busy = self.measured(server, lambda: self.beside(many, few))
                    pairs.append((beside, alone))
                    others.append((quiet + busy) / 2)
                for what, get in (("p50", lambda l: l.p50), ("p99", lambda l: l.p99)):
                    figures = [f"{statistics.median(get(p[i]) for p in pairs):,.0f} us" for i in (0, 1)]
                    row(f"{mine} beside {theirs}, {what}", *figures, spread([get(a) / max(1, get(b)) for a, b in pairs]),
                        "at most 3" if what == "p99" else "",
                        f"CPU {cpu:.2f}, the hog's last {hog.accepted:,.0f} req/s" if what == "p99" else "",
                        f"{100 * statistics.median(others):4.0f} %" if what == "p99" else "")
