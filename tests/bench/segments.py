#!/usr/bin/env python3
"""Compares the segment ops with PyTorch and TensorFlow.

    segments.py [--tools build/tests/bench] [--ops sum,mean,max] [--columns 1,16,64] [--segments 10000,100000] [--rounds N]
                [--rows N] [--threads N]

A call combines a million float32 rows (--rows) by random int64 ids, sorted or not.  PyTorch runs torch.zeros(...).index_add_
(only sum) and torch.zeros(...).scatter_reduce_, and the faster of the two counts; its ops do not use that ids are sorted.
TensorFlow runs tf.math.segment_sum and so on, or tf.math.unsorted_segment_sum and so on.  A round is 20 calls of each
program.  The programs alternate, with two threads each (--threads).

Figures are in ms: first the third fastest call of a round, which other processes hardly disturb, then the median call.  Both
are medians over the rounds.  A ratio is the median of the rounds' ratios, above 1 if tensord is faster.  "others" is the
fraction of the machine that other processes used.
"""
import argparse, math, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

CALLS = 20
TORCH_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}


# ---------------------------------------------------------------- the libraries, each in a separate process
def mixed(np, n):
    z = (np.arange(n, dtype="uint64") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def make_tensors(np, rows, columns, n_segments, order):
    """Returns the elements and the ids that bench_segments.c has."""
    steps = np.resize(np.arange(251), rows * columns)
    data = ((steps - 125) / 64).astype("float32")
    ids = (mixed(np, rows) % np.uint64(n_segments)).astype("int64")
    return data.reshape((rows, columns) if columns > 1 else rows), np.sort(ids) if order == "sorted" else ids


def torch_calls(data, ids, n_segments, order, threads):
    """Returns the name of the library, and a function that returns the calls for an op."""
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    data, ids = torch.from_numpy(data), torch.from_numpy(ids)
    shape = (n_segments, *data.shape[1:])
    wide = ids.reshape(-1, *[1] * (data.dim() - 1)).expand_as(data)

    def calls(op):
        start = torch.ones if op == "prod" else torch.zeros
        reduce = lambda: start(shape).scatter_reduce_(0, wide, data, TORCH_REDUCTIONS[op], include_self=op in ("sum", "prod"))
        return [reduce] + ([lambda: torch.zeros(shape).index_add_(0, ids, data)] if op == "sum" else [])
    return "PyTorch " + torch.__version__, calls, lambda result: float(result.double().sum())


def tensorflow_calls(data, ids, n_segments, order, threads):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    data, ids = tf.constant(data), tf.constant(ids)

    def calls(op):
        if order == "sorted":
            function = getattr(tf.math, "segment_" + op)
            return [lambda: function(data, ids)]
        function = getattr(tf.math, "unsorted_segment_" + op)
        return [lambda: function(data, ids, n_segments)]
    return "TensorFlow " + tf.__version__, calls, lambda result: float(tf.reduce_sum(tf.cast(result, tf.float64)))


LIBRARIES = {"torch": torch_calls, "tensorflow": tensorflow_calls}


def time_call(call):
    ns = []
    call()
    for _ in range(CALLS):
        begun = time.perf_counter_ns()
        call()
        ns.append(time.perf_counter_ns() - begun)
    ns.sort()
    return ns[2], ns[CALLS // 2]


def work(library, rows, columns, n_segments, order, threads):
    """answers as bench_segments does"""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    data, ids = make_tensors(np, int(rows), int(columns), int(n_segments), order)
    name, calls, total = LIBRARIES[library](data, ids, int(n_segments), order, int(threads))
    print("ready", name, file=answers, flush=True)
    for line in sys.stdin:
        candidates = calls(line.strip().rpartition("_")[2])
        best, middle = min(time_call(call) for call in candidates)
        print("ns", best, middle, total(candidates[0]()), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def take_round(runners, op):
    """Returns, for each program, the ms of the third fastest and of the median call, and the fraction used by others."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    answers = [r.ask("ns", op).split() for r in runners]
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    sums = [float(words[2]) for words in answers]
    if not all(math.isclose(sums[0], s, rel_tol=1e-3, abs_tol=1) for s in sums):
        sys.exit(f"the sums of all elements are {sums}")
    return [(float(words[0]) / 1e6, float(words[1]) / 1e6) for words in answers], max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))


def compare(columns, n_segments, order, args, log):
    """Returns the ratio to the faster library for each op."""
    words = [str(w) for w in (args.rows, columns, n_segments, order, args.threads)]
    runners = [peers.Runner("segments", [os.path.join(args.tools, "bench_segments"), *words], args.threads, log)]
    runners += [peers.Runner(name, [peers.PYTHON, __file__, "--work", name, *words], args.threads, log) for name in LIBRARIES]
    ratios = []
    for op in args.ops.split(","):
        name = ("segment_" if order == "sorted" else "unsorted_segment_") + op
        taken = [take_round(runners, name) for _ in range(args.rounds + 1)][1:]  # the first is a warm-up
        print(f"{name}, {columns} columns, {n_segments} segments: ", end="")
        for i in range(2):
            ms = [[round_ms[which][i] for round_ms, _ in taken] for which in range(len(runners))]
            each = [min(rivals) / ours for ours, *rivals in zip(*ms)]
            texts = [f"{runner.about or 'tensord'} {statistics.median(values):.2f}" for runner, values in zip(runners, ms)]
            print(f"{'' if i == 0 else '; medians '}{', '.join(texts)} ms, ratio {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})", end="")
            if i == 0:
                ratios.append(statistics.median(each))
        print(f"; others {100 * statistics.median(part for _, part in taken):.0f} %", flush=True)
    for runner in runners:
        runner.close()
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--ops", default="sum,mean,max")
    parser.add_argument("--columns", default="1,16,64")
    parser.add_argument("--segments", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2, help="number of threads of each program (default: 2)")
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(*args.work)
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "torch", "tensorflow"):
        peers.install(package)
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    ratios = []
    with tempfile.TemporaryFile("w+") as log:
        for order in ("sorted", "unsorted"):
            for columns in args.columns.split(","):
                for n_segments in args.segments.split(","):
                    ratios += compare(columns, n_segments, order, args, log)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
