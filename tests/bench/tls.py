#!/usr/bin/env python3
"""Measures the cost of TLS, compared with the same daemon without TLS.

    tls.py [BINARY] [--only NAME] [--seconds S] [--rounds N]

requests      small gathers on 16 open connections: rate, and the server's processor time for each request
connections   the same with a new connection for each request, with a P-256 ECDSA key and a 2048-bit RSA key
handshakes    health checks, each on a new connection, by four threads of tls_client; with the ECDSA key, with whole and
              with resumed handshakes
large         replies of 16 MB on 4 connections: GB/s
idle          memory of a waiting connection

wrk or tls_client generates the load on the same two cores. Needs the target `benchmarks`. Figures are medians over the
rounds, which alternate between the daemons.
"""
import argparse, functools, os, re, socket, statistics, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "http"))
import certificates, daemon as tensord

GATHER = """wrk.method = "POST"
wrk.body = '{"params":[10,20,30],"indices":[0,2]}'
wrk.headers["Connection"] = "%s"
"""
LARGE = """wrk.path = "/v1/tensors/large"
wrk.headers["Accept"] = "application/x-npy"
"""
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def processor_time(pid):
    """seconds"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def wrk(daemon, script, connections, seconds):
    """Returns (requests per second, bytes per second, processor seconds for each request)."""
    scheme = "https" if daemon.tls else "http"
    before = processor_time(daemon.process.pid)
    text = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script, f"{scheme}://127.0.0.1:{daemon.port}/v1/gather"],
                          check=True, capture_output=True, text=True).stdout
    used = processor_time(daemon.process.pid) - before
    if re.search(r"Non-2xx|Socket errors: connect [^0]", text):
        sys.exit(f"tls.py: {text}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    number, unit = re.search(r"Transfer/sec:\s+([\d.]+)([KMG]?)B", text).groups()
    return rate, float(number) * UNITS[unit], used / (rate * seconds)


def resident(daemon):
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def idle_bytes(daemon, count=1000):
    """Returns the memory of each connection after a request."""
    connections = []

    def open_some(n):
        for _ in range(n):
            raw = tensord.Raw(daemon)
            raw.send(tensord.http_request("GET", "/healthz"))
            raw.reply()
            connections.append(raw)
    open_some(50)
    before = resident(daemon)
    open_some(count)
    return (resident(daemon) - before) / count


def tls_client(daemon, kind, seconds):
    """Returns (requests per second, 0, processor seconds of the server for each request)."""
    program = os.path.join(os.path.dirname(tensord.BINARY), "tests", "bench", "tls_client")
    before = processor_time(daemon.process.pid)
    text = subprocess.run([program, str(daemon.port), str(seconds), kind], check=True, capture_output=True, text=True).stdout
    used = processor_time(daemon.process.pid) - before
    rate, resumed, all_of_them = map(float, re.fullmatch(r"([\d.]+) requests/s, (\d+) of (\d+) resumed\n", text).groups())
    if (resumed > all_of_them / 2) != (kind == "resumed"):
        sys.exit(f"tls.py: {kind}: {text}")
    return rate, 0, used / (rate * seconds)


def compare(case, rounds, turns):
    """turns: {name: a function that measures like wrk}; "plain" is the baseline"""
    runs = [{name: turn() for name, turn in turns.items()} for _ in range(rounds)]
    for name in turns:
        rate, data, used = (statistics.median(run[name][i] for run in runs) for i in range(3))
        ratio = statistics.median(run[name][0] / run["plain"][0] for run in runs)
        print(f"{case:12} {name:7} {rate:9.0f} a second, {data / 1e9:6.2f} GB/s, {used * 1e6:9.1f} us of the server each, {ratio:5.2f} of plain",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="build/tensord")
    parser.add_argument("--only", choices=["requests", "connections", "large", "handshakes", "idle"])
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    tensord.BINARY = os.path.abspath(options.binary)
    folder = certificates.Folder().authority("authority").sign("ecdsa", "server").sign("rsa", "server", rsa=True)
    context = folder.context()
    with tempfile.TemporaryDirectory() as scripts, tensord.Daemon() as plain, \
            tensord.Daemon(*folder.options("ecdsa"), tls=context) as ecdsa, tensord.Daemon(*folder.options("rsa"), tls=context) as rsa:
        paths = {}
        for name, text in (("kept", GATHER % "keep-alive"), ("new", GATHER % "close"), ("large", LARGE)):
            paths[name] = os.path.join(scripts, name + ".lua")
            with open(paths[name], "w", encoding="ascii") as file:
                file.write(text)
        for daemon in (plain, ecdsa):
            with tensord.Client(daemon) as client:
                client.request("PUT", "/v1/tensors/large", tensord.npy("|u1", [16 << 20], bytes(16 << 20)), {"Content-Type": "application/x-npy"})
        cases = [("requests", "kept", 16, {"plain": plain, "tls": ecdsa}), ("connections", "new", 16, {"plain": plain, "ecdsa": ecdsa, "rsa": rsa}),
                 ("large", "large", 4, {"plain": plain, "tls": ecdsa})]
        for case, script, connections, daemons in cases:
            if options.only in (None, case):
                compare(case, options.rounds, {name: functools.partial(wrk, daemon, paths[script], connections, options.seconds)
                                               for name, daemon in daemons.items()})
        if options.only in (None, "handshakes"):
            compare("handshakes", options.rounds, {kind: functools.partial(tls_client, daemon, kind, options.seconds)
                                                   for kind, daemon in (("plain", plain), ("full", ecdsa), ("resumed", ecdsa))})
        for name, daemon in (("plain", plain), ("tls", ecdsa)):
            if options.only in (None, "idle"):
                print(f"{'idle':12} {name:6} {idle_bytes(daemon) / 1024:9.1f} KiB each")


if __name__ == "__main__":
    main()
