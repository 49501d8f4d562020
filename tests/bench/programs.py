#!/usr/bin/env python3
"""Measures programs over HTTP, beside single ops and beside other libraries.

    programs.py [BINARY] [--only CASE,...] [--seconds S] [--rounds N]

one_gather  a program of one gather, as sent by POST /v1/programs/run and stored, compared with the op
chain       8 elementwise steps on 16 M float32, compared with one copy (memcpy), ONNX Runtime, NumPy, PyTorch
rank        10,000 of a million rows, scored against a vector, the best 100: compared with PyTorch, and with FastAPI and NumPy
bags        20 rows of each of 26 tables, pooled and concatenated: compared with 26 requests, and with PyTorch
features    8 tables in one call, by key and by row: compared with the slowest of the 8 single requests
minilm      the sentence model of deploy/programs, compared with ONNX Runtime, OpenVINO, PyTorch
memory      the memory of results that the plan tells, compared with the best order of the steps, and with what the daemon takes

Each program uses two threads. The clients are connections of load_client.c. The sources of a case alternate in turns of S seconds. A figure
is the median of the rounds, and a ratio the median of the rounds' ratios, with the smallest and the largest. Each case first checks the
results. A missed target does not make the run fail.
"""
import argparse, collections, contextlib, heapq, json, os, statistics, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "http")]
import daemon, peers, search_http, turns
from daemon import JSON, SAFETENSORS
from inputs import LOOKUP_IDS, SMALL_BINARY, SMALL_INDICES, SMALL_JSON, SMALL_PARAMS, Request, write_table
from turns import Broken

# Another server, as daemon.Client needs it.
Server = collections.namedtuple("Server", "host port tls socket_path", defaults=("127.0.0.1", None, None, None))
THREADS, CONNECTIONS = 2, 16
INPUTS = 32  # different inputs of a case, used in turn

RANK_APP = '''
import os, numpy
from fastapi import FastAPI, Request, Response
app, items = FastAPI(), numpy.load(os.environ["TABLE"], mmap_mode="r")

@app.get("/ready")
def ready():
    return True

@app.post("/rank")
async def rank(request: Request):
    body = await request.body()
    query, ids = numpy.frombuffer(body, "f4", 64), numpy.frombuffer(body, "i8", offset=256)
    scores = items[ids] @ query
    best = numpy.argpartition(-scores, 100)[:100]
    best = best[numpy.argsort(-scores[best])]
    return Response(ids[best].tobytes() + scores[best].tobytes(), media_type="application/octet-stream")
'''


# ---------------------------------------------------------------- figures
def take_rounds(args, sources):
    """Returns {name: figures of the rounds}. sources: {name: function without arguments}. The order changes in each round."""
    names, taken = list(sources), collections.defaultdict(list)
    for i in range(args.rounds + 1):
        for name in names:
            figure = sources[name]()
            if i > 0:  # the first round is a warm-up
                taken[name].append(figure)
        names = names[1:] + names[:1]
    return taken


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def show(case, name, figures, unit):
    print(f"{case:11} {name:34} {number(statistics.median(figures)):>10} {unit:6} ({number(min(figures))} to {number(max(figures))})", flush=True)


def show_ratio(case, name, ratios, target=""):
    print(f"{case:11} {name:34} {statistics.median(ratios):>10.2f}        ({min(ratios):.2f} to {max(ratios):.2f})  {target}".rstrip(), flush=True)


def ratios(above, below):
    return [a / b for a, b in zip(above, below)]


# ---------------------------------------------------------------- requests
def binary(path, tensors, arguments=None):
    """A request in safetensors. tensors: {name: array}"""
    body = daemon.safetensors({name: (str(array.dtype), list(array.shape), array.tobytes()) for name, array in tensors.items()}, arguments)
    return Request(path, body, SAFETENSORS, SAFETENSORS)


def step(op, name, **members):
    return {"op": op, **members, "as": name}


def declared(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape)}


class Bench:
    def __init__(self, args, np, folder, log):
        self.args, self.np, self.folder, self.log, self.random = args, np, folder, log, np.random.default_rng(1)
        self.load_client = search_http.Load(args, folder)

    def server(self):
        return daemon.Daemon("--data-dir", self.folder, "--workers", str(THREADS), "--gpu", "off")

    def save(self, name, array):
        self.np.save(os.path.join(self.folder, name + ".npy"), array)
        return array

    def rows(self, name, count, columns=64):
        return self.save(name, self.random.standard_normal((count, columns), "f4"))

    def peer(self, library, case):
        """a process of program_peers.py, or None with the reason on standard output"""
        try:
            peers.install(library)
            command = [peers.PYTHON, "-B", os.path.join(HERE, "program_peers.py"), library, case, self.folder]
            return peers.Runner(library, command, THREADS, self.log)
        except peers.Refused as e:
            print(f"{case:11} {library} skipped: {e}", flush=True)
            return None

    @contextlib.contextmanager
    def peers(self, case, *libraries):
        """{name: process}"""
        started = {library: self.peer(library, case) for library in libraries}
        try:
            yield {library: runner for library, runner in started.items() if runner}
        finally:
            for runner in started.values():
                if runner:
                    runner.close()

    def time(self, runner):
        """the median call, in us"""
        return runner.time(self.args.seconds)[2] / 1000

    def load(self, server, requests, connections=1):
        """(requests per second, p50, p99 in us); requests: one, or several to send in turn"""
        requests = requests if isinstance(requests, list) else [requests]
        headers = [f"{name}: {value}" for name, value in requests[0].headers().items()]
        rate, p50, p99 = self.load_client(server.port, connections, requests[0].path, [request.body for request in requests], *headers)
        return rate, 1000 * p50, 1000 * p99

    def load_and_cpu(self, server, request):
        """(requests per second, CPU time of the daemon per request in us)"""
        before = turns.cpu_seconds(server.process)
        rate = self.load(server, request, CONNECTIONS)[0]
        return rate, 1e6 * (turns.cpu_seconds(server.process) - before) / (rate * self.args.seconds)

    def store(self, server, name, program):
        with daemon.Client(server) as client:
            reply = client.request("PUT", f"/v1/programs/{name}", program)
            if reply.status != 201 or not reply.json()["ready"]:
                raise Broken(f"{name}: {reply}")

    def reply(self, server, request):
        with daemon.Client(server) as client:
            reply = client.post(request.path, request.body, request.headers())
        if reply.status != 200:
            raise Broken(f"{request.path}: {reply}")
        return reply

    def output(self, server, request, name="output"):
        dtype, shape, raw = daemon.read_safetensors(self.reply(server, request).body)[0][name]
        return self.np.frombuffer(raw, dtype).reshape(shape)

    def expect(self, found, wanted, what, tolerance=1e-5):
        found = self.np.asarray(found).reshape(wanted.shape)
        off = self.np.abs(found.astype("f8") - wanted).max() / self.np.abs(wanted).max()
        if not off <= tolerance:
            raise Broken(f"{what} is off by {off:.2g} of the largest element")

    def expect_peers(self, runners, wanted, what, tolerance=1e-5):
        output = os.path.join(self.folder, "output")
        for name, runner in runners.items():
            runner.run(output)
            self.expect(self.np.fromfile(output, "f4"), wanted, f"{what} of {name}", tolerance)

    # ---- one gather
    def one_gather(self):
        """The op and the programs get the same tensors in the same format, and return the same format."""
        np = self.np
        write_table(self.folder)
        small = {"params": np.array(SMALL_PARAMS, "f4"), "indices": np.array(SMALL_INDICES, "i4")}
        ids = np.array(LOOKUP_IDS, "i4")
        inline = {"steps": [step("gather", "output", params="$params", indices="$indices")], "outputs": ["output"]}
        table = {"steps": [step("gather", "output", params={"ref": "table"}, indices="$indices")], "outputs": ["output"]}

        def text(path, members):
            return Request(path, json.dumps(members, separators=(",", ":")).encode(), JSON, SAFETENSORS)
        inputs = {"params": SMALL_PARAMS, "indices": SMALL_INDICES}
        cases = {
            "JSON": (SMALL_JSON._replace(accept=SAFETENSORS), text("/v1/programs/run", {"inputs": inputs, **inline}), text("/v1/programs/inline", inputs)),
            "safetensors": (SMALL_BINARY, None, binary("/v1/programs/inline", small)),
            "rows of a table, JSON": (text("/v1/tensors/table/gather", {"indices": LOOKUP_IDS}), text("/v1/programs/run", {"inputs": {"indices": LOOKUP_IDS}, **table}),
                                      text("/v1/programs/rows", {"indices": LOOKUP_IDS})),
            "rows of a table, safetensors": (binary("/v1/tensors/table/gather", {"indices": ids}), None, binary("/v1/programs/rows", {"indices": ids})),
        }
        with self.server() as server:
            self.store(server, "inline", {"inputs": {"params": declared("float32", 16, 8), "indices": declared("int32", "n")}, **inline})
            self.store(server, "rows", {"inputs": {"indices": declared("int32", "n")}, **table})
            for case, requests in cases.items():
                requests = {name: request for name, request in zip(("op", "run", "stored"), requests) if request}
                for name, request in requests.items():
                    self.expect(self.output(server, request), self.output(server, requests["op"]), f"{case}, {name}", 0)
                taken = take_rounds(self.args, {name: lambda request=request: self.load_and_cpu(server, request) for name, request in requests.items()})
                for name, rounds in taken.items():
                    rates, cpu = zip(*rounds)
                    show("one_gather", f"{case}: {name}", rates, "req/s")
                    show("one_gather", "  CPU", cpu, "us")
                    if name != "op":
                        op_rates, op_cpu = zip(*taken["op"])
                        show_ratio("one_gather", "  rate / op", ratios(rates, op_rates), "at least 0.93")
                        show_ratio("one_gather", "  CPU / op", ratios(cpu, op_cpu))

    # ---- a chain of elementwise steps
    def chain(self):
        """The daemon stores the result, so the result stays in memory, as the libraries' results do."""
        from program_peers import CHAIN
        np = self.np
        x = self.save("x", self.random.standard_normal(1 << 24, "f4"))
        steps = [step(op, f"y{i}", x=f"$y{i - 1}" if i else "$x", **({} if value is None else {"y": value})) for i, (op, value) in enumerate(CHAIN)]
        program = {"inputs": {"x": {"ref": "x"}}, "steps": steps, "outputs": [f"y{len(CHAIN) - 1}"], "store": "result"}
        request = Request("/v1/programs/run", json.dumps(program).encode(), JSON)
        copy = peers.Runner("memcpy", [os.path.join(self.load_client.tools, "bench_einsum"), str(THREADS)], THREADS, self.log)
        copy.ask("ok", "copy", x.nbytes)
        with self.server() as server, self.peers("chain", "onnxruntime", "numpy", "torch") as runners:
            self.reply(server, request)
            rows = np.arange(1000)
            found = self.output(server, binary(f"/v1/tensors/result.y{len(CHAIN) - 1}/gather", {"indices": rows}))
            self.expect(found, self.numpy_chain(x[rows], CHAIN), "the result")
            self.expect_peers(runners, self.numpy_chain(x, CHAIN), "the result")
            taken = take_rounds(self.args, {"tensord": lambda: self.load(server, request)[1], "memcpy": lambda: self.time(copy),
                                            **{name: lambda runner=runner: self.time(runner) for name, runner in runners.items()}})
        copy.close()
        for name, times in taken.items():
            show("chain", name, times, "us")
        show_ratio("chain", "time / memcpy", ratios(taken["tensord"], taken["memcpy"]), "at most 1.6")
        for name in runners:
            show_ratio("chain", f"{name} / tensord", ratios(taken[name], taken["tensord"]), {"onnxruntime": "at least 2.5", "numpy": "at least 10"}.get(name, ""))

    def numpy_chain(self, x, steps):
        for op, value in steps:
            x = getattr(self.np, op)(x, *([] if value is None else [self.np.float32(value)]))
        return x

    # ---- gather, score, top 100
    def rank(self):
        """deploy/programs/rank.json, whose op search scores the rows without copying them, and the same by gather, einsum and top_k."""
        np = self.np
        items, query = self.rows("items", 1_000_000), self.save("query", self.random.standard_normal(64, "f4"))
        ids = self.save("ids", np.stack([self.random.choice(len(items), 10_000, replace=False) for _ in range(INPUTS)]))
        requests, by_steps = ([binary(f"/v1/programs/{name}", {"query": query, "ids": one}) for one in ids] for name in ("rank", "steps"))
        plain = [Request("/rank", query.tobytes() + one.tobytes()) for one in ids]
        with open(os.path.join(ROOT, "deploy", "programs", "rank.json"), encoding="utf-8") as file:
            program = json.load(file)
        steps = [step("gather", "rows", params={"ref": "items"}, indices="$ids"), step("einsum", "scores", inputs=["$rows", "$query"], equation="nd,d->n"),
                 step("top_k", {"values": "best", "indices": "place"}, x="$scores", k=100), step("gather", "who", params="$ids", indices="$place")]
        table = os.path.join(self.folder, "items.npy")
        with self.server() as server, self.peers("rank", "torch") as runners, search_http.fastapi(self.folder, table, RANK_APP) as port:
            fastapi = Server(port=port)
            self.store(server, "rank", program)
            self.store(server, "steps", {"inputs": program["inputs"], "steps": steps, "outputs": ["who", "best"]})
            wanted = np.sort(items[ids[0]] @ query)[::-1][:100]
            for name, request in ("rank", requests[0]), ("steps", by_steps[0]):
                self.expect(self.output(server, request, "best"), wanted, name)
            self.expect(np.frombuffer(self.reply(fastapi, plain[0]).body[800:], "f4"), wanted, "rank of FastAPI")
            self.expect_peers(runners, wanted, "rank")
            taken = take_rounds(self.args, {
                "one connection": lambda: self.load(server, requests), f"{CONNECTIONS} connections": lambda: self.load(server, requests, CONNECTIONS),
                "four steps": lambda: self.load(server, by_steps, CONNECTIONS), "FastAPI and NumPy": lambda: self.load(fastapi, plain, CONNECTIONS),
                **{name: lambda runner=runner: (1e6 / self.time(runner),) for name, runner in runners.items()}})
        rates = {name: [figures[0] for figures in rounds] for name, rounds in taken.items()}
        for name, rounds in rates.items():
            show("rank", name, rounds, "req/s")
        many = rates[f"{CONNECTIONS} connections"]
        show("rank", "p99, one connection", [figures[2] for figures in taken["one connection"]], "us")
        for name in runners:
            show_ratio("rank", f"{CONNECTIONS} connections / {name}", ratios(many, rates[name]), "at least 2")
            show_ratio("rank", f"one connection / {name}", ratios(rates["one connection"], rates[name]))
            show_ratio("rank", f"four steps / {name}", ratios(rates["four steps"], rates[name]))
        show_ratio("rank", f"{CONNECTIONS} connections / FastAPI", ratios(many, rates["FastAPI and NumPy"]), "at least 10")

    # ---- pooled embeddings of 26 tables
    def bags(self):
        from program_peers import BAG_IDS, BAGS
        np, count = self.np, 100_000
        tables = [self.rows(f"bag_{t}", count) for t in range(BAGS)]
        ids = self.save("ids", self.random.integers(0, count, (INPUTS, 1, BAGS, BAG_IDS)))
        parts = [step("gather", f"ids_{t}", params="$ids", indices=t, axis=1) for t in range(BAGS)]
        bags = [step("embedding_bag", f"bag_{t}", params={"ref": f"bag_{t}"}, indices=f"$ids_{t}") for t in range(BAGS)]
        program = {"inputs": {"ids": declared("int64", "b", BAGS, "h")},
                   "steps": [*(one for pair in zip(parts, bags) for one in pair), step("concat", "pooled", inputs=[f"$bag_{t}" for t in range(BAGS)], axis=1)],
                   "outputs": ["pooled"]}
        requests = [binary("/v1/programs/bags", {"ids": one}) for one in ids]
        single = [[binary(f"/v1/tensors/bag_{t}/embedding_bag", {"indices": one[:, t]}) for one in ids] for t in range(BAGS)]
        with self.server() as server, self.peers("bags", "torch") as runners:
            self.store(server, "bags", program)
            wanted = np.concatenate([table[ids[0][:, t]].sum(1) for t, table in enumerate(tables)], 1)
            self.expect(self.output(server, requests[0], "pooled"), wanted, "bags")
            self.expect(np.concatenate([self.output(server, one[0]) for one in single], 1), wanted, "26 requests")
            self.expect_peers(runners, wanted[:, -64:], "the last bag")
            turn = iter(range(1 << 30))
            taken = take_rounds(self.args, {
                "program": lambda: self.load(server, requests, CONNECTIONS), "program, one connection": lambda: self.load(server, requests),
                "one of 26 requests": lambda: self.load(server, single[next(turn) % BAGS], CONNECTIONS),
                **{name: lambda runner=runner: (1e6 / self.time(runner),) for name, runner in runners.items()}})
        rates = {name: [figures[0] for figures in rounds] for name, rounds in taken.items()}
        for name, rounds in rates.items():
            show("bags", name, rounds, "req/s")
        for name in ("program", "program, one connection"):
            show("bags", f"p99, {name}", [figures[2] for figures in taken[name]], "us")
        show_ratio("bags", "program / 26 requests", ratios(rates["program"], [rate / BAGS for rate in rates["one of 26 requests"]]), "at least 5")
        for name in runners:
            show_ratio("bags", f"program / {name}", ratios(rates["program"], rates[name]), "at least 0.7")
            show_ratio("bags", f"one connection / {name}", ratios(rates["program, one connection"], rates[name]))

    # ---- several tables in one call
    def features(self):
        """4 rows by key from each of 4 tables, and 4 sums of 20 rows from each of 4 tables. The time of the reply's bytes is measured with a gather."""
        np, count, rows = self.np, 100_000, 4
        lookups, bags = [f"keyed_{t}" for t in range(4)], [f"pooled_{t}" for t in range(4)]
        for name in lookups:
            self.rows(name, count)
            self.save(f"{name}.keys", 7 * self.random.permutation(count))
        for name in bags:
            self.rows(name, count)
        keys = {name: self.random.choice(np.load(os.path.join(self.folder, f"{name}.keys.npy")), rows) for name in lookups}
        ids = {name: self.random.integers(0, count, (rows, 20)) for name in bags}
        steps = [*(step("lookup", {"output": f"of_{name}"}, params={"ref": name}, queries=f"${name}") for name in lookups),
                 *(step("embedding_bag", f"of_{name}", params={"ref": name}, indices=f"${name}") for name in bags),
                 step("concat", "features", inputs=[f"$of_{name}" for name in (*lookups, *bags)], axis=1)]
        program = {"inputs": {**{name: declared("int64", "n") for name in lookups}, **{name: declared("int64", "n", 20) for name in bags}},
                   "steps": steps, "outputs": ["features"]}
        single = {**{name: binary(f"/v1/tensors/{name}/lookup", {"queries": keys[name]}) for name in lookups},
                  **{name: binary(f"/v1/tensors/{name}/embedding_bag", {"indices": ids[name]}) for name in bags}}
        whole = binary("/v1/programs/features", {**keys, **ids})
        gather = {n: binary("/v1/tensors/pooled_0/gather", {"indices": np.resize(ids["pooled_0"], n)}) for n in (rows, rows * len(single))}
        with self.server() as server:
            self.store(server, "features", program)
            self.expect(self.output(server, whole, "features"), np.concatenate([self.output(server, one) for one in single.values()], 1), "the features")
            sources = {"program": whole, **single, "bytes of one": gather[rows], "bytes of all": gather[rows * len(single)]}
            taken = take_rounds(self.args, {name: lambda request=request: self.load(server, request)[1] for name, request in sources.items()})
        slowest = max(single, key=lambda name: statistics.median(taken[name]))
        for name in ("program", slowest, "bytes of one", "bytes of all"):
            show("features", f"slowest table: {name}" if name == slowest else name, taken[name], "us")
        allowed = [one + all_of_it - part for one, all_of_it, part in zip(taken[slowest], taken["bytes of all"], taken["bytes of one"])]
        show_ratio("features", "program / (slowest + bytes)", ratios(taken["program"], allowed), "at most 1")
        show_ratio("features", "8 requests / program", ratios(map(sum, zip(*(taken[name] for name in single))), taken["program"]))

    # ---- a sentence model
    def write_minilm(self):
        """Writes random weights; the time does not depend on their values."""
        sizes = {f"embeddings.{name}_embeddings.weight": (rows, 384) for name, rows in (("word", 30522), ("position", 512), ("token_type", 2))}
        norms = ["embeddings.LayerNorm"]
        for name in (f"encoder.layer.{layer}" for layer in range(6)):
            norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
            linear = {**{f"{name}.attention.{part}": (384, 384) for part in ("self.query", "self.key", "self.value", "output.dense")},
                      f"{name}.intermediate.dense": (1536, 384), f"{name}.output.dense": (384, 1536)}
            for layer, shape in linear.items():
                sizes.update({f"{layer}.weight": shape, f"{layer}.bias": shape[:1]})
        for name in norms:
            sizes.update({f"{name}.weight": (384,), f"{name}.bias": (384,)})
        tensors = {name: self.random.normal(0, 0.05, shape).astype("f4") for name, shape in sizes.items()}
        with open(os.path.join(self.folder, "minilm.safetensors"), "wb") as file:
            entries = {name: ("float32", list(array.shape), array.tobytes()) for name, array in tensors.items()}
            header = int.from_bytes(daemon.safetensors(entries)[:8], "little")
            file.write(daemon.safetensors(entries, pad=-header % 8))  # as the library safetensors does, so elements are aligned
        with open(os.path.join(ROOT, "deploy", "programs", "minilm.json"), encoding="utf-8") as file:
            return json.load(file)

    def minilm(self):
        program = self.write_minilm()
        for b, s in ((1, 16), (8, 128)):
            ids, mask = self.save("ids", self.random.integers(0, 30522, (b, s))), self.save("mask", self.np.ones((b, s), "i8"))
            request, case = binary("/v1/programs/minilm", {"ids": ids, "mask": mask}), f"{b} x {s}"
            with self.server() as server, self.peers("minilm", "onnxruntime", "openvino", "torch") as runners:
                self.store(server, "minilm", program)
                self.expect_peers(runners, self.output(server, request, "vectors"), "the vectors", 1e-4)
                taken = take_rounds(self.args, {"tensord": lambda: self.load(server, request)[1], **{name: lambda runner=runner: self.time(runner) for name, runner in runners.items()}})
            for name, times in taken.items():
                show("minilm", f"{case}: {name}", times, "us")
            for name in runners:
                show_ratio("minilm", f"{case}: {name} / tensord", ratios(taken[name], taken["tensord"]))

    # ---- memory
    def memory(self):
        np = self.np
        program = self.write_minilm()
        inputs = {"ids": self.random.integers(0, 30522, (8, 128)), "mask": np.ones((8, 128), "i8")}
        with self.server() as server:
            self.store(server, "minilm", program)
            plan = self.plan(server, program, inputs)
            self.output(server, binary("/v1/tensors/minilm:embeddings.word_embeddings.weight/gather", {"indices": inputs["ids"]}))
            self.output(server, binary("/v1/programs/minilm", {name: value[:1, :16] for name, value in inputs.items()}), "vectors")
            with open(f"/proc/{server.process.pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # resets the peak
            before = turns.resident(server.process)
            self.output(server, binary("/v1/programs/minilm", inputs), "vectors")
            taken = turns.resident(server.process, "VmHWM") - before
        best = least_memory(units_of(program, plan["steps"]))
        print(f"memory      minilm, 8 x 128: results_bytes {plan['results_bytes']:,}, best order {best:,}, ratio {plan['results_bytes'] / best:.3f} (at most 1.1)")
        print(f"memory      minilm, 8 x 128: peak_bytes {plan['peak_bytes']:,}, taken {taken:,}, ratio {taken / plan['peak_bytes']:.3f}", flush=True)

    def plan(self, server, program, inputs):
        body = {**program, "inputs": {name: daemon.tensor(str(value.dtype), value.shape, value.tobytes()) for name, value in inputs.items()}}
        return self.reply(server, Request("/v1/programs/plan", json.dumps(body).encode(), JSON)).json()


# ---------------------------------------------------------------- the best order of the steps
def named(value):
    """the names in the references of a step"""
    if isinstance(value, str):
        return [value[1:]] if value.startswith("$") else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for part in parts for name in named(part)]


def units_of(program, told):
    """[(values read, {value: bytes} written)] for each unit, a group of steps that run as one. told: the steps of the plan. A reshaped result
    counts as the value that it was made from. Inputs, tables and outputs are not results. Results that only the unit itself reads have no memory."""
    memory_of, units = {}, []
    for i, (one, plan) in enumerate(zip(program["steps"], told)):
        made = one["as"]
        names = [made] if isinstance(made, str) else list(made.values() if isinstance(made, dict) else made)
        read = [memory_of[name] for name in named(one) if name in memory_of]
        if plan["runs"] == "shared":
            memory_of.update(zip(names, read))
            continue
        if plan["runs"] == "alone" or plan["from"] == i:
            units.append((set(), {}))
        units[-1][0].update(read)
        units[-1][1].update({name: -(-result["bytes"] // 64) * 64 for name, result in zip(names, plan["results"]) if name not in program["outputs"]})
        memory_of.update({name: name for name in names if name not in program["outputs"]})
    all_read = collections.Counter(name for read, _ in units for name in read)
    return [(read - set(made), {name: size for name, size in made.items() if all_read[name] > (name in read)}) for read, made in units]


def least_memory(units):
    """The peak of the best order: continues the set of units with the smallest peak until all units have run."""
    writer = {name: i for i, (_, made) in enumerate(units) for name in made}
    size = {name: bytes_ for _, made in units for name, bytes_ in made.items()}
    readers = {name: sum(1 << i for i, (read, _) in enumerate(units) if name in read) for name in writer}
    needs = [sum({1 << writer[name] for name in read}) for read, _ in units]
    best, heap = {0: 0}, [(0, 0, 0)]
    while heap:
        peak, _, done = heapq.heappop(heap)
        if done == (1 << len(units)) - 1:
            return peak
        live = sum(size[name] for name in writer if done >> writer[name] & 1 and readers[name] & ~done)
        for i, (_, made) in enumerate(units):
            then, its = done | 1 << i, max(peak, live + sum(made.values()))
            if then != done and not needs[i] & ~done and its < best.get(then, 1 << 62):
                best[then] = its
                heapq.heappush(heap, (its, -bin(then).count("1"), then))
    raise Broken("the steps have no order")


CASES = ("one_gather", "chain", "rank", "bags", "features", "minilm", "memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default=os.path.join(ROOT, "build", "tensord"))
    parser.add_argument("--only", default=",".join(CASES), metavar="CASE,...")
    parser.add_argument("--seconds", type=float, default=1, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    daemon.BINARY = args.binary = os.path.abspath(args.binary)
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "onnx", "fastapi", "uvicorn", "uvloop", "httptools"):
        peers.install(package)
    import numpy as np
    print(f"{turns.machine()}, load {os.getloadavg()[0]:.2f}; {args.rounds} rounds of {args.seconds} s each; {THREADS} threads each", flush=True)
    for case in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="tensord-bench-") as folder, tempfile.TemporaryFile("w+") as log:
            getattr(Bench(args, np, folder, log), case)()
        print(f"{case:11} load {os.getloadavg()[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
