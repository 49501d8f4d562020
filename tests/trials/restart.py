#!/usr/bin/env python3
"""Restarts daemons under clients that never retry: on one inherited socket, and in turn behind HAProxy.

    restart.py [--binary PATH] [--rounds N] [--seed N]

Every request is answered with 200. HAProxy neither retries nor sends a request to another server; it learns from /readyz that
one stops, and only when it has does the daemon's --drain-delay-ms pass. Without HAProxy that part is left out.
"""
import os, shutil, socket, subprocess

from trial import *
from test_restart import Clients, listening
from daemon import temporary_folder

CHECK_MS = 50  # between two health checks; its other times only end a hang
PROXY = """
global
    maxconn 1000
    stats socket {stats}
defaults
    mode http
    retries 0
    timeout connect 1h
    timeout client 1h
    timeout server 1h
    timeout check 1h
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


def answered(clients, more):
    """waits for so many more answers"""
    seen = sum(clients.outcomes.values())
    eventually(lambda: sum(clients.outcomes.values()) > seen + more, "that the daemons answer")


def on_one_socket(rounds, rng):
    with listening() as listener:
        running = GatedDaemon(listener=listener)
        clients = Clients(listener)
        try:
            for _ in range(rounds):
                following = GatedDaemon(listener=listener) if rng.random() < 0.5 else None
                with running.clock.stopped():  # the daemon does not give up a connection whose thread is slow
                    running.stop()
                running = following or GatedDaemon(listener=listener)
                answered(clients, 50)
        finally:
            outcomes = clients.end()
        running.stop()
    return outcomes


class Proxy:
    """HAProxy in front of two daemons, which it calls first and second"""

    def __init__(self):
        self.ports = dict(zip(("port", "first", "second"), daemon.free_ports(3)))
        folder = temporary_folder()
        self.stats, path = os.path.join(folder, "stats"), os.path.join(folder, "haproxy.cfg")
        with open(path, "w", encoding="ascii") as file:
            file.write(PROXY.format(check=CHECK_MS, stats=self.stats, **self.ports))
        self.process = subprocess.Popen(["haproxy", "-db", "-f", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def status(self, name):
        """UP or DOWN, as the proxy sees a daemon; before it listens ''"""
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(self.stats)
            except OSError:
                return ""
            client.sendall(b"show stat -1 4 -1\n")
            with client.makefile(encoding="ascii") as lines:
                columns = next(lines).lstrip("# ").split(",")
                rows = [dict(zip(columns, line.split(","))) for line in lines if line.strip()]
        return next(row["status"] for row in rows if row["svname"] == name)

    def wait(self, name, status):
        eventually(lambda: self.status(name) == status, f"that {name} is {status} to the proxy")


def behind_a_proxy(rounds, rng):
    proxy = Proxy()

    def start(name):
        return GatedDaemon("--drain-delay-ms", HOUR_MS, listen=f"127.0.0.1:{proxy.ports[name]}")
    servers = {name: start(name) for name in ("first", "second")}
    try:
        for name in servers:
            proxy.wait(name, "UP")
        clients = Clients(Port(proxy.ports["port"]))
        try:
            for _ in range(rounds):
                name = rng.choice(list(servers))
                stop_behind(servers[name], lambda: proxy.wait(name, "DOWN"))
                servers[name] = start(name)
                proxy.wait(name, "UP")
                answered(clients, 50)
        finally:
            outcomes = clients.end()
        for server in servers.values():
            stop_behind(server, lambda: None)
    finally:
        for process in [proxy.process, *(server.process for server in servers.values())]:
            process.kill()
            process.wait()
    return outcomes


def trial(rounds, rng):
    parts = [on_one_socket, behind_a_proxy]
    if not shutil.which("haproxy"):
        print("skipped: restarts behind a proxy, since there is no haproxy", flush=True)
        parts = [on_one_socket]
    done = []
    for part in parts:
        outcomes = part(rounds, rng)
        assert set(outcomes) == {200}, f"{part.__name__}: {dict(outcomes)}"
        done.append(f"{rounds} restarts {part.__name__.replace('_', ' ')}, {outcomes[200]} requests")
    return "; ".join(done)


if __name__ == "__main__":
    run(trial, __doc__, rounds=8)
