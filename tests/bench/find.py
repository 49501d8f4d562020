#!/usr/bin/env python3
"""Compares the op find with a hand-written loop, a Python dict and TensorFlow's tf.lookup.StaticHashTable.

    find.py [--tools build/tests/bench] [--keys N,...] [--peers dict,tensorflow] [--rounds N] [--wait SECONDS]

The keys are random int64.  A round is 100 batches of 10,000 queries; nine in ten queries have a row.  The dict runs 10 of the
batches in each round, in turn.  tensord's op and the hand-written loop (bench_find.c) use two threads, TensorFlow at most two,
and the dict one.  They alternate.  A figure is the median over the rounds in ns per query.  A ratio is the median of the
rounds' ratios, above 1 if tensord is faster.  "others" is the fraction of the machine that other processes used, the median
over the rounds.  The script repeats rounds in which it was more than 5 %, for SECONDS in all, and the N quietest rounds count.
A dict of 100 million keys takes 12 GB.
"""
import argparse, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

THREADS, BATCH, BATCHES = 2, 10_000, 100


# ---------------------------------------------------------------- the peers, each in a separate process
def make_keys(np, begin, end):
    """Returns distinct keys, because splitmix64 is one-to-one."""
    z = (np.arange(begin, end, dtype="uint64") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return (z ^ (z >> np.uint64(31))).view("int64")


def make_batches(np, n):
    keys, choose = make_keys(np, 0, n), np.random.default_rng(1)
    batches = []
    for _ in range(BATCHES):
        batch = keys[choose.integers(0, n, BATCH)]
        batch[9::10] = make_keys(np, n, n + BATCH // 10)
        batches.append(batch)
    return keys, batches


def dict_lookup(np, n):
    keys, batches = make_batches(np, n)
    rows = dict(zip(keys.tolist(), range(n)))
    batches = [batch.tolist() for batch in batches]
    return "dict, Python " + sys.version.split()[0], batches, lambda batch: list(map(rows.get, batch))


def tensorflow_lookup(np, n):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    keys, batches = make_batches(np, n)
    rows = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.range(n, dtype=tf.int64))
    table = tf.lookup.StaticHashTable(rows, -1)
    return "TensorFlow " + tf.__version__, [tf.constant(batch) for batch in batches], table.lookup


LOOKUPS = {"dict": dict_lookup, "tensorflow": tensorflow_lookup}
BATCHES_OF_A_ROUND = {"dict": 10, "tensorflow": BATCHES}


def work(name, n):
    """answers as bench_find serve does"""
    import numpy
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        about, batches, lookup = LOOKUPS[name](numpy, n)
    except Exception as e:
        print(f"refused {e}".replace("\n", " "), file=answers, flush=True)
        return
    found = sum(row is not None and int(row) >= 0 for row in list(lookup(batches[0])))
    if found != BATCH * 9 // 10:
        about = f"{about}, which finds {found} of {BATCH}"
    print("ready", about, file=answers, flush=True)
    for _ in sys.stdin:
        turn = batches[:BATCHES_OF_A_ROUND[name]]
        batches = batches[len(turn):] + turn
        begun = time.perf_counter_ns()
        for batch in turn:
            lookup(batch)
        print("ns", (time.perf_counter_ns() - begun) / (BATCH * len(turn)), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def take_round(runners):
    """Returns the ns per query of each program, and the fraction of the machine that others used."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    ns = [float(word) for r in runners for word in r.ask("ns", "go").split()]
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    return ns, max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))


def take_rounds(runners, rounds, seconds):
    taken = []
    take_round(runners)  # a warm-up
    end = time.monotonic() + seconds
    while len(taken) < rounds or time.monotonic() < end and sum(others < turns.QUIET for _, others in taken) < rounds:
        taken.append(take_round(runners))
    return sorted(taken, key=lambda round: round[1])[:rounds]


def compare(n, names, args, log):
    ours = peers.Runner("find", [os.path.join(args.tools, "bench_find"), "serve", str(n), str(THREADS)], THREADS, log)
    for name in names or [None]:
        rivals = ["hand"]
        runners = [ours]
        try:
            if name:
                rivals.append(name)
                runners.append(peers.Runner(name, [peers.PYTHON, __file__, "--work", name, str(n)], THREADS, log))
                rivals[1] = runners[1].about
            taken = take_rounds(runners, args.rounds, args.wait)
        except peers.Refused as e:
            print(f"{n:,} keys, {name}: {e}", flush=True)
            continue
        others = statistics.median(part for _, part in taken)
        print(f"{n:,} keys: find {statistics.median(ns[0] for ns, _ in taken):.1f} ns a query", end="")
        for i, rival in enumerate(rivals):
            ratios = [ns[i + 1] / ns[0] for ns, _ in taken]
            print(f"; {rival} {statistics.median(ns[i + 1] for ns, _ in taken):.1f}, ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})", end="")
        print(f"; others {100 * others:.0f} %", flush=True)
        for runner in runners[1:]:
            runner.close()
    ours.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--keys", default="10000000", help="numbers of keys, separated by commas (default: 10000000)")
    parser.add_argument("--peers", default="dict,tensorflow", help="default: dict,tensorflow")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wait", type=int, default=60, metavar="SECONDS", help="how long to wait for quiet rounds (default: 60)")
    parser.add_argument("--work", nargs=2, metavar=("PEER", "KEYS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], int(args.work[1]))
    peers.enter_venv([__file__, *sys.argv[1:]])
    names = [name for name in args.peers.split(",") if name]
    for package in ["numpy"] + ["tensorflow"] * ("tensorflow" in names):
        try:
            peers.install(package)
        except peers.Refused as e:
            print(f"{package}: {e}", flush=True)
            names = [name for name in names if package == "tensorflow" and name != "tensorflow"]
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        for n in args.keys.split(","):
            compare(int(n), names, args, log)


if __name__ == "__main__":
    main()
