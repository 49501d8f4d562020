#!/usr/bin/env python3
"""Compares the reductions with NumPy, PyTorch and ONNX Runtime, and with a loop that only reads the tensor.

    reductions.py [--tools build/tests/bench] [--ops reduce_sum,reduce_max] [--match TEXT] [--rounds N] [--seconds S]
                  [--threads N] [--large]

Tensors are float32. Each program uses two threads (--threads), and the programs alternate in turns of S seconds.
tensord (bench_reductions.c) and each library run in a separate process, which is stopped between its turns. The figure of
a round is the fastest call of a turn, which other processes disturb least, and then the median call; the table has the
medians over N rounds. If other processes use more than 5 % of the machine in a round, the script adds a round, up to 2 N in
all, and the N quietest count. A ratio compares tensord with the fastest library: it is the median of the rounds' ratios,
above 1 if tensord is faster. "read" is the ratio to the loop that only reads, for tensors of 16 M elements. "others" is the
fraction of the machine that other processes used. --large adds argmax and cumsum, and rows of a few elements.

The first run installs the libraries with pip (see peers.py). A wrong result ends the run.
"""
import argparse, math, os, statistics, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers, turns

OPS = ("reduce_sum", "reduce_max")
LARGEST = 1 << 24
# (shape, axes); None: all axes
CASES = [
    *(((n,), None) for n in (1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22, LARGEST)),
    *((shape, axes) for shape in ((32, 32), (256, 256), (1024, 1024), (4096, 4096), (100000, 64), (64, 100000)) for axes in ((0,), (1,))),
    *((shape, (1,)) for shape in ((16, 16, 16), (32, 64, 128), (64, 256, 64), (256, 256, 256), (8, 2048, 1024))),
    ((64, 256, 256), (2,)), ((64, 256, 256), (0,)), ((256, 128, 512), (0, 1)), ((256, 128, 512), (1, 2)),
    ((256, 128, 512), (0, 2)), ((2048, 2048), None),
]
MORE_CASES = [((1 << 20, 16), (1,)), ((1 << 21, 3), (1,)), ((1 << 21, 3), (0,)), ((1 << 18, 10, 3), (1,)), ((65536, 100), (1,))]
ONE_AXIS = {"argmax", "argmin", "cumsum"}


# ---------------------------------------------------------------- the libraries, each in a separate process
def make_tensor(np, shape):
    """the numbers that bench_reductions.c has"""
    i = np.arange(math.prod(shape), dtype="uint32")
    return ((i * np.uint32(2654435761) >> np.uint32(16)).astype("float32") / np.float32(65536) - np.float32(0.4921875)).reshape(shape)


def numpy_call(threads):
    import numpy as np

    def call(op, x, axes):
        if op == "cumsum":
            return lambda: x.cumsum(axes[0])
        if op in ONE_AXIS:
            return lambda: getattr(x, op)(axes[0])
        method = getattr(x, op.removeprefix("reduce_"))
        return lambda: method(axes)
    return np.__version__, call, np.asarray


def torch_call(threads):
    import torch
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.set_grad_enabled(False)

    def call(op, x, axes):
        t = torch.from_numpy(x)
        if op in ONE_AXIS:
            return lambda: getattr(t, op)(axes[0])
        name = op.removeprefix("reduce_")
        if axes is None:
            method = getattr(t, name)
            return lambda: method()
        method = getattr(t, {"max": "amax", "min": "amin"}.get(name, name))
        if name == "prod":
            axes = axes[0]
        return lambda: method(axes)
    return torch.__version__, call, lambda y: y.numpy()


def onnx_call(threads):
    import numpy as np, onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    def call(op, x, axes):
        inputs, initializers, attributes = ["x"], [], {}
        kind = TensorProto.INT64 if op in ("argmax", "argmin") else TensorProto.FLOAT
        if op == "cumsum":
            inputs.append("axis")
            initializers.append(numpy_helper.from_array(np.array(axes[0], "int64"), "axis"))
            node = "CumSum"
        elif op in ONE_AXIS:
            node, attributes = {"argmax": "ArgMax", "argmin": "ArgMin"}[op], {"axis": axes[0], "keepdims": 0}
        else:
            node, attributes = "Reduce" + op.removeprefix("reduce_").capitalize(), {"keepdims": 0}
            inputs.append("axes")
            initializers.append(numpy_helper.from_array(np.array(axes or range(x.ndim), "int64"), "axes"))
        graph = helper.make_graph([helper.make_node(node, inputs, ["y"], **attributes)], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                                  [helper.make_tensor_value_info("y", kind, None)], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_output("y")

        def run():
            session.run_with_iobinding(binding)
            return binding
        return run
    return ort.__version__, call, lambda binding: binding.copy_outputs_to_cpu()[0]


LIBRARIES = {"NumPy": numpy_call, "PyTorch": torch_call, "ONNX Runtime": onnx_call}


def numbers(text):
    return None if text == "-" else tuple(int(n) for n in text.split(","))


def work(name, threads):
    """answers as bench_reductions does"""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import numpy as np
    version, call, array = LIBRARIES[name](threads)
    print("ready", name, version, file=answers, flush=True)
    shape = x = None
    for line in sys.stdin:
        op, wanted, axes, seconds = line.split()
        if wanted != shape:
            shape, x = wanted, make_tensor(np, numbers(wanted))
        function = call(op, x, numbers(axes))
        result = float(array(function()).astype("float64").sum())
        print("timed %d %.1f %.1f %.9g" % (*peers.time_calls(function, float(seconds)), result), file=answers, flush=True)


# ---------------------------------------------------------------- the rounds
def text(axes):
    return ",".join(map(str, axes)) if axes else "-"


def take_round(runners, op, shape, axes, args):
    """Returns {name: (ns of the fastest call, of the median call, sum of the results)}, and the fraction used by others."""
    busy, capacity = turns.machine_seconds()
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners)
    taken = {r.name: tuple(float(w) for w in r.ask("timed", op, text(shape), text(axes), args.seconds).split()[1:]) for r in runners}
    if math.prod(shape) == LARGEST:
        taken["read"] = tuple(float(w) for w in runners[0].ask("timed", "read", text(shape), "-", args.seconds).split()[1:])
    own = turns.own_seconds() + sum(turns.cpu_seconds(r.process) for r in runners) - own
    after, all_of_it = turns.machine_seconds()
    return taken, max(0.0, (after - busy - own) / max(all_of_it - capacity, 1e-9))


def compare(runners, op, shape, axes, args):
    """Prints a line. Returns the ratios to the fastest library, of the fastest and of the median calls."""
    taken = []
    while len(taken) < 2 * args.rounds and sum(others < turns.QUIET for _, others in taken) < args.rounds:
        taken.append(take_round(runners, op, shape, axes, args))
    rounds, others = zip(*sorted(taken, key=lambda r: r[1])[:args.rounds])
    libraries = [r.name for r in runners[1:]]
    ours = rounds[0]["tensord"][2]
    scale = math.sqrt(math.prod(shape)) * (1 if op != "cumsum" else 1e4)
    for name in libraries if op not in ("argmax", "argmin") else ():
        if not math.isclose(ours, rounds[0][name][2], rel_tol=1e-3, abs_tol=1e-3 * scale):
            sys.exit(f"{op} {shape} {axes}: the results add up to {ours}, but to {rounds[0][name][2]} with {name}")
    cells, ratios = [], []
    for i in range(2):
        us = {name: statistics.median(r[name][i] for r in rounds) / 1e3 for name in rounds[0]}
        best = min(libraries, key=us.get)
        ratios.append(statistics.median(min(r[name][i] for name in libraries) / r["tensord"][i] for r in rounds))
        cells += [f"{us['tensord']:,.1f}", *(f"{us[name]:,.1f}" for name in libraries), f"{ratios[i]:.2f} ({best})"]
        cells.append(f"{statistics.median(r['read'][i] / r['tensord'][i] for r in rounds):.2f}" if "read" in us else "")
    print("| " + " | ".join([f"{op} {list(shape)} {text(axes)}", *cells, f"{100 * statistics.median(others):.0f} %"]) + " |", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "..", "..", "build", "tests", "bench"))
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--match", default="", help="only cases whose shape and axes contain this text, such as '[32, 32] 0'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--work", choices=LIBRARIES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.threads)
    peers.enter_venv([__file__, *sys.argv[1:]])
    for package in ("numpy", "torch", "onnx", "onnxruntime"):
        peers.install(package)
    ops = args.ops.split(",") + (["argmax", "cumsum"] if args.large else [])
    with open("/proc/cpuinfo") as f:
        print(next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "CPU unknown"),
              f"load {os.getloadavg()[0]:.2f}", sep=", ", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        runners = [peers.Runner("tensord", [os.path.join(args.tools, "bench_reductions"), str(args.threads)], args.threads, log)]
        runners += [peers.Runner(name, [peers.PYTHON, __file__, "--work", name, "--threads", str(args.threads)], args.threads, log)
                    for name in LIBRARIES]
        print(", ".join(r.about for r in runners[1:]))
        names = [r.name for r in runners]
        print("| case | " + " | ".join([*(f"{n}, us" for n in names), "ratio", "read"] + [*(f"{n}, median" for n in names), "ratio", "read"]) + " | others |")
        print("|---" * (2 * len(names) + 6) + "|", flush=True)
        for op in ops:
            ratios = []
            for shape, axes in CASES + (MORE_CASES if args.large else []):
                if op in ONE_AXIS and axes is None and len(shape) == 1:
                    axes = (0,)
                if args.match in f"{list(shape)} {text(axes)}" and not (op in ONE_AXIS and (axes is None or len(axes) > 1)):
                    ratios.append(compare(runners, op, shape, axes, args))
            for i, what in enumerate(("fastest", "median") if ratios else ()):
                each = [r[i] for r in ratios]
                print(f"{op}, {what} calls: geometric mean {statistics.geometric_mean(each):.2f}, minimum {min(each):.2f}", flush=True)
        for runner in runners:
            runner.close()


if __name__ == "__main__":
    main()
