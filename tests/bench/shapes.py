#!/usr/bin/env python3
"""Compares transpose, slice, stack, reshape and one_hot with NumPy and PyTorch.

    shapes.py [--tools build/tests/bench] [--rounds N] [--threads N] [WORD...]

Runs the cases whose line contains one of the words.  tensord (bench_shapes.c), NumPy and PyTorch alternate; tensord and PyTorch
use two threads (--threads), and NumPy one.  All write to warm memory that they have already, except that PyTorch allocates the
result of a negative step, which it does with flip().  The outputs are compared.

Figures are the fastest call of a round in ms, as the median over the rounds.  "copy" is memcpy of the output in ranges of
128 KiB on tensord's threads.  A ratio is the median of the rounds' ratios of the faster library to tensord, above 1 if tensord is
faster.  "others" is the fraction of the machine that other processes used.
"""
import argparse, os, statistics, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

CASES = """\
transpose 1 float32 4096,4096
transpose 1 float32 64,128,64,64 perm=0,2,1,3
transpose 1 float32 64,128,64,64 perm=0,3,1,2
transpose 1 float32 1000,1000
transpose 1 float32 3001,3002
transpose 1 uint8 8192,8192
transpose 1 float16 4096,4096
transpose 1 float64 4096,4096
transpose 1 complex128 2048,2048
transpose 1 float32 12,12,12,12,12,12
transpose 1 float32 1000000,3
reshape 1 float32 4096,4096 shape=-1
slice 1 float32 8192,4096 starts=1000 stops=7000
slice 1 float32 8192,4096 starts=0,1024 stops=8192,3072
slice 1 float32 8192,4096 starts=100,100 stops=8000,116
slice 1 float32 64,128,64,64 starts=0,0,8,8 stops=64,128,56,56
slice 1 float32 8192,4096 starts=0,1 stops=8192,4096 steps=1,2
slice 1 float32 8192,4096 starts=0,1 stops=8192,4096 steps=2,7
slice 1 float32 8192,4096 starts=-1 stops=-100000 steps=-1
slice 1 float32 8192,4096 starts=-1 stops=-100000 steps=-1 axes=1
slice 1 uint8 8192,4096 starts=-1 stops=-100000 steps=-1 axes=1
slice 1 float64 4096,4096 starts=0 stops=4096 steps=2 axes=1
stack 8 float32 1024,1024 axis=0
stack 8 float32 1024,1024 axis=1
stack 8 float32 1024,1024 axis=-1
stack 2 float32 4096,2048 axis=0
stack 2 float32 4096,2048 axis=-1
stack 3 uint8 4096,2048 axis=-1
stack 64 float32 256,256 axis=-1
one_hot 1 int32 100000 depth=1000 dtype=float32
one_hot 1 int32 1000000 depth=10 dtype=float32
""".splitlines()
SECONDS = 0.3


# ---------------------------------------------------------------- the libraries, each in a separate process
def mixed(np, begin, end):
    z = (np.arange(begin, end, dtype="uint64") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def warm(np, shape, dtype):
    out = np.empty(shape, dtype)
    out.fill(0)
    return out


class Case:
    """The inputs of a line, which bench_shapes.c has too, and its attributes."""

    def __init__(self, np, line):
        self.op, count, dtype, dims, *attrs = line.split()
        shape = [int(n) for n in dims.split(",")]
        self.attrs = dict(attr.split("=") for attr in attrs)
        words = int(np.prod(shape)) * np.dtype(dtype).itemsize // 8
        if self.op == "one_hot":
            self.inputs = [(mixed(np, 0, shape[0]) % np.uint64(1000)).astype("int64")]
        else:
            self.inputs = [mixed(np, i, i + words).view(dtype).reshape(shape) for i in range(int(count))]
        self.x = self.inputs[0]

    def ints(self, name, default=None):
        return [int(n) for n in self.attrs[name].split(",")] if name in self.attrs else default

    def slices(self):
        starts, stops = self.ints("starts"), self.ints("stops")
        slices = [slice(None)] * self.x.ndim
        for axis, *bounds in zip(self.ints("axes", range(len(starts))), starts, stops, self.ints("steps", [1] * len(starts))):
            slices[axis] = slice(*bounds)
        return slices


def numpy_call(np, case):
    """Returns the output and a function that fills it."""
    if case.op == "one_hot":
        out, rows = warm(np, (case.x.size, int(case.attrs["depth"])), case.attrs["dtype"]), np.arange(case.x.size)
        inside = case.x < out.shape[1]
        rows, columns = rows[inside], case.x[inside]
        def call():
            out.fill(0)
            out[rows, columns] = 1
        return out, call
    if case.op == "stack":
        out = warm(np, np.stack(case.inputs, int(case.attrs["axis"])).shape, case.x.dtype)
        return out, lambda: np.stack(case.inputs, int(case.attrs["axis"]), out=out)
    view = {"transpose": lambda: case.x.transpose(case.ints("perm")), "reshape": lambda: case.x.reshape(case.ints("shape")),
            "slice": lambda: case.x[tuple(case.slices())]}[case.op]()
    out = warm(np, view.shape, view.dtype)
    return out, lambda: np.copyto(out, view)


def torch_call(np, torch, case):
    x = torch.from_numpy(case.x)
    if case.op == "one_hot":
        out = torch.from_numpy(warm(np, (case.x.size, int(case.attrs["depth"])), case.attrs["dtype"]))
        if int(case.x.max()) >= out.shape[1]:  # scatter_ refuses indices out of range
            raise peers.Refused("has no index out of range")
        columns = x[:, None]
        return out.numpy(), lambda: out.zero_().scatter_(1, columns, 1.0)
    if case.op == "stack":
        inputs, axis = [torch.from_numpy(i) for i in case.inputs], int(case.attrs["axis"])
        out = torch.stack(inputs, axis)
        return out.numpy(), lambda: torch.stack(inputs, axis, out=out)
    if case.op == "slice":
        slices = case.slices()
        reversed_dims = [d for d, s in enumerate(slices) if s.step is not None and s.step < 0]
        if reversed_dims:
            return torch.flip(x, reversed_dims).numpy(), lambda: torch.flip(x, reversed_dims)
        view = x[tuple(slices)]
    elif case.op == "transpose":
        view = x.permute(case.ints("perm", list(range(x.ndim))[::-1]))
    else:
        view = x.reshape(case.ints("shape"))
    out = torch.from_numpy(warm(np, tuple(view.shape), case.x.dtype))
    return out.numpy(), lambda: out.copy_(view)


def time_calls(function):
    samples, end = [], time.perf_counter_ns() + SECONDS * 1e9
    while len(samples) < 3 or time.perf_counter_ns() < end:
        begun = time.perf_counter_ns()
        function()
        samples.append(time.perf_counter_ns() - begun)
    return min(samples), statistics.median(samples)


def checksum(np, out):
    words = np.ascontiguousarray(out).reshape(-1).view("uint8")
    words = words[:words.size // 8 * 8].view("uint64")
    return int((words * (np.arange(words.size, dtype="uint64") * np.uint64(2) + np.uint64(1))).sum(dtype="uint64"))


def work(name, threads):
    """answers as bench_shapes does"""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    about = "NumPy " + np.__version__
    if name == "torch":
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        about = "PyTorch " + torch.__version__
    print("ready", about, file=answers, flush=True)
    last = None
    for line in sys.stdin:
        try:
            if line != last:
                out = call = None  # frees the memory of the last case
                out, call = numpy_call(np, Case(np, line)) if name == "numpy" else torch_call(np, torch, Case(np, line))
                call()
                last, total = line, checksum(np, out)
            print("ns", *time_calls(call), 0, total, file=answers, flush=True)
        except Exception as e:
            print("refused", str(e).replace("\n", " ")[:200], file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def ask(runner, line):
    """Returns (fastest, median, copy, checksum), or None if the library cannot run the case."""
    try:
        return [float(word) if i < 3 else int(word) for i, word in enumerate(runner.ask("ns", line).split())]
    except peers.Refused:
        return None


def take_round(runners, line):
    """Returns the answers, and the fraction of the machine that others used."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    answers = [ask(r, line) for r in runners]
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    if len({a[3] for a in answers if a}) != 1:
        sys.exit(f"{line}: the outputs differ: {answers}")
    return answers, max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))


def compare(line, runners, rounds):
    """Prints the figures of a case, and returns the ratio."""
    taken = [take_round(runners, line) for _ in range(rounds)]
    best = [min(a[0] for a in answers[1:] if a) / answers[0][0] for answers, _ in taken]
    medians = [min(a[1] for a in answers[1:] if a) / answers[0][1] for answers, _ in taken]
    texts = [f"{r.name} {statistics.median(answers[i][0] for answers, _ in taken) / 1e6:.2f}" if taken[0][0][i] else f"{r.name} -"
             for i, r in enumerate(runners)]
    copy = statistics.median(answers[0][2] for answers, _ in taken) / 1e6
    print(f"{line}: {', '.join(texts)}, copy {copy:.2f} ms; ratio {statistics.median(best):.2f} ({min(best):.2f} to {max(best):.2f}), of "
          f"medians {statistics.median(medians):.2f}; others {100 * statistics.median(part for _, part in taken):.0f} %", flush=True)
    return statistics.median(best)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="number of threads of tensord and PyTorch (default: 2)")
    parser.add_argument("--work", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.threads)
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "torch"):
        peers.install(package)
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    threads = str(args.threads)
    with tempfile.TemporaryFile("w+") as log:
        runners = [peers.Runner("tensord", [os.path.join(args.tools, "bench_shapes"), threads], args.threads, log)]
        runners += [peers.Runner(name, [peers.PYTHON, __file__, "--threads", threads, "--work", name], args.threads, log)
                    for name in ("numpy", "torch")]
        print(", ".join(r.about for r in runners[1:]), flush=True)
        ratios = [compare(line, runners, args.rounds) for line in CASES
                  if not args.words or any(word in line for word in args.words)]
        for runner in runners:
            runner.close()
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
