"""A collector of OpenTelemetry for tests: keeps the requests that it gets, and answers as the test wants."""
import json, socket, threading, time

from daemon import WAIT_LIMIT


class Collector:
    """`answer(n, connection)` sends the reply to the n-th request, from 0, and returns whether the connection stays open."""

    def __init__(self, answer=None):
        self.answer = answer or (lambda n, connection: respond(connection))
        self.requests, self.changed = [], threading.Condition()  # (path, headers, body)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.closed = threading.Event()
        self.accepts = threading.Thread(target=self._accept, daemon=True)
        self.accepts.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                while self._one(connection, stream):
                    pass
            except OSError:  # the daemon has closed the connection
                pass

    def _one(self, connection, stream):
        first = stream.readline().decode().split()
        if len(first) != 3:
            return False
        headers = {}
        while True:
            line = stream.readline().decode().rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers["content-length"]))
        with self.changed:
            n = len(self.requests)
            self.requests.append((f"{first[0]} {first[1]}", headers, body))
            self.changed.notify_all()
        return self.answer(n, connection)

    def wait(self, done, what):
        """waits until `done(self)` is true"""
        deadline = time.monotonic() + WAIT_LIMIT
        with self.changed:
            while not done(self):
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what} did not come; there were {len(self.requests)} requests")
                self.changed.wait(0.05)

    def spans(self):
        """all spans, as objects"""
        with self.changed:
            bodies = [body for _, _, body in self.requests]
        return [span for body in bodies for resource in json.loads(body)["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def wait_span(self, wanted, what="the span"):
        """the first span that `wanted` accepts"""
        self.wait(lambda _: any(map(wanted, self.spans())), what)
        return next(span for span in self.spans() if wanted(span))

    def close(self):
        """Ends `accept` first: one that goes on after a close may take the connections of the next socket with this number."""
        self.closed.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.accepts.join()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def respond(connection, status=200, headers=(), body=b"{}"):
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return True


def attributes(span):
    """{name: value}"""
    out = {}
    for attribute in span["attributes"]:
        (kind, value), = attribute["value"].items()
        out[attribute["key"]] = int(value) if kind == "intValue" else value
    return out
