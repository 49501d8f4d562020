#!/usr/bin/env python3
"""The CUDA plugin on a GPU machine lent for a short time: runs what run.sh --build made on another machine.

    prebuilt.py [--folder build-gpu-loan] [--logs build-gpu-logs] [--device NAME] [--limit SECONDS] [--total SECONDS]
                [--only WORD] [--quick]

Runs every stage under a limit of its own, the next one also where one failed, writes the whole output of each to the
folder of logs, and prints one page: a line per stage, a table of what was asked and measured, and what to run next.
Needs Python 3.8, and of CUDA the driver alone.  --device takes another device, reference or the path of a plugin, in place
of the GPU; --limit replaces the limit of every stage; --total is the time for all, after which stages are not run;
--only runs the stages whose names contain a word; --quick makes each stage short, for tests of this program.

Exit status: 0 if nothing failed; 77, with a last line that begins with "skipped", where the plugin can be loaded and the
machine has no GPU; otherwise 1.  A plugin that cannot be loaded, and a GPU that it cannot open, are failures.
"""
import argparse, contextlib, glob, os, re, shlex, shutil, signal, subprocess, sys, sysconfig, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# What of the contract's cases stands for a family of kernels under compute-sanitizer.
FAMILIES = (("gather", "gather float32[5"), ("stitch", "dynamic_stitch 2 tensors of float32"), ("partition", "dynamic_partition float32"),
            ("find", "find "), ("bags", "embedding_bag mean of float32"), ("sums", "ij-> of float32"), ("products", "ij,jk->ik of float32"))

CHECKS = r"[1-9]\d* checks passed"  # of the contract's cases; what it checks before them is another line

# The benchmark prints the gathers twice where the device has such a limit: with L2 fetching as it comes, then with 32 bytes, as
# the plugin sets it.
FIRST, SECOND, LEAST = slice(0, 1), slice(1, 2), slice(None)

# Asked and measured: stage, what, pattern of a figure in its output, the least that is asked, and which of several
# such figures; without the least the figure is only shown.  A gather is to reach 0.85 of what its sectors of 32 bytes allow,
# which is 0.69 of a copy for rows of 16 bytes and all of it from 64 bytes on, and 0.9 of a copy from 1 KiB on.
FIGURES = (
    ("bench", "launch, us", r": a launch ([\d.]+) us", None, FIRST),
    ("bench", "copies over the bus, GB/s", r"copies ([\d.]+) GB/s", None, FIRST),
    ("bench", "copy in device memory, GB/s", r"copy in device memory: ([\d.]+)", None, FIRST),
    ("bench", "gather of rows of 16 B, of a copy", r"rows of +16 B: .*?([\d.]+) of the copy", 0.59, SECOND),
    ("bench", "gather of rows of 64 B, of a copy", r"rows of +64 B: .*?([\d.]+) of the copy", 0.85, SECOND),
    ("bench", "gather of rows of 256 B, of a copy", r"rows of +256 B: .*?([\d.]+) of the copy", 0.85, SECOND),
    ("bench", "gather of rows of 1 KiB, of a copy", r"rows of +1024 B: .*?([\d.]+) of the copy", 0.9, SECOND),
    ("bench", "gather of rows of 4 KiB, of a copy", r"rows of +4096 B: .*?([\d.]+) of the copy", 0.9, SECOND),
    ("bench", "rows of 16 B, L2 fetching as it comes, of a copy", r"rows of +16 B: .*?([\d.]+) of the copy", None, FIRST),
    ("bench", "rows of 64 B, L2 fetching as it comes, of a copy", r"rows of +64 B: .*?([\d.]+) of the copy", None, FIRST),
    ("bench", "rows of 256 B, L2 fetching as it comes, of a copy", r"rows of +256 B: .*?([\d.]+) of the copy", None, FIRST),
    ("bench", "lookups in one launch, times faster", r"launches .*: ([\d.]+) times", None, FIRST),
    ("bench", "einsum against cuBLAS, the least ratio", r"ratio ([\d.]+)", None, LEAST),
    ("bench", "overlap of copies and products", r"([\d.]+) of the possible overlap", None, FIRST),
    ("end-to-end-2048", "product of 2048 x 2048 over HTTP, of a copy", r": ([\d.]+) \(target", 0.8, LEAST),
    ("end-to-end-4096", "product of 4096 x 4096 over HTTP, of a copy", r": ([\d.]+) \(target", 0.8, LEAST),
)


class Stage:
    """a command with its limit and the estimate on an H200, both in seconds"""

    def __init__(self, name, estimate, limit, command, proof, needs=None, without=""):
        self.name, self.estimate, self.limit, self.command = name, estimate, limit, command
        self.proof = proof  # what its output has if it did anything
        self.needs, self.without = needs, without  # a program, and what is said where it is missing
        self.state, self.reason, self.seconds, self.output = "not run", "", 0.0, ""


def stages(args, device):
    """all of them, what tells most first: 310 s by estimate, of which the 14 runs of compute-sanitizer take 140"""
    def program(name):
        return os.path.join(args.folder, name)
    contract = program("test_device_contract")
    python = [sys.executable, "-B"]
    daemon = ["--binary", program("tensord"), "--gpu", device]
    seconds = "1" if args.quick else "10"
    word = ["gather "] if args.quick else []
    yield Stage("contract", 30, 120, [contract, *word], CHECKS)
    yield Stage("conformance", 20, 90, [*python, "tests/conformance/test_all.py", *daemon,
                                        *(["--only", "gather"] if args.quick else [])], r"[1-9]\d* passed, \d+ failed in all")
    yield Stage("bench", 60, 120, [program("bench_gpu"), device], "of the copy")
    for side in ("2048", "4096"):
        yield Stage(f"end-to-end-{side}", 30, 60, [*python, "tests/bench/gpu/end_to_end.py", *daemon, "--seconds", seconds,
                                                   "--side", "64" if args.quick else side], "target")
    for tool in ("racecheck", "synccheck"):
        for family, cases in FAMILIES:
            yield Stage(f"{tool}-{family}", 10, 30, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", contract, cases],
                        CHECKS, "compute-sanitizer", "compute-sanitizer is neither in PATH nor in the toolkit")


def run(stage, limit, environment, logs):
    """runs a stage, ends it with all its processes at the limit, and keeps its output"""
    path, begin = os.path.join(logs, stage.name + ".log"), time.monotonic()
    with open(path, "wb") as log:
        log.write(f"$ {' '.join(stage.command)}\n".encode())
        log.flush()
        try:
            process = subprocess.Popen(stage.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       cwd=ROOT, env=environment, start_new_session=True)
        except OSError as error:
            stage.state, stage.reason = "FAILED", str(error)
            return
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # also what it left behind: a daemon
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        # A process that hangs in the driver does not even end when killed; it is left.
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    stage.seconds = time.monotonic() - begin
    with open(path, encoding="utf-8", errors="replace") as log:
        stage.output = log.read()
    last = (stage.output.strip().splitlines() or [""])[-1]
    if status is None:
        stage.state, stage.reason = "FAILED", f"ended at its limit of {limit:.0f} s"
    elif status == 0 and not re.search(stage.proof, stage.output):
        stage.state, stage.reason = "FAILED", "it ran no case"
    elif status == 0:
        stage.state, stage.reason = "ok", last
    elif stage.needs and "Device not supported" in stage.output:
        stage.state, stage.reason = "skipped", "compute-sanitizer does not support this machine's device"
    else:
        stage.state, stage.reason = "FAILED", f"exit status {status}: {last}"


def cublas_folders():
    """where libcublas.so.13 can be beside the dynamic linker's path: the toolkit, and Python's packages of CUDA"""
    packages = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    places = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/lib64", "/usr/local/cuda*/lib64",
              "/usr/local/cuda*/targets/*/lib", *(f"{package}/nvidia/*/lib" for package in packages),
              "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib"]
    found = [os.path.dirname(path) for place in places for path in sorted(glob.glob(place + "/libcublas.so.13"))]
    return list(dict.fromkeys(found))


def gpu_of_the_machine():
    """one line about the GPU, or None where neither the driver's program nor its device files are there"""
    if shutil.which("nvidia-smi"):
        try:
            query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader"]
            result = subprocess.run(query, capture_output=True, text=True, timeout=30)
            return (result.stdout + result.stderr).strip() or f"nvidia-smi: exit status {result.returncode}"
        except subprocess.TimeoutExpired:
            return "nvidia-smi does not return"
    return "no nvidia-smi, but device files" if glob.glob("/dev/nvidia[0-9]*") else None


def missing(folder, device):
    """what keeps the prebuilt programs from starting here, as one line; None if nothing does"""
    for name in ("tensord", "test_device_contract", "bench_gpu"):
        if not os.access(os.path.join(folder, name), os.X_OK):
            return f"there is no {name} in {folder}: tests/gpu/run.sh --build makes it on a machine with nvcc"
    try:
        check = subprocess.run([os.path.join(folder, "tensord"), "--check-config", "--listen", "127.0.0.1:0", "--gpu", device],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the daemon does not start: {error}"
    return f"tensord --check-config: {check.stdout.strip()}" if check.returncode else None


def table(done):
    """asked and measured, line by line"""
    outputs = {stage.name: stage.output for stage in done}
    for stage, what, pattern, asked, which in FIGURES:
        values = [float(value) for value in re.findall(pattern, outputs.get(stage, ""))][which]
        measured = min(values) if values else None
        verdict = "" if asked is None or measured is None else "reached" if measured >= asked else "BELOW"
        yield (f"  {what:45} {'' if asked is None else f'>= {asked}':8} "
               f"{'not measured' if measured is None else f'{measured:g}':13} {verdict}").rstrip()


def next_steps(args, device, done, added):
    """commands that can be pasted: with what a stage adds to the environment, without which the contract would test the
    reference device"""
    def pasted(command):
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in added.items()), shlex.join(command)])
    for stage in done:
        if stage.state in ("FAILED", "not run"):
            yield pasted(stage.command)
    contract, bench = (os.path.join(args.folder, name) for name in ("test_device_contract", "bench_gpu"))
    yield pasted(["compute-sanitizer", "--tool", "memcheck", contract, "gather "]) + "   # and the other families"
    yield pasted(["ncu", "--clock-control", "none", "-k", "regex:gather", "-c", "20", "--section", "SpeedOfLight",
                  "--section", "Occupancy", bench, device])


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the stage that runs is ended, too
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--folder", default=os.path.join(ROOT, "build-gpu-loan"))
    parser.add_argument("--logs", default=os.path.join(ROOT, "build-gpu-logs"))
    parser.add_argument("--device", metavar="NAME", help="in place of the GPU: reference, or the path of a plugin")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--total", type=float, default=560)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    begin = time.monotonic()
    args.folder, args.logs = os.path.abspath(args.folder), os.path.abspath(args.logs)
    os.makedirs(args.logs, exist_ok=True)
    device = args.device or os.path.join(args.folder, "tensord-gpu-cuda.so")
    gpu = gpu_of_the_machine()
    blas = cublas_folders()
    print(f"machine: {gpu or 'no GPU'}; {os.cpu_count()} processors\ndevice: {device}\n"
          f"cuBLAS: {blas[0] if blas else 'only where the dynamic linker finds it'}\nlogs: {args.logs}", flush=True)
    why = missing(args.folder, device)
    if why:
        print(f"FAILED: {why}")
        return 1
    if not args.device and gpu is None:
        print("skipped: no GPU; the plugin can be loaded and the daemon starts")
        return 77

    added = {"TD_TEST_DEVICE": device, "TD_TEST_DEVICE_EXPECTED": "1"}
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin"
    path = os.environ.get("PATH", os.defpath)
    if os.path.isdir(toolkit) and toolkit not in path.split(os.pathsep):
        added["PATH"] = path + os.pathsep + toolkit
    if blas and not args.device:  # an emulation brings its own
        old = os.environ.get("LD_LIBRARY_PATH")
        added["LD_LIBRARY_PATH"] = os.pathsep.join(blas[:1] + ([old] if old else []))
    environment = {**os.environ, **added, "PYTHONUNBUFFERED": "1"}
    done = [stage for stage in stages(args, device) if args.only in stage.name]
    for stage in done:
        left = args.total - (time.monotonic() - begin)
        if stage.needs and not shutil.which(stage.needs, path=added.get("PATH", path)):
            stage.state, stage.reason = "skipped", stage.without
        elif left < 1:
            stage.reason = f"the {args.total:.0f} s for all stages are over"
        else:
            run(stage, min(stage.limit if args.limit is None else args.limit, left), environment, args.logs)
        print(f"{stage.state:8} {stage.name:20} {stage.seconds:4.0f} s (estimate {stage.estimate})  {stage.reason[:150]}", flush=True)

    print("\n  asked and measured", *table(done), sep="\n")
    print("\n  next", *(f"  {line}" for line in next_steps(args, device, done, added)), sep="\n")
    count = {state: sum(stage.state == state for stage in done) for state in ("ok", "FAILED", "skipped", "not run")}
    print("\n" + ", ".join(f"{number} {state}" for state, number in count.items()) + f" in {time.monotonic() - begin:.0f} s")
    return 1 if count["FAILED"] or count["not run"] else 0


if __name__ == "__main__":
    sys.exit(main())
