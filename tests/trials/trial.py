"""Shared by the trials: their options, tensors that can be recognised, and what a daemon holds.

A trial does its rounds until something is wrong; then it raises.  Everything random comes from --seed, but threads and
processes make no run exactly like another.
"""
import argparse, base64, http.client, json, os, random, struct, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import daemon, gates, holdings
from daemon import NPY_NAMES, SAFETENSORS, SAFETENSORS_NAMES, SIZES, WAIT_LIMIT, Client, Daemon, eventually, metric
from gates import GatedDaemon

HOUR_MS = "3600000"  # of timeouts that a trial does not reach by itself
GATES = ("sync", "link", "rename", "unlink", "encode")  # before a change of a file, and before a reply
LOST = (OSError, http.client.HTTPException)  # what a client sees of a daemon that ends, or closes the connection


def run(trial, doc, rounds, **more):
    """the main function of a trial: trial(rounds, random generator, **more) returns a sentence about what it did; `more` are
    further options with their defaults, which are numbers"""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/tensord")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"default: {rounds}")
    parser.add_argument("--seed", type=int, default=1)
    for name, default in more.items():
        parser.add_argument("--" + name, type=int, default=default, help=f"default: {default}")
    options = parser.parse_args()
    if options.binary:
        daemon.BINARY = options.binary
    began = time.monotonic()
    try:
        done = trial(options.rounds, random.Random(options.seed), **{name: getattr(options, name) for name in more})
        failures = daemon.stop_shared()
    except (AssertionError, *LOST) as e:
        failures = [f"{type(e).__name__}: {e}"]
        done = ""
        if not isinstance(e, AssertionError):
            import traceback
            traceback.print_exc()
    for failure in failures:
        print(f"FAILED (seed {options.seed}): {failure}")
    print(f"{done}{'; ' if done else ''}{time.monotonic() - began:.0f} s; {0 if failures else 1} passed, {1 if failures else 0} failed")
    sys.exit(1 if failures else 0)


# ---------------------------------------------------------------- tensors
class Value:
    """A tensor with random bytes, so that no two are equal and a part of another one is noticed."""

    def __init__(self, dtype, shape, raw):
        self.dtype, self.shape, self.raw = dtype, list(shape), raw

    def __eq__(self, other):
        return isinstance(other, Value) and (self.dtype, self.shape, self.raw) == (other.dtype, other.shape, other.raw)

    def __repr__(self):
        return f"{self.dtype}{self.shape} {self.raw[:12].hex()}... ({len(self.raw)} bytes)"

    def body(self, rng):
        """a body of PUT, and its Content-Type"""
        kinds = ["json"] + ["safetensors"] * 2 * (self.dtype in SAFETENSORS_NAMES) + ["npy"] * (self.dtype in NPY_NAMES)
        kind = rng.choice(kinds)
        if kind == "json":
            return json.dumps(daemon.tensor(self.dtype, self.shape, self.raw)).encode(), daemon.JSON
        if kind == "npy":
            return daemon.npy(self.dtype, self.shape, self.raw), "application/x-npy"
        return daemon.safetensors({"any": (self.dtype, self.shape, self.raw)}), SAFETENSORS


def random_value(rng, most=200_000, rows=None):
    """rows: the first dimension of a matrix of int32"""
    if rows is not None:
        columns = rng.randint(1, max(1, most // (4 * rows)))
        return Value("int32", [rows, columns], rng.randbytes(4 * rows * columns))
    dtype = rng.choice(["uint8", "int32", "float32", "float64", "complex128", "bfloat16", "string"])
    if dtype == "string":
        strings = [rng.randbytes(rng.choice((0, 1, 9, 300))) for _ in range(rng.randint(0, 50))]
        return Value("string", [len(strings)], daemon.raw_strings(strings))
    n = rng.choice((0, 1, 7, 100, most // SIZES[dtype]))
    return Value(dtype, [n], rng.randbytes(n * SIZES[dtype]))


def read_value(client, name):
    """the resident tensor, or the reply if it is not 200"""
    reply = client.request("GET", f"/v1/tensors/{name}?response=base64")
    if reply.status != 200:
        return reply
    document = reply.json()
    return Value(document["dtype"], document["shape"], base64.b64decode(document["base64"], validate=True))


def names(client):
    reply = client.request("GET", "/v1/tensors")
    assert reply.status == 200, str(reply)
    return {entry["name"]: entry for entry in reply.json()["tensors"]}


# ---------------------------------------------------------------- what a daemon holds
def held(running):
    """what holdings.py compares, and threads and resident memory"""
    now = holdings.ask(running, WAIT_LIMIT)
    assert now, "the daemon does not say what it holds"
    with open(f"/proc/{running.process.pid}/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {**now, "threads": int(lines["Threads"]), "rss": int(lines["VmRSS"].split()[0]) << 10}


def is_sanitized():
    """AddressSanitizer keeps freed memory for a while, so resident memory says nothing"""
    with open(daemon.BINARY, "rb") as program:
        return b"__asan_init" in program.read()


def expect_returned(running, before, rss=None):
    """Waits until the daemon holds no more than before; rss: the growth that is allowed, None to ignore it."""
    now, more = None, ["?"]
    if is_sanitized():
        rss = None

    def is_returned():
        nonlocal now, more
        now = held(running)
        more = holdings.differences(before, now)
        if now["threads"] > before["threads"]:
            more.append(f"threads: {now['threads']}, {before['threads']} before")
        if rss is not None and now["rss"] > before["rss"] + rss:
            more.append(f"resident memory: {now['rss'] >> 20} MiB, {before['rss'] >> 20} before")
        return not more
    try:
        eventually(is_returned)
    except AssertionError:
        raise AssertionError("the daemon holds more than before: " + "; ".join(more)) from None
    return now


def expect_serves(running):
    with Client(running) as client:
        reply = client.post("/v1/gather", {"params": [10, 20, 30], "indices": [2, 0]})
        assert reply.status == 200 and reply.json()["output"]["data"] == [30, 10], str(reply)


# ---------------------------------------------------------------- ends
def is_idle(running):
    """whether it has no request but that which asks"""
    return [metric(running, f'tensord_connections{{phase="{phase}"}}') for phase in ("receiving", "working", "sending")] == [0, 1, 0]


def stop_behind(running, wait_until_left_out):
    """stops a daemon with --drain-delay-ms HOUR_MS: the hour passes once the proxy sends it no request, and it has none"""
    running.send_signal()
    wait_until_left_out()
    running.sweep()  # it looks at its clock
    eventually(lambda: is_idle(running), "that the daemon has no request")
    running.clock.advance(int(HOUR_MS) / 1000 + 1)
    status = running.wait()
    assert status == 0, f"the daemon ended with status {status}; its log ends with:\n{running.tail(60)}"


class Part(threading.Thread):
    """Runs step() with a client until the daemon is gone."""

    def __init__(self, running, rng):
        super().__init__(daemon=True)
        self.running, self.rng, self.error = running, rng, None

    def run(self):
        try:
            with Client(self.running) as client:
                while True:
                    self.step(client)
        except LOST:
            pass
        except AssertionError as e:
            self.error = e


def expect_no_error(running, parts):
    for part in parts:
        if part.error:
            raise part.error
    assert running.alive(), "the daemon had ended; its log ends with:\n" + running.tail(60)


def kill_at_a_gate(running, parts, rng, is_far_enough):
    """kills the daemon while a thread of it is before a change of a file or a reply, after the parts have come far enough"""
    def is_time():
        expect_no_error(running, parts)
        return is_far_enough()
    eventually(is_time)
    gate = running.gates.close(rng.choice(GATES))
    try:
        for _ in range(rng.randint(0, 12)):
            gate.arrival().release()
        gate.arrival()
    except TimeoutError:
        expect_no_error(running, parts)
        raise AssertionError(f"nothing arrives at the gate {gate.path}") from None
    expect_no_error(running, parts)
    running.process.kill()
    running.wait()
    gate.open()
    for part in parts:
        part.join(WAIT_LIMIT)
        assert not part.is_alive(), "a client waits although the daemon is gone"
        if part.error:
            raise part.error
