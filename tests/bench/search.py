#!/usr/bin/env python3
"""Compares the op search with Faiss, usearch and NumPy, and with reading the table.

    search.py [--tools build/tests/bench] [--only NAME] [--rows N] [--rounds N] [--threads N] [--isa avx2]

A table has a million rows of 384 columns (--rows), as float32, float16 or int8. tensord (bench_search.c) and its peers
alternate, with two threads each (--threads). The peers are Faiss's IndexFlatIP (float32), its scalar quantizers SQfp16 and
SQ8, usearch's exact search, and NumPy. A round takes at least seven calls and 1.5 seconds of each program.

Figures are the tenth fastest call in ms, and the median of the rounds. A ratio is the median of the rounds' ratios, above 1
if tensord is faster. For "read", the ratio is the time of a loop that only reads the table.
"""
import argparse, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers

K = 10
STRIDE = 7_368_787  # of the candidates: a prime number
# name: dtype, columns, queries, k, candidates, peers
CASES = {
    "float32": ("float32", 384, 1, K, 0, ("read", "faiss", "usearch")),
    "float16": ("float16", 384, 1, K, 0, ("read", "faiss")),
    "int8": ("int8", 384, 1, K, 0, ("read", "faiss")),
    "16 queries": ("float32", 384, 16, K, 0, ("one query", "faiss")),
    "64 queries": ("float32", 384, 64, K, 0, ("faiss",)),
    "candidates 64": ("float32", 64, 1, 100, 10_000, ("numpy", "faiss")),
    "candidates 384": ("float32", 384, 1, 100, 10_000, ("numpy", "faiss")),
}


# ---------------------------------------------------------------- the peers, in a separate process
def mixed(np, begin, end):
    z = (np.arange(begin, end, dtype="uint64") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def numbers(np, begin, n):
    """the elements that bench_search.c has"""
    table = np.empty(n, "float32")
    for at in range(0, n, 1 << 24):
        end = min(n, at + (1 << 24))
        table[at:end] = ((mixed(np, begin + at, begin + end) & np.uint64(255)).astype("float32") - 128) / 64
    return table


def candidate_rows(np, n, rows):
    """the candidates that bench_search.c has, all different"""
    return (np.arange(n, dtype="int64") * STRIDE) % rows


def searcher(np, peer, dtype, table, threads):
    """Returns a function of queries, k and candidates that returns row numbers."""
    if peer == "numpy":
        def with_numpy(queries, k, candidates):
            scores = queries @ table[candidates].T
            best = np.argpartition(-scores, k - 1)[:, :k]
            order = np.argsort(-np.take_along_axis(scores, best, 1), 1, kind="stable")
            return candidates[np.take_along_axis(best, order, 1)]
        return with_numpy, "NumPy " + np.__version__
    if peer == "usearch":
        import usearch
        from usearch.index import MetricKind, search
        return (lambda queries, k, _: search(table, queries, k, MetricKind.IP, exact=True, threads=threads).keys), "usearch " + usearch.__version__
    import faiss
    faiss.omp_set_num_threads(threads)
    columns = table.shape[1]
    if dtype == "float32":
        index = faiss.IndexFlatIP(columns)
    else:
        kind = faiss.ScalarQuantizer.QT_fp16 if dtype == "float16" else faiss.ScalarQuantizer.QT_8bit
        index = faiss.IndexScalarQuantizer(columns, kind, faiss.METRIC_INNER_PRODUCT)
        index.train(table[:100_000])
    index.add(table)

    def with_faiss(queries, k, candidates):
        if candidates is None:
            return index.search(queries, k)[1]
        return index.search(queries, k, params=faiss.SearchParameters(sel=faiss.IDSelectorBatch(candidates)))[1]
    return with_faiss, "Faiss " + faiss.__version__


def work(peer, dtype, columns, rows, threads):
    """answers as bench_search does"""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    table = numbers(np, 0, rows * columns).reshape(rows, columns)
    search, about = searcher(np, peer, dtype, table, threads)
    print("ready", about, file=answers, flush=True)
    for line in sys.stdin:
        n_queries, k, n_candidates = map(int, line.split()[1:])
        queries = numbers(np, 1 << 40, n_queries * columns).reshape(n_queries, columns)
        candidates = candidate_rows(np, n_candidates, rows) if n_candidates else None
        found, ns = search(queries, k, candidates), []
        while len(ns) < 7 or (sum(ns) < 1.5e9 and len(ns) < 200):
            begun = time.perf_counter_ns()
            search(queries, k, candidates)
            ns.append(time.perf_counter_ns() - begun)
        ns.sort()
        print("ns", ns[len(ns) // 10], ns[len(ns) // 2], int(np.asarray(found, "int64").sum()), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def ask(runner, text):
    words = runner.ask("ns", text).split()
    return float(words[0]) / 1e6, int(words[2])


def compare(name, args, log):
    dtype, columns, queries, k, candidates, others = CASES[name]
    request = f"search {queries} {k} {candidates}"
    own = [os.path.join(args.tools, "bench_search"), dtype, str(columns), str(args.rows), str(args.threads), "dot"] + ([args.isa] if args.isa else [])
    ours = peers.Runner("search", own, args.threads, log)
    rivals = {peer: peers.Runner(peer, [peers.PYTHON, __file__, "--work", peer, dtype, str(columns), str(args.rows), str(args.threads)], args.threads, log)
              for peer in others if peer not in ("read", "one query")}
    times = {peer: [] for peer in ("tensord", *others)}
    for _ in range(args.rounds):
        ms, found = ask(ours, request)
        times["tensord"].append(ms)
        for peer in others:
            ms, theirs = ask(ours, "read") if peer == "read" else ask(ours, f"search 1 {k} 0") if peer == "one query" else ask(rivals[peer], request)
            times[peer].append(ms)
            if peer in ("faiss", "usearch", "numpy") and dtype == "float32" and theirs != found and _ == 0:
                print(f"{name}: {peer} found other rows")
    text = [f"{name}: tensord {statistics.median(times['tensord']):.2f} ms"]
    for peer in others:
        each = [b / a for a, b in zip(times["tensord"], times[peer])]
        about = rivals[peer].about if peer in rivals else peer
        text.append(f"{about} {statistics.median(times[peer]):.2f}, ratio {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})")
    print("; ".join(text), flush=True)
    for runner in (ours, *rivals.values()):
        runner.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--only", choices=CASES, metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", help="instruction set of tensord")
    parser.add_argument("--work", nargs=5, metavar=("PEER", "DTYPE", "COLUMNS", "ROWS", "THREADS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], args.work[1], *map(int, args.work[2:]))
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "faiss-cpu", "usearch"):
        peers.install(package)
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        for name in [args.only] if args.only else CASES:
            compare(name, args, log)


if __name__ == "__main__":
    main()
