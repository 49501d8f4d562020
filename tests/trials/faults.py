#!/usr/bin/env python3
"""Makes system calls and allocations of the whole daemon fail, at random and one by one, and compares what it says and
stores with what it should.

    faults.py [--binary PATH] [--rounds N] [--seed N]

The daemon answers with an error, closes the connection, or serves on: it does not end, does not hang and does not return or
store other bytes. A write that was refused has changed nothing, except as its error says. When calls succeed again it
serves, and holds no more descriptors, threads and memory than before. A daemon that cannot start says so. The library that makes
calls fail is faults.c, which is built beside the daemon; without it the trial is skipped. Not for sanitizer builds, whose own
calls would fail too.
"""
import mmap, os, signal, struct, subprocess

from trial import *

FUNCTIONS = ("openat read write fsync mmap ftruncate fallocate renameat linkat unlinkat fstat fstatat accept4 epoll_ctl recv send "
             "sendmsg malloc calloc realloc posix_memalign pthread_create eventfd socket").split()  # as in faults.c
DISK = "openat read write fsync mmap ftruncate fallocate renameat linkat unlinkat fstat fstatat".split()
MEMORY = "mmap malloc calloc realloc posix_memalign".split()
NETWORK = "accept4 epoll_ctl recv send sendmsg".split()
SETS = [DISK, MEMORY, NETWORK, ["fsync"], ["fsync", "renameat", "linkat", "unlinkat"], DISK + MEMORY + NETWORK]
HEAD = "<IIQQQ"
UNSURE = "nor restored"  # the exception, in the words of the error
NAMES = 6
WINDOWS, STARTS = 8, 30  # of a round


class Faults:
    """the control of faults.c, in a file that the daemon maps"""

    def __init__(self, folder):
        self.path = os.path.join(folder, "faults")
        with open(self.path, "wb") as out:
            out.write(bytes(struct.calcsize(HEAD) + 8 * len(FUNCTIONS)))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)

    def set(self, functions=(), per_million=0, seed=0, countdown=0):
        bits = sum(1 << FUNCTIONS.index(name) for name in functions)
        self.map[:struct.calcsize(HEAD)] = struct.pack(HEAD, 0, 0, 0, 0, 0)
        self.map[:struct.calcsize(HEAD)] = struct.pack(HEAD, bits, per_million, seed, countdown, 0)

    def calls(self):
        return struct.unpack_from(HEAD, self.map)[4]

    def failures(self):
        counts = struct.unpack_from(f"<{len(FUNCTIONS)}Q", self.map, struct.calcsize(HEAD))
        return {name: n for name, n in zip(FUNCTIONS, counts) if n}


def library():
    path = os.path.join(os.path.dirname(os.path.abspath(daemon.BINARY)), "tests", "trials", "faults.so")
    if not os.path.exists(path):
        print(f"skipped: there is no {path}: build the target td_faults")
        sys.exit(77)
    return path


# ---------------------------------------------------------------- requests
class Model:
    """what each name may hold: one value, or after an answer was lost several"""

    def __init__(self, prefix="n"):
        self.may = {f"{prefix}{i}": [None] for i in range(NAMES)}
        self.answers, self.errors, self.lost = 0, 0, 0

    def request(self, running, method, path, body=b"", headers=None):
        """None: no answer"""
        try:
            with Client(running, timeout=4 * WAIT_LIMIT) as client:
                reply = client.request(method, path, body, headers or {})
        except TimeoutError:
            raise AssertionError(f"{method} {path} is not answered") from None
        except LOST:
            self.lost += 1
            return None
        self.answers += 1
        self.errors += reply.status >= 500
        return reply

    def write(self, running, rng):
        name, persist = rng.choice(list(self.may)), True
        value = random_value(rng) if rng.random() < 0.8 else None
        path = f"/v1/tensors/{name}?persist=1"
        if value:
            body, content_type = value.body(rng)
            reply = self.request(running, "PUT", path, body, {"Content-Type": content_type})
        else:
            reply = self.request(running, "DELETE", f"/v1/tensors/{name}")
        if reply is not None and reply.status in (200, 201, 204):
            self.may[name] = [value]
        elif reply is None or UNSURE in reply.body.decode():
            self.may[name].append(value)
        elif reply.status == 404 and not value:
            assert None in self.may[name], f"{name} is lost: {reply}"
            self.may[name] = [None]
        else:
            assert reply.status >= 500 or reply.status in (403, 422, 429), f"{method_of(value)} {name}: {reply}"

    def read(self, running, name, strict=False):
        reply = self.request(running, "GET", f"/v1/tensors/{name}?response=base64")
        if reply is None or reply.status >= 500:
            assert not strict, f"{name}: {reply}"
            return
        document = reply.json() if reply.status == 200 else None
        found = Value(document["dtype"], document["shape"], base64.b64decode(document["base64"])) if document else None
        assert document or reply.status == 404, f"{name}: {reply}"
        assert any(found == value for value in self.may[name]), f"{name} is {found}, not one of {self.may[name]}"
        self.may[name] = [found]

    def compute(self, running, rng):
        values = [rng.randrange(1 << 20) for _ in range(rng.choice((3, 3000)))]
        rows = [rng.randrange(len(values)) for _ in range(len(values))]
        reply = self.request(running, "POST", "/v1/gather", json.dumps({"params": values, "indices": rows}).encode(),
                             {"Content-Type": daemon.JSON, "Accept-Encoding": rng.choice(("identity", "gzip"))})
        if reply is not None and reply.status == 200 and not reply.headers.get("Content-Encoding"):
            assert reply.json()["output"]["data"] == [values[i] for i in rows], "a wrong result"
        else:
            assert reply is None or reply.status in (200, 429) or reply.status >= 500, str(reply)

    def step(self, running, rng):
        kind = rng.random()
        if kind < 0.5:
            self.write(running, rng)
        elif kind < 0.75:
            self.read(running, rng.choice(list(self.may)))
        elif kind < 0.97:
            self.compute(running, rng)
        else:
            running.send_signal(signal.SIGHUP)


def method_of(value):
    return "PUT" if value else "DELETE"


# ---------------------------------------------------------------- trials
def start(folder, faults, *options):
    return GatedDaemon("--data-dir", folder, "--memory-limit", "256M", "--compress", "--idle-timeout-ms", HOUR_MS, *options,
                       env={"LD_PRELOAD": library(), "TD_FAULTS": faults.path})


def end_idle(running):
    """ends the connections whose end the daemon could not see for a failing call"""
    running.clock.advance(2 * int(HOUR_MS) / 1000)


def serve_with_faults(folder, faults, model, rng):
    """one daemon, several sets of failing calls; after each the daemon must be as before"""
    with start(folder, faults) as running:
        for name in model.may:
            model.read(running, name, strict=True)
        expect_serves(running)
        before = held(running)
        for _ in range(WINDOWS):
            faults.set(rng.choice(SETS), rng.choice((3000, 30000, 200000)), rng.getrandbits(63))
            for _ in range(rng.randint(5, 40)):
                model.step(running, rng)
                assert running.alive(), f"the daemon has ended with {running.process.returncode}, after {faults.failures()}; " \
                    f"its log ends with:\n{running.tail(30)}"
            faults.set()
            end_idle(running)
            expect_serves(running)
            for name in model.may:
                model.read(running, name, strict=True)
            now = expect_returned(running, before)
            stored = sum(len(values[0].raw) for values in model.may.values() if values[0])
            assert now["in_use"] <= 4 * stored + (4 << 20), f"{now['in_use']} bytes in use for tensors of {stored}"


def start_with_faults(folder, faults, rng, number):
    """the number-th call of all fails while the daemon starts; False when it made fewer"""
    faults.set(FUNCTIONS, 0, rng.getrandbits(63), number)
    process = subprocess.Popen([daemon.BINARY, "--listen", "127.0.0.1:0", "--data-dir", folder, "--workers", "2", "--log-format", "json"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=daemon.environment(LD_PRELOAD=library(), TD_FAULTS=faults.path))
    try:
        text = b""
        for line in process.stderr:
            text += line
            if b'"ready"' in line:
                break
        failed = faults.calls() >= number
        faults.set()
        if b'"ready"' in text:
            process.send_signal(signal.SIGTERM)
        text += process.stderr.read()
        status = process.wait(WAIT_LIMIT)
        assert status in (0, 1, 2, 127), f"call {number}: exit status {status}\n{text.decode()}"
        assert status == 0 or text.strip(), f"call {number}: exit status {status} without a reason"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    return failed


def trial(rounds, rng):
    folder, control = daemon.temporary_folder(), daemon.temporary_folder()
    faults, model, starts, more = Faults(control), Model(), 0, True
    for _ in range(rounds):
        faults.set()
        serve_with_faults(folder, faults, model, rng)
        for _ in range(STARTS):
            more = more and start_with_faults(folder, faults, rng, starts + 1)
            starts += more
    faults.set()
    with start(folder, faults) as running:
        for name in model.may:
            model.read(running, name, strict=True)
    assert faults.failures(), f"no call has failed: {library()} has no effect"
    return f"{sum(faults.failures().values())} failed calls of {len(faults.failures())} functions, {model.answers} answers, " \
           f"{model.errors} of them 5xx, {model.lost} lost, {starts} starts with a failure"


if __name__ == "__main__":
    run(trial, __doc__, rounds=2)
