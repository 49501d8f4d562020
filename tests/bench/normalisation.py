#!/usr/bin/env python3
"""Compares softmax, log_softmax, layer_norm and l2_normalize with PyTorch.

    normalisation.py [--tools build/tests/bench] [--ops softmax,layer_norm] [--match TEXT] [--rounds N] [--seconds S] [--threads N]

tensord (bench_normalisation.c) and PyTorch alternate in turns of S seconds, with two threads each (--threads). Figures are
in us per call: first the fastest call of a turn, which other processes hardly disturb, then the median call. Both are
medians over the rounds. A ratio is the median of the rounds' ratios, above 1 if tensord is faster. "others" is the fraction
of the machine that other processes used.
"""
import argparse, math, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

OPS = ("softmax", "log_softmax", "layer_norm", "l2_normalize")
# (dtype, outer, n, inner): shapes [outer, n, inner], normalised along n
CASES = [("float32", 128, 384, 1), ("float32", 4096, 1024, 1), ("float32", 65536, 10, 1), ("float32", 1, 1 << 20, 1),
         ("float32", 16, 128, 1024), ("float32", 64, 32, 32), ("float64", 4096, 1024, 1)]


# ---------------------------------------------------------------- PyTorch, in a separate process
def make_tensor(np, dtype, *shape):
    """the elements that bench_normalisation.c has"""
    i = np.arange(math.prod(shape), dtype="uint32")
    return ((i * np.uint32(2654435761)).astype("float64") / 2**29 - 4).astype(dtype).reshape(shape)


def work(op, dtype, outer, n, inner, threads):
    """Answers as bench_normalisation does."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    inner_shape = [] if inner == 1 else [inner]  # PyTorch is faster along the last dimension
    x = torch.from_numpy(make_tensor(np, dtype, outer, n, *inner_shape))
    weight = torch.from_numpy(make_tensor(np, dtype, n))
    functional = torch.nn.functional
    call = {"softmax": lambda: functional.softmax(x, 1), "log_softmax": lambda: functional.log_softmax(x, 1),
            "l2_normalize": lambda: functional.normalize(x, dim=1),
            "layer_norm": lambda: functional.layer_norm(x, (n,), weight, weight)}[op]
    print("ready", "PyTorch " + torch.__version__, file=answers, flush=True)
    for line in sys.stdin:
        end, ns = time.perf_counter() + float(line), []
        while not ns or time.perf_counter() < end:
            begin = time.perf_counter_ns()
            result = call()
            ns.append(time.perf_counter_ns() - begin)
        print("ns", min(ns), statistics.median(ns), float(result.double().sum()), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def take_round(runners, seconds):
    """Returns, for each program, the ns of the fastest and of the median call, and the fraction used by others."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    answers = [r.ask("ns", seconds).split() for r in runners]
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    sums = [float(words[2]) for words in answers]
    if not math.isclose(*sums, rel_tol=1e-3, abs_tol=1):
        sys.exit(f"the sums of all elements are {sums[0]} and {sums[1]}")
    others = max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))
    return [(float(words[0]), float(words[1])) for words in answers], others


def compare(op, case, args, log):
    words = [str(word) for word in (*case, args.threads)]
    runners = [peers.Runner("tensord", [os.path.join(args.tools, "bench_normalisation"), op, *words], args.threads, log),
               peers.Runner("torch", [peers.PYTHON, __file__, "--work", op, *words], args.threads, log)]
    taken = [take_round(runners, args.seconds) for _ in range(args.rounds + 1)][1:]  # the first is a warm-up
    print(f"{op} {case[0]} {list(case[1:])}: ", end="")
    for i in range(2):
        ours, theirs = ([ns[which][i] / 1000 for ns, _ in taken] for which in range(2))
        each = [b / a for a, b in zip(ours, theirs)]
        print(f"{'' if i == 0 else '; medians '}{statistics.median(ours):.1f} us, {runners[1].about if i == 0 else ''} "
              f"{statistics.median(theirs):.1f}, ratio {statistics.median(each):.2f}", end="")
    print(f"; others {100 * statistics.median(others for _, others in taken):.0f} %", flush=True)
    for runner in runners:
        runner.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--match", default="", help="only cases whose shape contains this text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2, help="number of threads of each program (default: 2)")
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(*args.work[:2], *map(int, args.work[2:]))
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "torch"):
        peers.install(package)
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        for op in args.ops.split(","):
            for case in CASES:
                if (op != "layer_norm" or case[3] == 1) and args.match in str(case):
                    compare(op, case, args, log)


if __name__ == "__main__":
    main()
