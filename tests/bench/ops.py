#!/usr/bin/env python3
"""Compares ops with NumPy, PyTorch and ONNX Runtime.

    ops.py [--binary build/tensord] [--only GROUP,...] [--match TEXT] [--peers NAME,...] [--rounds N] [--seconds S] [--best]

GROUP is elementwise.  The options, the libraries and the figures are those of einsum.py: each program uses two threads, and the
programs alternate in turns of S seconds.  A ratio compares tensord with the fastest peer of the case, and is above 1 if tensord
is faster.  A wrong result fails the run.  A slow case does not.
"""
import argparse, collections, os, platform, statistics, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import einsum, op_peers, peers
from peers import Refused

# inputs: [(name, dtype, shape)], filled with random values; tolerance: relative to the largest element
OpCase = collections.namedtuple("OpCase", "group op attrs inputs tolerance", defaults=(1e-5,))
PEERS = ("numpy", "torch", "onnxruntime")


# ---------------------------------------------------------------- the cases
def elementwise():
    sizes = [1 << n for n in (10, 14, 18, 20, 24)]
    unary = ("negative", "abs", "sqrt", "exp", "log", "tanh", "sigmoid", "erf", "gelu", "relu", "round")
    binary = ("add", "multiply", "divide", "maximum", "less", "power")
    float32 = lambda *names: lambda n: [(name, "float32", (n,)) for name in names]
    for size in sizes:
        for op in binary:
            yield OpCase("elementwise", op, {}, float32("x", "y")(size))
        for op in unary:
            yield OpCase("elementwise", op, {}, float32("x")(size))
        yield OpCase("elementwise", "where", {}, [("condition", "bool", (size,)), *float32("x", "y")(size)])
    yield OpCase("elementwise", "multiply", {}, [("x", "float32", (1 << 20,)), ("y", "float32", ())])
    for shape in ((4096, 1024), (1 << 20, 3)):
        yield OpCase("elementwise", "add", {}, [("x", "float32", shape), ("y", "float32", shape[1:])])
        yield OpCase("elementwise", "multiply", {}, [("x", "float32", shape), ("y", "float32", (shape[0], 1))])


GROUPS = {"elementwise": elementwise}


def values(np, dtype, shape, random):
    if dtype == "bool":
        return random.random(shape) < 0.5
    return random.uniform(0.5, 2, shape).astype(dtype)


def reference(np, case, arrays):
    """Returns the expected output, or None if NumPy does not have the op."""
    calls = op_peers.numpy_calls(np)
    if case.op not in calls:
        return None
    with np.errstate(all="ignore"):
        return calls[case.op](case.attrs, {name: [array] for name, array in arrays.items()})()


def write(np, case, folder):
    """Writes the inputs. Returns the case for a runner, and a function that returns the error of an output."""
    random = np.random.default_rng(1)
    arrays, inputs = {}, []
    for i, (name, dtype, shape) in enumerate(case.inputs):
        arrays[name] = np.asarray(values(np, dtype, shape, random))
        file = os.path.join(folder, f"input{i}")
        arrays[name].tofile(file)
        inputs.append((name, dtype, shape, file))
    want = reference(np, case, arrays)

    def error(raw):
        if want is None:
            return 0
        got = np.frombuffer(raw, want.dtype)
        if got.size != want.size:
            return float("inf")
        off = np.abs(got.astype("float64") - want.ravel().astype("float64")).max(initial=0)
        return off / max(1e-30, np.abs(want.astype("float64")).max(initial=0))
    return einsum.Case(case.op, case.attrs, inputs), error


def text_of(case):
    shapes = ", ".join("x".join(map(str, shape)) or "scalar" for _, _, shape in case.inputs)
    return " ".join([case.op, shapes, *(f"{name}={value}" for name, value in case.attrs.items())])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "..", "build", "tensord"))
    parser.add_argument("--only", default=",".join(GROUPS), metavar="GROUP,...", help=", ".join(GROUPS))
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases whose name contains this text")
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a turn")
    parser.add_argument("--best", action="store_true", help="report the fastest call instead of the median")
    args = parser.parse_args()
    peers.enter_venv(sys.argv)
    for package in ("numpy", "onnx"):
        peers.install(package)
    import numpy as np, turns
    print(f"{turns.machine()}; {args.rounds} rounds of {args.seconds} s each, {'fastest calls' if args.best else 'medians'}; "
          f"{einsum.THREADS} threads each; Python {platform.python_version()}\n", flush=True)
    ratios, broken = collections.defaultdict(list), 0
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w") as log:
        runners = einsum.start(args, log, "op_peers.py")
        bench = einsum.Bench(args, np, runners, folder)
        names = ["tensord", *(name for name in runners if name not in ("tensord", "memcpy"))]
        print()
        einsum.table(["case", *(f"{name}, us" for name in names), "ratio", "others"])
        for case in (case for group in args.only.split(",") for case in GROUPS[group]() if args.match in text_of(case)):
            runner_case, error = write(np, case, folder)
            try:
                able, _, notes = bench.begin(runner_case, error, case.tolerance)
            except Refused as e:
                bench.fail(text_of(case), e)
                continue
            measured = einsum.Measured(einsum.take_turns(able, args), args.best)
            if measured.ratio:
                ratios[case.group].append((measured.ratio, text_of(case)))
            einsum.row([text_of(case), *(bench.us(measured, name) for name in names), f"{measured.ratio or 0:.2f}",
                        f"{100 * measured.others:.0f} %"])
            for note in notes:
                print(f"    {note}")
        broken = bench.broken
        for runner in runners.values():
            runner.close()
    for group, found in ratios.items():
        print(f"\n{group}: {len(found)} cases, geometric mean {statistics.geometric_mean(r for r, _ in found):.2f}, least "
              f"{min(found)[0]:.2f} ({min(found)[1]}), below 1: {sum(r < 1 for r, _ in found)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
