#!/usr/bin/env python3
"""Checks deploy/haproxy, deploy/envoy, deploy/nginx and deploy/caddy: what passes through them, and which requests they send again.

    proxies.py [--binary PATH] [PROXY...]

Each proxy checks its file first. Then it runs in front of three replicas that fail after they have read a request, which
count what they get, and in front of three daemons. A proxy that is neither installed nor can be is skipped, with the
reason; exit status 77 if all are.
"""
import argparse, collections, contextlib, http.client, json, os, socketserver, subprocess, sys, threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import packages, proxy
import daemon
from proxy import ROOT, Proxy
from daemon import SAFETENSORS, Daemon, Raw, eventually, http_request, safetensors

CHECK_MS = 100
ONCE, REPEATED = 1, 3  # how often a request is sent if each replica fails: `retries 2`
LARGE = 1 << 20        # bytes of a body that a proxy must not keep
REQUESTS = [
    ("GET", "/v1/tensors/a", 0, REPEATED), ("HEAD", "/v1/tensors/a", 0, REPEATED), ("GET", "/v2", 0, REPEATED),
    ("POST", "/v1/gather", 100, REPEATED), ("POST", "/v1/einsum/plan", 100, REPEATED),
    ("POST", "/v2/models/gather/infer", 100, REPEATED), ("POST", "/v2/models/gather/versions/1/infer", 100, REPEATED),
    ("POST", "/v1/gather", LARGE, ONCE), ("POST", "/v1/gather?store=b", 100, ONCE), ("POST", "/v1/gather?axis=0&store=b", 100, ONCE),
    ("PUT", "/v1/tensors/a", 100, ONCE), ("DELETE", "/v1/tensors/a", 0, ONCE), ("POST", "/v1/tensors/a/scatter", 100, ONCE),
    ("POST", "/v2/repository/models/gather/load", 2, ONCE), ("POST", "/v2/systemsharedmemory/region/a/register", 100, ONCE),
]


# The proxies that choose by the method alone. They send nothing again after a 503, and leave replicas out that have just failed.
AGAIN = {"nginx": ("GET", "HEAD"), "caddy": ("GET",)}


def may_be_sent(kind, failure, method, times):
    """how often a request may be sent: the numbers that are right"""
    if kind not in AGAIN:
        return range(times, times + 1)
    return range(ONCE, REPEATED + 1 if failure == "reset" and method in AGAIN[kind] else ONCE + 1)


class Failing(socketserver.ThreadingTCPServer):
    """A replica that is ready, and fails when it has read a request: "reset" closes the connection, "503" answers."""
    allow_reuse_address = daemon_threads = True

    def __init__(self, port, failure, counts):
        self.failure, self.counts = failure, counts
        super().__init__(("127.0.0.1", port), FailingHandler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class FailingHandler(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode("latin-1")
        if not line:
            return
        method, path, _ = line.split(" ")
        headers = http.client.parse_headers(self.rfile)
        if path == "/readyz":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        self.rfile.read(int(headers.get("Content-Length", 0)))
        self.server.counts[headers["X-Request-Id"]] += 1
        if self.server.failure == "503":
            self.wfile.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def expect(what, actual, expected):
    if actual != expected:
        raise AssertionError(f"{what}: {actual}, expected {expected}")


def ask(proxy_, method, path, body=b"", headers=(), source=None):
    with Raw(proxy_, source=source) as raw:
        raw.send(http_request(method, path, body, headers))
        return raw.reply(head=method == "HEAD")


def check_file(kind):
    """the proxy's own check of the file as it is shipped; a warning fails too"""
    done = subprocess.run(proxy.command(kind, os.path.join(ROOT, proxy.FILES[kind]), check=True), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or "warning" in done.stdout.lower():
        raise AssertionError(done.stdout)


def check_retries(kind):
    """what may be sent again, and that nothing else is"""
    counts = collections.Counter()
    for failure in "reset", "503":
        with Proxy(kind, CHECK_MS) as running, contextlib.ExitStack() as stack:
            for port in running.replicas:
                stack.enter_context(Failing(port, failure, counts))
            for number, (method, path, size, times) in enumerate(REQUESTS):
                running.wait_healthy()
                name = f"{failure}-{number}"
                # A client must not be able to choose what is sent again.
                reply = ask(running, method, path, b"x" * size,
                            [f"X-Request-Id: {name}", "X-Envoy-Retry-On: 5xx", "X-Envoy-Max-Retries: 9"])
                right = may_be_sent(kind, failure, method, times)
                expect(f"{failure}: {method} {path} with {size} bytes is sent {counts[name]} times, of {right}", counts[name] in right, True)
                expect(f"{failure}: the status of {method} {path}", reply.status in (502, 503), True)


def check_refused(kind):
    """a replica that accepts no connection costs no request: of HAProxy and Envoy also none that changes something, of Caddy none
    without a body"""
    request = {"nginx": ("POST", "/v1/gather", b'{"params": [1], "indices": [0]}'), "caddy": ("GET", "/v1/ops", b"")}.get(kind, ("PUT", "/v1/tensors/t", b"[1]"))
    rare = Proxy(kind, 60000)
    replicas = [Daemon(listen=f"127.0.0.1:{port}") for port in rare.replicas]
    with rare as running:
        running.wait_healthy()
        replicas[0].stop()
        for number in range(12):
            status = ask(running, *request).status
            expect(f"{request[0]} {number} beside a replica that has ended", status in (200, 201), True)
        for replica in replicas[1:]:
            replica.stop()


def peak_bytes(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def check_passing(kind):
    """headers, paths, refusals and bodies as without a proxy"""
    with Proxy(kind, CHECK_MS) as running:
        replicas = [Daemon("--read-only", "--data-dir", os.path.join(ROOT, "deploy", "sample"), "--trusted-proxy", "127.0.0.1",
                           "--access-log", "on", "--max-body", "128M", listen=f"127.0.0.1:{port}") for port in running.replicas]
        running.wait_healthy()
        check_headers(running, replicas)
        check_bodies(running)
        expect("GET /metrics", ask(running, "GET", "/metrics").status, 404)
        for replica in replicas:
            replica.stop()


def logged(replicas, name):
    """the line of the request's log, whichever replica wrote it"""
    return eventually(lambda: next((event for replica in replicas for event in replica.events() if event.get("request_id") == name), None),
                      f"that a replica logs the request {name}")


def check_headers(running, replicas):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    reply = ask(running, "GET", "/v1/ops", source="127.0.0.5", headers=[
        "X-Request-Id: mine-1", f"traceparent: 00-{trace}-00f067aa0ba902b7-01", "X-Forwarded-For: 192.0.2.9"])
    expect("X-Request-Id of the reply", reply.headers["X-Request-Id"], "mine-1")
    event = logged(replicas, "mine-1")
    expect("the trace that is logged", event.get("trace_id"), trace)
    expect("the client that is logged", event.get("forwarded_for"), "127.0.0.5")
    made = {ask(running, "GET", "/healthz").headers["X-Request-Id"] for _ in range(3)}
    expect("ids of requests without one", (len(made), {len(name) for name in made}), (3, {32 if running.kind == "nginx" else 36}))
    with Raw(replicas[0]) as raw:
        raw.send(http_request("GET", "/v1/tensors/planets"))
        direct = raw.reply()
    through = ask(running, "GET", "/v1/tensors/planets")
    ours = {"x-request-id", "date", *(("server", "connection") if running.kind == "nginx" else ())}
    expect("headers of the reply", {k.lower(): v for k, v in through.headers.items() if k.lower() not in ours},
           {k.lower(): v for k, v in direct.headers.items() if k.lower() not in ours})
    expect("a Range", ask(running, "GET", "/v1/tensors/planets", headers=[
        "Accept: application/vnd.safetensors", "Range: bytes=0-7"]).status, 206)
    expect("If-None-Match", ask(running, "GET", "/v1/tensors/planets", headers=[f"If-None-Match: {direct.headers['ETag']}"]).status, 304)
    for path, status in {"/v1%2Fops": 404, "/v1//ops": 404, "/v1/x/../ops": 404, "/v1/%6Fps": 404}.items():
        with Raw(replicas[0]) as raw:
            raw.send(http_request("GET", path))
            expect(f"GET {path} without a proxy", raw.reply().status, status)
        expect(f"GET {path}", ask(running, "GET", path).status, status)


def check_bodies(running):
    before = peak_bytes(running.process)
    rows = 64 << 18
    body = safetensors({"params": ("float32", (rows,), bytes(4 * rows)), "indices": ("int32", (rows // 2,), bytes(2 * rows))})
    reply = ask(running, "POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}", f"Accept: {SAFETENSORS}"])
    expect("a body of 96 MiB", (reply.status, len(reply.body) > 2 * rows), (200, True))
    grown = (peak_bytes(running.process) - before) >> 20
    expect(f"bodies stream: memory grew by {grown} MiB", grown < 24, True)
    with Raw(running) as raw:
        raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000000\r\nExpect: 100-continue\r\n\r\n")
        reply = raw.reply()
        if running.kind in AGAIN and reply.status == 100:  # their own; tensord refuses the body all the same
            reply = raw.reply()
        expect("a body beyond --max-body", (reply.status, json.loads(reply.body)["code"]), (413, "PAYLOAD_TOO_LARGE"))
    reply = ask(running, "POST", "/v1/gather", b'{"params": [1], "indices": [1]}')
    expect("an error", (reply.status, json.loads(reply.body)["code"]), (422, "INDEX_OUT_OF_BOUNDS"))
    reply = ask(running, "PUT", "/v1/tensors/a", b"[1]")
    expect("a change of a read-only replica", (reply.status, json.loads(reply.body)["code"]), (403, "FORBIDDEN"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    parser.add_argument("kinds", nargs="*", metavar="PROXY", help="haproxy, envoy, nginx, caddy (default: all)")
    options = parser.parse_args()
    if options.binary:
        daemon.BINARY = options.binary
    passed, failed = 0, 0
    for kind in options.kinds or proxy.FILES:
        try:
            proxy.program(kind)
        except packages.Unavailable as e:
            print(f"SKIP {kind}: {e}", flush=True)
            continue
        for check in check_file, check_retries, check_refused, check_passing:
            try:
                check(kind)
                passed += 1
            except AssertionError as e:
                failed += 1
                print(f"FAIL {kind}: {check.__name__}: {e}", flush=True)
    if not passed and not failed:
        print("skipped: no proxy is installed")
        sys.exit(77)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
