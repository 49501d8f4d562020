#!/usr/bin/env python3
"""Compares einsum, dynamic_stitch and dynamic_partition with NumPy, PyTorch and TensorFlow, and with memcpy.

    einsum.py [--binary build/tensord] [--only PART] [--match TEXT] [--peers NAME,...] [--rounds N] [--seconds S]
              [--best]

PART is einsum or rows.  The first run installs the libraries with pip (see peers.py).  It skips a library that cannot be
installed, and prints the reason.  Each program uses two threads, and the programs alternate in turns of S seconds.  A
figure is the median over N rounds of the turns' medians.  A ratio compares tensord with the fastest peer of the case: it
is the median of the rounds' ratios, above 1 if tensord is faster.  The script repeats rounds in which other processes used
more than 5 % of the machine, up to 2 N rounds in all.  The N quietest rounds count, and the use by other processes in them
is printed as "others".  --best reports the fastest call, which other load on the machine distorts less than the median.

A slow case never fails the run.  A wrong result does, and so does an einsum that uses more memory than its plan announced.
"""
import argparse, collections, math, os, platform, statistics, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers
from peers import Refused, Runner

THREADS = 2
KIB, MIB = 1 << 10, 1 << 20

# what: the group of the case in the summary. Inputs are written to files when the case starts.
Einsum = collections.namedtuple("Einsum", "what equation dtype shapes")
Rows = collections.namedtuple("Rows", "op row_bytes n_rows parts")
Case = collections.namedtuple("Case", "op attrs inputs")


# ---------------------------------------------------------------- the cases of einsum
def matmul(n, dtype="float32", equation="ij,jk->ik", what="gemm"):
    return Einsum(what, equation, dtype, [(n, n), (n, n)])


def batched(n, batch):
    return Einsum("batched", "bij,bjk->bik", "float32", [(batch, n, n), (batch, n, n)])


def single(equation, *shapes, what="memory", dtype="float32"):
    return Einsum(what, equation, dtype, list(shapes))


EINSUMS = [
    *(matmul(n) for n in (64, 128, 256, 512, 1024, 2048)),
    *(matmul(n, "float64") for n in (512, 1024, 2048)),
    *(matmul(512, dtype, what="other dtypes") for dtype in ("bfloat16", "float16", "int32")),
    *(batched(n, batch) for n, batch in ((8, 2000), (16, 2000), (32, 512), (64, 64), (128, 16), (512, 4))),
    *(matmul(1024, equation=e, what="strided") for e in ("ji,jk->ik", "ij,kj->ik", "ij,jk->ki")),
    single("bqhd,bkhd->bhqk", (4, 128, 12, 64), (4, 128, 12, 64), what="strided"),
    single("bhqk,bkhd->bqhd", (4, 12, 128, 128), (4, 128, 12, 64), what="strided"),
    single("bi,ijk,bk->bj", (64, 96), (96, 96, 96), (64, 96), what="strided"),
    single("...ij,...jk->...ik", (8, 1, 64, 64), (1, 6, 64, 64), what="batched"),
    single("ij,jk->ik", (16, 16), (16, 16), what="small"),
    single("bij,bjk->bik", (4, 8, 8), (4, 8, 8), what="small"),
    single("ab,bc,cd->ad", (10, 20), (20, 30), (30, 5), what="small"),
    single("i,i->", (100,), (100,), what="small"),
    single("i,j->ij", (4000,), (4000,)),
    single("ii->i", (4000, 4000)),
    single("ii->", (4000, 4000)),
    single("ij->", (4000, 4000)),
    single("ij->j", (4000, 4000)),
    single("ij->i", (4000, 4000)),
    single("ijk->j", (200, 300, 200)),
    single("ij,j->i", (4000, 4000), (4000,)),
    single("ij->ji", (3000, 3000)),
    single("ab,bc,cd,de->ae", *[(300, 300)] * 4, what="chains"),
    single("ab,bc,cd->ad", (1000, 2), (2, 1000), (1000, 50), what="chains"),
    single("abc,cde,efg,bdf,gh->ah", *[(16, 16, 16)] * 4, (16, 16), what="chains"),
]
# Largest error of a result with positive terms, relative to its largest element.  float32 sums of a few thousand terms are
# off by about 1e-6 in any order.  Results in a 16-bit type are rounded to 11 or 8 bits.
TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3, "int32": 0}
SIZES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4}


def bfloat16_bits(np, values):
    """nearest bfloat16, as its 16 bits"""
    bits = values.astype("float32").view("uint32")
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("uint16")


def from_bytes(np, dtype, raw):
    if dtype == "bfloat16":
        return (np.frombuffer(raw, "uint16").astype("uint32") << 16).view("float32")
    return np.frombuffer(raw, dtype)


def write_inputs(case, np, folder):
    """(Case, the check of its result)"""
    random, inputs, values = np.random.default_rng(1), [], []
    for i, shape in enumerate(case.shapes):
        file = os.path.join(folder, f"input{i}")
        if case.dtype == "int32":
            stored = random.integers(-1000, 1000, shape, "int32")
        else:
            stored = random.uniform(0.5, 1.5, shape)
            stored = bfloat16_bits(np, stored) if case.dtype == "bfloat16" else stored.astype(case.dtype)
        stored.tofile(file)
        values.append(from_bytes(np, case.dtype, stored.tobytes()).reshape(shape))
        inputs.append(("inputs", case.dtype, shape, file))
    wide = "int64" if case.dtype == "int32" else "float64"
    wanted = np.einsum(case.equation, *(v.astype(wide) for v in values), optimize=True)

    def error(raw):
        """error of a result, relative to the largest expected element; infinite for a wrong size"""
        got = from_bytes(np, case.dtype, raw)
        if got.size != wanted.size:
            return math.inf
        if case.dtype == "int32":
            return 0 if (got == wanted.astype("int32").ravel()).all() else math.inf
        return float(np.abs(got.astype(wide) - wanted.ravel()).max() / np.abs(wanted).max())
    return Case("einsum", {"equation": case.equation}, inputs), error


def touched(case, bytes_read, bytes_written):
    """bytes that must be read and written: of a diagonal only itself"""
    subscripts = case.equation.split("->")[0].split(",")
    if not any(len(set(s)) < len(s) for s in subscripts) or "..." in case.equation:
        return bytes_read + bytes_written
    return bytes_written + sum(math.prod(dict(zip(s, shape)).values()) * SIZES[case.dtype]
                              for s, shape in zip(subscripts, case.shapes))


def shape_text(case):
    return f"{case.equation} {case.dtype} " + " ".join(f"[{','.join(map(str, shape))}]" for shape in case.shapes)


# ---------------------------------------------------------------- the cases of stitch and partition
ROW_BYTES = (4, 16, 64, 256, 1024, 4096)
ROWS_PARTS = [("dynamic_stitch", 1, ROW_BYTES), ("dynamic_stitch", 4, (4, 256, 4096)),
              ("parallel_dynamic_stitch", 4, (256,)), ("dynamic_partition", 4, ROW_BYTES),
              ("dynamic_partition", 32, (4, 256, 4096))]


def rows_cases():
    for op, parts, widths in ROWS_PARTS:
        for row_bytes in widths:
            yield Rows(op, row_bytes, 10, parts)
            for total in (64 * KIB, 4 * MIB, 256 * MIB):
                if total < 256 * MIB or row_bytes in (4, 256, 4096):
                    yield Rows(op, row_bytes, total // row_bytes, parts)


def write_rows(case, np, folder):
    random = np.random.default_rng(1)
    width = case.row_bytes // 4
    data = random.integers(-2**31, 2**31, (case.n_rows, width), "int32")

    def file(name, array):
        path = os.path.join(folder, name)
        array.tofile(path)
        return path
    if case.op == "dynamic_partition":
        of = random.integers(0, case.parts, case.n_rows, "int32")
        inputs = [("data", "float32", data.shape, file("data", data)),
                  ("partitions", "int32", of.shape, file("partitions", of))]
        wanted, attrs = data[np.argsort(of, kind="stable")], {"num_partitions": case.parts}
    else:
        # Every row once, in random order: the worst case for caches.
        to = random.permutation(case.n_rows).astype("int32")
        parts = list(zip(np.array_split(to, case.parts), np.array_split(data, case.parts)))
        inputs = [("indices", "int32", i.shape, file(f"indices{n}", i)) for n, (i, _) in enumerate(parts)]
        inputs += [("data", "float32", d.shape, file(f"data{n}", d)) for n, (_, d) in enumerate(parts)]
        wanted, attrs = np.empty_like(data), {}
        wanted[to] = data
    wanted = wanted.tobytes()
    return Case(case.op, attrs, inputs), lambda raw: 0 if raw == wanted else math.inf


# ---------------------------------------------------------------- turns
Turn = collections.namedtuple("Turn", "ns others")


def turn(runner, args):
    import turns
    cpu, (busy, capacity), own = turns.cpu_seconds(runner.process), turns.machine_seconds(), turns.own_seconds()
    _, best, median = runner.time(args.seconds)
    cpu = turns.cpu_seconds(runner.process) - cpu
    others = turns.machine_seconds()[0] - busy - (turns.own_seconds() - own) - cpu
    return Turn(best if args.best else median, max(0.0, others / max(turns.machine_seconds()[1] - capacity, 1e-9)))


def take_turns(runners, args):
    """Returns [{name: Turn}] of the quietest rounds.  The order changes in each round.  A library whose calls take more
    than a second, and ten times as long as the fastest, runs in the first round only."""
    import turns
    rounds, names = [], list(runners)

    def others(turns):
        return statistics.median(t.others for t in turns.values())
    while len(rounds) < 2 * args.rounds and sum(others(r) < turns.QUIET for r in rounds) < args.rounds:
        before = rounds[-1] if rounds else {}
        rounds.append({**before, **{name: turn(runners[name], args) for name in names}})
        fastest = min(t.ns for t in rounds[-1].values())
        names = [n for n in names[1:] + names[:1] if rounds[-1][n].ns < max(1e9, 10 * fastest)]
    return sorted(rounds, key=others)[:args.rounds]


class Measured:
    """results of a case: ns by name, ratio to the best peer, notes"""

    def __init__(self, rounds, best, ours="tensord"):
        self.others = statistics.median(t.others for r in rounds for t in r.values())
        figure = min if best else statistics.median
        self.ns = {name: figure(r[name].ns for r in rounds) for name in rounds[0]}
        if best:
            rounds = [{name: Turn(ns, 0) for name, ns in self.ns.items()}]
        rivals = [name for name in self.ns if name not in (ours, "memcpy")]
        self.best = min(rivals, key=self.ns.get, default=None)
        self.ratio = self._ratio(rounds, ours, self.best)
        self.memcpy = self._ratio(rounds, ours, "memcpy") if "memcpy" in self.ns else None

    @staticmethod
    def _ratio(rounds, ours, rival):
        return statistics.median(r[rival].ns / r[ours].ns for r in rounds) if rival else None


class Bench:
    def __init__(self, args, np, runners, folder):
        self.args, self.np, self.runners, self.folder, self.broken = args, np, runners, folder, 0

    def begin(self, case, error, tolerance):
        """Returns the runners that support the case, the reply of tensord's run, and notes on the other runners."""
        able, notes, reply = {}, [], None
        output = os.path.join(self.folder, "output")
        for name, runner in self.runners.items():
            if name == "memcpy":
                continue
            try:
                runner.begin(case)
                this_reply = runner.run(output)
            except Refused as e:
                if name == "tensord":
                    raise
                notes.append(f"{name}: {e}")
                continue
            with open(output, "rb") as f:
                off = error(f.read())
            if name == "tensord":
                reply = this_reply
                if off > tolerance:
                    raise Refused(f"wrong result, off by {off:.2g} of the largest element")
            elif off > tolerance:
                notes.append(f"{name}: off by {off:.1g}")
            able[name] = runner
        return able, reply, notes

    def fail(self, name, why):
        self.broken += 1
        print(f"| {name} | BROKEN: {why} |", flush=True)

    def us(self, measured, name):
        ns = measured.ns.get(name)
        return "-" if ns is None else f"{ns / 1e3:,.1f}" if ns < 1e6 else f"{ns / 1e3:,.0f}"

    # ---- einsum
    def einsum(self):
        table(["case", "us", *self.rivals(), "ratio", "rate", "workspace", "others", "notes"])
        ratios = collections.defaultdict(dict)
        for case in EINSUMS:
            name = shape_text(case)
            if self.args.match not in name:
                continue
            try:
                ready, error = write_inputs(case, self.np, self.folder)
                able, reply, notes = self.begin(ready, error, TOLERANCE[case.dtype])
                read, written, flops, peak, announced = reply
                if peak > announced:
                    raise Refused(f"took {peak} bytes of workspace, but announced {announced}")
                measured = Measured(take_turns(able, self.args), self.args.best)
            except Refused as e:
                self.fail(name, e)
                continue
            ns = measured.ns["tensord"]
            # Arithmetic rate with more than two operations per byte, else bandwidth.
            nbytes = touched(case, read, written)
            rate = f"{flops / ns:.1f} GFLOP/s" if flops > 2 * nbytes else f"{nbytes / ns:.1f} GB/s"
            if measured.ratio:
                ratios[case.what][name] = measured.ratio
            row([name, self.us(measured, "tensord"), *(self.us(measured, r) for r in self.rivals()),
                 f"{measured.ratio:.2f} {measured.best}" if measured.ratio else "-", rate,
                 f"{peak / KIB:,.0f} of {announced / KIB:,.0f} KiB", f"{100 * measured.others:.0f} %",
                 "; ".join(notes)])
        self.summary(ratios)

    def summary(self, ratios):
        everything = {name: r for group in ratios.values() for name, r in group.items()}
        if not everything:
            return
        light = {n: r for what in ("strided", "batched", "small") for n, r in ratios[what].items()}
        print()
        table(["ratio to the best peer", "geometric mean", "target", "least"])
        for what, group, target in (("all", everything, "1.5, none below 0.8"),
                                    ("strided, batched and small", light, "2"),
                                    *((what, group, "") for what, group in ratios.items())):
            if group:
                row([f"{what}, {len(group)}", f"{geometric_mean(group):.2f}", target, least(group)])

    def rivals(self):
        return [name for name in self.runners if name not in ("tensord", "memcpy")]

    # ---- stitch and partition
    def rows(self):
        names = [name for name in self.rivals() if name == "tensorflow"]
        table(["op", "parts", "row", "rows", "us", *names, "memcpy", *(f"x {n}" for n in names), "x memcpy", "GB/s",
               "others", "notes"])
        to_peer, large, small = {}, {}, {}
        for case in rows_cases():
            name = f"{case.op} {case.parts} x {case.row_bytes} B x {case.n_rows}"
            if self.args.match not in name:
                continue
            nbytes = case.row_bytes * case.n_rows
            try:
                ready, error = write_rows(case, self.np, self.folder)
                able, _, notes = self.begin(ready, error, 0)
                able["memcpy"] = self.runners["memcpy"]
                able["memcpy"].ask("ok", "copy", nbytes)
                measured = Measured(take_turns(able, self.args), self.args.best)
            except Refused as e:
                self.fail(name, e)
                continue
            if measured.ratio:
                to_peer[name] = measured.ratio
            if case.row_bytes >= 256:
                (large if nbytes >= MIB else small)[name] = measured.memcpy
            row([case.op, case.parts, f"{case.row_bytes} B", f"{case.n_rows:,}", self.us(measured, "tensord"),
                 *(self.us(measured, n) for n in names), self.us(measured, "memcpy"),
                 *([f"{measured.ratio:.2f}" if measured.ratio else "-"] * len(names)), f"{measured.memcpy:.2f}",
                 f"{2 * nbytes / measured.ns['tensord']:.1f}", f"{100 * measured.others:.0f} %",
                 "; ".join(n for n in notes if n.startswith("tensorflow"))])
        print()
        table(["ratio", "geometric mean", "target", "least"])
        for what, group, target in (("to TensorFlow", to_peer, "none below 1"),
                                    ("to memcpy, rows of 256 B and more, 4 MiB and more", large, "none below 0.8"),
                                    ("to memcpy, rows of 256 B and more, smaller", small, "none below 0.8")):
            if group:
                row([f"{what}, {len(group)}", f"{geometric_mean(group):.2f}", target, least(group)])


def geometric_mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios.values()))


def least(ratios):
    name = min(ratios, key=ratios.get)
    return f"{ratios[name]:.2f}: {name}"


def table(columns):
    row(columns)
    row(["---"] * len(columns))


def row(cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


# ---------------------------------------------------------------- main
def start(args, log, script="peers.py"):
    """Returns {name: Runner} with tensord first, and prints which libraries are skipped. The script runs a library."""
    program = os.path.join(os.path.dirname(os.path.abspath(args.binary)), "tests", "bench", "bench_einsum")
    if not os.access(program, os.X_OK):
        sys.exit(f"einsum.py: {program} does not exist; run cmake --build build --target bench_einsum")
    runners = {name: Runner(name, [program, str(THREADS)], THREADS, log) for name in ("tensord", "memcpy")}
    print(f"* tensord: workers and instruction set {runners['tensord'].about}", flush=True)
    for name in args.peers.split(","):
        try:
            peers.install(name)
            runners[name] = Runner(name, [sys.executable, "-B", os.path.join(HERE, script), name], THREADS, log)
            print(f"* {name} {runners[name].about}", flush=True)
        except Refused as e:
            print(f"* {name} skipped: {e}", flush=True)
    return runners


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    parser.add_argument("--only", choices=["einsum", "rows"], metavar="PART", help="einsum, rows")
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases whose name contains this text")
    parser.add_argument("--peers", default=",".join(peers.PACKAGES), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a turn")
    parser.add_argument("--best", action="store_true", help="report the fastest call instead of the median")
    args = parser.parse_args()
    unknown = set(args.peers.split(",")) - set(peers.PACKAGES)
    if unknown:
        parser.error(f"--peers: {', '.join(sorted(unknown))}; {', '.join(peers.PACKAGES)} are expected")
    peers.enter_venv(sys.argv)
    try:
        peers.install("numpy")
    except Refused as e:
        print(f"skipped: NumPy is needed to check results: {e}")
        return 77
    import numpy, turns
    print(f"{turns.machine()}; {args.rounds} rounds of {args.seconds} s each, "
          f"{'fastest calls' if args.best else 'medians'}; {THREADS} threads each; Python "
          f"{platform.python_version()}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w") as log:
        runners = start(args, log)
        bench = Bench(args, numpy, runners, folder)
        for part in [args.only] if args.only else ["einsum", "rows"]:
            print()
            getattr(bench, part)()
        for runner in runners.values():
            runner.close()
    return 1 if bench.broken else 0


if __name__ == "__main__":
    sys.exit(main())
