#!/usr/bin/env python3
"""Runs the programs that einsum.py compares: NumPy, PyTorch, TensorFlow, and tensord's ops.

Each program runs in its own process and speaks the line protocol of bench_einsum.c:

    peers.py numpy|torch|tensorflow

This file implements both ends of the protocol.  On first use it creates the libraries' virtual environment in
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/bench-venv (PyTorch with its dependencies is 6 GB).

All programs use the same number of threads and return row-major tensors in separate memory.  If a library returns a view
of the input for a transposition or a diagonal, this file copies the view, as a service would have to.  The libraries never
return heap memory to the system and use huge pages, so they write to warm memory, as tensord does.
"""
import importlib.metadata, math, os, signal, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("TENSORD_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord")
VENV = os.path.join(CACHE, "bench-venv")
PYTHON = os.path.join(VENV, "bin", "python")
PACKAGES = {"numpy": "numpy", "torch": "torch", "tensorflow": "tensorflow-cpu"}
SAMPLE_NS, LONG_NS, MAX_SAMPLES = 20_000, 10**9, 1 << 16  # as in bench_einsum.c


class Refused(Exception):
    """Raised for a case or a library that is not supported, with the reason."""


# ---------------------------------------------------------------- the environment
def pip(package):
    """Installs a package. Returns None, or the reason why it cannot be installed."""
    done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else (done.stdout.strip().splitlines() or ["pip failed"])[-1]


def enter_venv(arguments):
    """Creates the virtual environment if it does not exist, and restarts the calling program in it."""
    if os.path.realpath(sys.prefix) == os.path.realpath(VENV):
        return
    if not os.path.exists(PYTHON):
        print(f"creating {VENV}", flush=True)
        done = subprocess.run([sys.executable, "-m", "venv", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode != 0:
            sys.exit(f"cannot create a virtual environment: {done.stdout.strip()}")
    os.execv(PYTHON, [PYTHON, "-B", *arguments])


def install(name):
    """Installs a library, or another package, if it is missing. Raises Refused."""
    package = PACKAGES.get(name, name)
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        print(f"fetching {package} into {VENV}", flush=True)
        why = pip(package)
        if why:
            raise Refused(why) from None


def environment(threads):
    n = str(threads)
    return {**os.environ, "OMP_NUM_THREADS": n, "OPENBLAS_NUM_THREADS": n, "MKL_NUM_THREADS": n,
            "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
                              "glibc.malloc.trim_threshold=1000000000000"}


# ---------------------------------------------------------------- the controlling end
class Runner:
    """A process that computes cases. It is stopped (SIGSTOP) between its turns, because the threads of some libraries spin
    for a while after a call and would slow down the next turn."""

    def __init__(self, name, command, threads, log):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env=environment(threads))
        self.about = self.answer("ready")
        self.process.send_signal(signal.SIGSTOP)

    def answer(self, wanted):
        line = self.process.stdout.readline().rstrip("\n")
        word, _, rest = line.partition(" ")
        if word == wanted:
            return rest
        raise Refused(rest if word == "refused" else f"{self.name} ended")

    def ask(self, wanted, *words):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
            self.process.stdin.flush()
            return self.answer(wanted)
        except BrokenPipeError:
            raise Refused(f"{self.name} ended") from None
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def begin(self, case):
        """Starts a case: op, attrs {name: value}, inputs [(name, dtype, shape, file)]."""
        self.ask("ok", "op", case.op)
        for name, value in case.attrs.items():
            self.ask("ok", "attr", name, value)
        for name, dtype, shape, file in case.inputs:
            self.ask("ok", "input", name, dtype, ",".join(map(str, shape)) or "-", file)

    def run(self, file):
        return [int(w) for w in self.ask("ran", "run", file).split()]

    def time(self, seconds):
        """Returns (calls, best, median), the times in ns."""
        return tuple(float(w) for w in self.ask("timed", "time", seconds).split())

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.communicate()


# ---------------------------------------------------------------- the libraries' end
class Library:
    """Reads tensors and runs ops with one library."""

    def __init__(self, threads):
        import numpy
        self.numpy, self.threads = numpy, threads
        self.version = numpy.__version__
        self.note = f"OPENBLAS_NUM_THREADS={threads}"

    def array(self, dtype, shape, file):
        if dtype == "bfloat16":
            raise Refused("has no bfloat16")
        return self.numpy.fromfile(file, dtype).reshape(shape)

    tensor = array

    def bytes(self, result):
        return self.numpy.ascontiguousarray(result).tobytes()

    def call(self, op, attrs, inputs):
        """Returns a function without arguments that runs the op."""
        if op != "einsum":
            raise Refused(f"has no {op}")
        numpy, equation, tensors = self.numpy, attrs["equation"], inputs["inputs"]
        return lambda: numpy.ascontiguousarray(numpy.einsum(equation, *tensors, optimize=True))


class Torch(Library):
    def __init__(self, threads):
        super().__init__(threads)
        import torch
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        self.torch, self.version = torch, torch.__version__
        self.note = f"set_num_threads({threads}), opt_einsum {'yes' if torch.backends.opt_einsum.is_available() else 'no'}"

    def tensor(self, dtype, shape, file):
        if dtype == "bfloat16":
            raw = self.numpy.fromfile(file, "int16").reshape(shape)
            return self.torch.from_numpy(raw).view(self.torch.bfloat16)
        return self.torch.from_numpy(self.array(dtype, shape, file))

    def bytes(self, result):
        result = result.contiguous()
        return (result.view(self.torch.int16) if result.dtype == self.torch.bfloat16 else result).numpy().tobytes()

    def call(self, op, attrs, inputs):
        if op != "einsum":
            raise Refused(f"has no {op}")
        einsum, equation, tensors = self.torch.einsum, attrs["equation"], inputs["inputs"]
        return lambda: einsum(equation, *tensors).contiguous()


class TensorFlow(Library):
    def __init__(self, threads):
        super().__init__(threads)
        import tensorflow
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
        # Calls are synchronous.
        tensorflow.config.experimental.set_synchronous_execution(True)
        self.tf, self.version = tensorflow, tensorflow.__version__
        self.note = f"intra_op {threads}, inter_op {threads}, eager"

    def tensor(self, dtype, shape, file):
        kind = self.tf.bfloat16.as_numpy_dtype if dtype == "bfloat16" else dtype
        return self.tf.constant(self.numpy.fromfile(file, kind).reshape(shape))

    def bytes(self, result):
        parts = result if isinstance(result, list) else [result]
        return b"".join(p.numpy().tobytes() for p in parts)

    def call(self, op, attrs, inputs):
        tf = self.tf
        if op == "einsum":
            return lambda: tf.einsum(attrs["equation"], *inputs["inputs"])
        if op == "dynamic_stitch":
            return lambda: tf.dynamic_stitch(inputs["indices"], inputs["data"])
        if op == "parallel_dynamic_stitch":
            return lambda: tf.raw_ops.ParallelDynamicStitch(indices=inputs["indices"], data=inputs["data"])
        if op == "dynamic_partition":
            data, partitions, n = inputs["data"][0], inputs["partitions"][0], int(attrs["num_partitions"])
            return lambda: tf.dynamic_partition(data, partitions, n)
        raise Refused(f"has no {op}")


LIBRARIES = {"numpy": Library, "torch": Torch, "tensorflow": TensorFlow}


def time_calls(function, seconds):
    """Returns (calls, best, median), measured as in bench_einsum.c."""
    def several(n):
        begun = time.perf_counter_ns()
        for _ in range(n):
            function()
        return time.perf_counter_ns() - begun
    first = several(1)
    if first > LONG_NS:
        return 1, first, first
    each = max(1, math.ceil(SAMPLE_NS / (several(1) + 1)))
    end, samples = time.perf_counter_ns() + seconds * 1e9, []
    while not samples or (len(samples) < MAX_SAMPLES and time.perf_counter_ns() < end):
        samples.append(several(each) / each)
    return len(samples) * each, min(samples), statistics.median_high(samples)


class Server:
    def __init__(self, library):
        self.library = library

    def execute(self, words):
        if words[0] == "op":
            self.op, self.attrs, self.inputs, self.function = words[1], {}, {}, None
        elif words[0] == "attr":
            self.attrs[words[1]] = words[2]
        elif words[0] == "input":
            shape = [] if words[3] == "-" else [int(n) for n in words[3].split(",")]
            self.inputs.setdefault(words[1], []).append(self.library.tensor(words[2], shape, words[4]))
        elif words[0] == "run":
            self.function = self.library.call(self.op, self.attrs, self.inputs)
            with open(words[1], "wb") as f:
                f.write(self.library.bytes(self.function()))
            return "ran"
        elif words[0] == "time":
            return "timed %d %.1f %.1f" % time_calls(self.function, float(words[1]))
        return "ok"


def serve(name, libraries=LIBRARIES):
    # Standard output carries only replies. Output of a library goes to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        library = libraries[name](int(os.environ["OMP_NUM_THREADS"]))
    except Exception as e:
        print(f"refused cannot be imported: {e}".replace("\n", " "), file=answers, flush=True)
        return
    print(f"ready {library.version}, {library.note}", file=answers, flush=True)
    server = Server(library)
    for line in sys.stdin:
        try:
            answer = server.execute(line.split())
        except Exception as e:  # any exception of the library refuses the case
            answer = "refused " + str(e).strip().replace("\n", " ")[:200]
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
