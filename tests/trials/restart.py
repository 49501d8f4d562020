#!/usr/bin/env python3
"""Restarts daemons under clients that never retry: on one inherited socket, and in turn behind HAProxy.

    restart.py [--binary PATH] [--seconds N] [--seed N]

Every request is answered with 200. HAProxy neither retries nor sends a request to another server; it learns from /readyz that
one stops, within --drain-delay-ms. Without HAProxy that part is left out.
"""
import os, shutil, subprocess, time

from trial import *
from test_restart import Clients, listening

CHECK_MS = 100  # between two health checks; of a busy machine one may take longer, so it has `timeout check`
PROXY = """
global
    maxconn 1000
defaults
    mode http
    retries 0
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout check 10s
frontend clients
    bind 127.0.0.1:{port}
    default_backend daemons
backend daemons
    option httpchk GET /readyz
    default-server inter {check} fall 1 rise 1 check
    server first 127.0.0.1:{first}
    server second 127.0.0.1:{second}
"""


class Port:
    """what Clients needs of a listening socket"""

    def __init__(self, port):
        self.port = port

    def getsockname(self):
        return "127.0.0.1", self.port


def wait_until(condition):
    deadline = time.monotonic() + WAIT_LIMIT
    while not condition():
        assert time.monotonic() < deadline, "the daemons do not answer"
        time.sleep(0.01)


def on_one_socket(until, rng):
    restarts = 0
    with listening() as listener:
        running = Daemon(listener=listener)
        clients = Clients(listener)
        try:
            while time.monotonic() < until:
                seen = sum(clients.outcomes.values())
                following = Daemon(listener=listener) if rng.random() < 0.5 else None
                running.stop()
                running = following or Daemon(listener=listener)
                wait_until(lambda: sum(clients.outcomes.values()) > seen + 50)
                restarts += 1
        finally:
            outcomes = clients.end()
        running.stop()
    return restarts, outcomes


def behind_a_proxy(until, rng):
    ports = dict(zip(("port", "first", "second"), daemon.free_ports(3)))
    path = os.path.join(daemon.temporary_folder(), "haproxy.cfg")
    with open(path, "w", encoding="ascii") as file:
        file.write(PROXY.format(check=CHECK_MS, **ports))

    def start(name):
        return Daemon("--drain-delay-ms", str(int(10 * CHECK_MS * SCALE)), listen=f"127.0.0.1:{ports[name]}")
    servers = {name: start(name) for name in ("first", "second")}
    proxy = subprocess.Popen(["haproxy", "-db", "-f", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    restarts = 0
    try:
        time.sleep(20 * CHECK_MS / 1000 * SCALE)
        clients = Clients(Port(ports["port"]))
        try:
            while time.monotonic() < until:
                name = ("first", "second")[restarts % 2]
                servers[name].stop()
                servers[name] = start(name)
                time.sleep(rng.uniform(10, 20) * CHECK_MS / 1000 * SCALE)  # until the proxy knows that it is back
                restarts += 1
        finally:
            outcomes = clients.end()
    finally:
        proxy.terminate()
        proxy.wait()
    for server in servers.values():
        server.stop()
    return restarts, outcomes


def trial(seconds, rng):
    parts = [on_one_socket, behind_a_proxy]
    if not shutil.which("haproxy"):
        print("skipped: restarts behind a proxy, since there is no haproxy", flush=True)
        parts = [on_one_socket]
    done = []
    for part in parts:
        restarts, outcomes = part(time.monotonic() + seconds / len(parts), rng)
        assert set(outcomes) == {200}, f"{part.__name__}: {dict(outcomes)}"
        done.append(f"{restarts} restarts {part.__name__.replace('_', ' ')}, {outcomes[200]} requests")
    return "; ".join(done)


if __name__ == "__main__":
    run(trial, __doc__)
