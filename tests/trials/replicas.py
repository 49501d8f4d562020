#!/usr/bin/env python3
"""Restarts and kills replicas behind HAProxy and behind Envoy, under wrk, with the configurations of deploy/.

    replicas.py [--binary PATH] [--rounds N] [--seed N]

Three replicas are restarted one by one: no request fails. One of them is killed with SIGKILL: at most the requests that it had
may fail, and it is told how many did, and how many the proxy sent again. A round is both, for each proxy. A proxy that cannot be installed is left out.
"""
import re, signal, subprocess

from trial import *
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy"))
import packages, proxy

CHECK_MS = 100  # between two health checks, where the configurations have a second
CONNECTIONS = 32
ANSWERS = 200  # before something happens, and after it
LOAD = os.path.join(proxy.ROOT, "deploy", "load", "lookup.lua")


class Load:
    """wrk, which neither retries nor ignores anything, while the block runs"""

    def __init__(self, running):
        self.running = running
        self.command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", "1h", "--timeout", "100s", "-s", LOAD, f"http://127.0.0.1:{running.port}"]

    def wait(self):
        wanted = self.running.requests() + ANSWERS
        eventually(lambda: self.running.requests() >= wanted, "that the proxy answers")

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.wait()
        return self

    def __exit__(self, kind, *_):
        if not kind:
            self.wait()
        self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=WAIT_LIMIT)[0]
        self.requests = int(re.search(r"(\d+) requests in", text)[1])
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        self.failed = sum(map(int, errors.groups() if errors else ())) + int(refused[1] if refused else 0)
        self.text = text


def replica(port):
    return GatedDaemon("--read-only", "--data-dir", os.path.join(proxy.ROOT, "deploy", "sample"), "--trusted-proxy", "127.0.0.1",
                       "--drain-delay-ms", HOUR_MS, listen=f"127.0.0.1:{port}")


def killed(running, replicas, number):
    """SIGKILL; the replica is back when this returns"""
    replicas[number].process.kill()
    replicas[number].wait()
    running.wait_healthy(len(replicas) - 1)
    replicas[number] = replica(running.replicas[number])
    running.wait_healthy()


def restarted(running, replicas, number):
    stop_behind(replicas[number], lambda: running.wait_healthy(len(replicas) - 1))
    replicas[number] = replica(running.replicas[number])
    running.wait_healthy()


def round_of(running, replicas, rng, done):
    before = running.retries()
    with Load(running) as load:
        for number in range(len(replicas)):
            restarted(running, replicas, number)
    assert load.failed == 0, f"{running.kind}: {load.failed} of {load.requests} requests failed while replicas were restarted:\n{load.text}"
    done["restarts"] += len(replicas)
    done["resent_at_restarts"] += running.retries() - before
    done["requests"] += load.requests
    before = running.retries()
    with Load(running) as load:
        killed(running, replicas, rng.randrange(len(replicas)))
    assert load.failed <= CONNECTIONS, f"{running.kind}: {load.failed} requests failed at one SIGKILL:\n{load.text}"
    done["kills"] += 1
    done["resent_at_kills"] += running.retries() - before
    done["failed"] += load.failed
    done["requests"] += load.requests


def behind(kind, rounds, rng):
    stopped = proxy.Proxy(kind, CHECK_MS)
    replicas = [replica(port) for port in stopped.replicas]
    done = dict.fromkeys(("requests", "restarts", "resent_at_restarts", "kills", "resent_at_kills", "failed"), 0)
    try:
        with stopped as running:
            running.wait_healthy()
            for _ in range(rounds):
                round_of(running, replicas, rng, done)
        for each in replicas:
            stop_behind(each, lambda: None)
    finally:
        for each in replicas:
            each.process.kill()
    return (f"{kind}: {done['requests']} requests; {done['restarts']} restarts, {done['resent_at_restarts']} sent again, 0 failed; "
            f"{done['kills']} kills, {done['resent_at_kills']} sent again, {done['failed']} failed")


def available(kind):
    try:
        return proxy.program(kind)
    except packages.Unavailable as e:
        print(f"SKIP {kind}: {e}", flush=True)


def trial(rounds, rng):
    kinds = list(filter(available, proxy.MEASURED))
    if not kinds:
        print("skipped: neither haproxy nor envoy is installed")
        sys.exit(77)
    return "; ".join(behind(kind, rounds, rng) for kind in kinds)


if __name__ == "__main__":
    run(trial, __doc__, rounds=1)
