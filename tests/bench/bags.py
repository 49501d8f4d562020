#!/usr/bin/env python3
"""Compares the op embedding_bag with PyTorch, which uses FBGEMM's loops.

    bags.py [--tools build/tests/bench] [--dtypes float32,float16,byte_rowwise,int8] [--columns 16,64,256] [--rounds N]
            [--tables cache,"1 GiB"] [--threads N]

A call sums 20,000 random rows in bags of 1, 20 or 100.  The table has 512 KiB or 1 GiB of float32, or the same number of
rows of another dtype.  A round is 100 calls.  tensord (bench_bags.c) and PyTorch alternate, with two threads each
(--threads).  PyTorch runs torch.nn.functional.embedding_bag, or for byte_rowwise
torch.ops.quantized.embedding_bag_byte_rowwise_offsets.  int8 has separate scale and offset tensors, and is compared with
PyTorch's byte_rowwise.

Figures are in ns per row: first the tenth fastest call of a round, which other processes hardly disturb, then the median
call.  Both are medians over the rounds.  A ratio is the median of the rounds' ratios, above 1 if tensord is faster.
"others" is the fraction of the machine that other processes used.
"""
import argparse, math, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

BATCH, BATCHES = 20_000, 100
BAGS = (1, 20, 100)
TABLES = {"cache": 512 << 10, "1 GiB": 1 << 30}  # bytes as float32


# ---------------------------------------------------------------- PyTorch, in a separate process
def mixed(np, begin, end):
    z = (np.arange(begin, end, dtype="uint64") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def make_table(np, dtype, columns, rows):
    """the elements that bench_bags.c has"""
    steps = np.resize(np.arange(251, dtype="uint8"), rows * columns)
    if dtype != "byte_rowwise":
        values = ((np.arange(251) - 125) / 64).astype(dtype)
        return values[steps].reshape(rows, columns)
    table = np.resize(np.arange(251, dtype="uint8"), rows * (columns + 8)).reshape(rows, columns + 8)
    row = np.arange(rows)
    trailer = np.stack([(row % 7 + 1) / 64, row % 5 - 2], 1).astype("float32")
    table[:, columns:] = trailer.view("uint8").reshape(rows, 8)
    return table


def work(dtype, columns, rows, threads):
    """answers as bench_bags does"""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    table = torch.from_numpy(make_table(np, dtype, columns, rows))
    batches = [torch.from_numpy((mixed(np, q * BATCH, (q + 1) * BATCH) % np.uint64(rows)).astype("int64")) for q in range(BATCHES)]
    if dtype == "byte_rowwise":
        call = lambda rows, offsets: torch.ops.quantized.embedding_bag_byte_rowwise_offsets(table, rows, offsets)
    else:
        call = lambda rows, offsets: torch.nn.functional.embedding_bag(rows, table, offsets, mode="sum")
    print("ready", "PyTorch " + torch.__version__, file=answers, flush=True)
    for line in sys.stdin:
        offsets = torch.arange(0, BATCH, int(line))
        ns = []
        for batch in batches:
            begun = time.perf_counter_ns()
            call(batch, offsets)
            ns.append((time.perf_counter_ns() - begun) / BATCH)
        ns.sort()
        print("ns", ns[BATCHES // 10], ns[BATCHES // 2], float(call(batches[0], offsets).double().sum()), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def take_round(runners, bag, same):
    """Returns, for each program, the ns per row of the tenth fastest and of the median call, and the fraction used by others."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    answers = [r.ask("ns", bag).split() for r in runners]
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    sums = [float(words[2]) for words in answers]
    if same and not math.isclose(*sums, rel_tol=1e-3, abs_tol=1):
        sys.exit(f"the sums of all elements are {sums[0]} and {sums[1]}")
    return [(float(words[0]), float(words[1])) for words in answers], max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))


def compare(dtype, columns, table, args, log):
    """Returns the ratio for each size of bag."""
    rows = TABLES[table] // (4 * columns)
    rival = "byte_rowwise" if dtype == "int8" else dtype
    runners = [peers.Runner("bags", [os.path.join(args.tools, "bench_bags"), dtype, str(columns), str(rows), str(args.threads)], args.threads, log),
               peers.Runner("torch", [peers.PYTHON, __file__, "--work", rival, str(columns), str(rows), str(args.threads)], args.threads, log)]
    ratios = []
    for bag in BAGS:
        taken = [take_round(runners, bag, rival == dtype) for _ in range(args.rounds + 1)][1:]  # the first is a warm-up
        print(f"{dtype}, {columns} columns, {table}, bags of {bag}: ", end="")
        for i in range(2):
            ours, theirs = ([ns[which][i] for ns, _ in taken] for which in range(2))
            each = [b / a for a, b in zip(ours, theirs)]
            print(f"{'' if i == 0 else '; medians '}{statistics.median(ours):.2f} ns a row, {runners[1].about if i == 0 else ''} "
                  f"{statistics.median(theirs):.2f}, ratio {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})", end="")
            if i == 0:
                ratios.append(statistics.median(each))
        print(f"; others {100 * statistics.median(part for _, part in taken):.0f} %", flush=True)
    for runner in runners:
        runner.close()
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--dtypes", default="float32,float16,byte_rowwise,int8")
    parser.add_argument("--columns", default="16,64,256")
    parser.add_argument("--tables", default="cache,1 GiB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="number of threads of each program (default: 2)")
    parser.add_argument("--work", nargs=4, metavar=("DTYPE", "COLUMNS", "ROWS", "THREADS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], *map(int, args.work[1:]))
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "torch"):
        peers.install(package)
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        for dtype in args.dtypes.split(","):
            ratios = [ratio for columns in args.columns.split(",") for table in args.tables.split(",")
                      for ratio in compare(dtype, int(columns), table, args, log)]
            print(f"{dtype}: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
