#!/usr/bin/env python3
"""A hostile network: clients that drip, never read, vanish, stay idle, send garbage; and one that behaves well.

    hostile.py [--binary PATH] [--rounds N] [--seed N]

The well-behaved client gets every answer, and the right one. Afterwards the daemon holds no more descriptors, threads,
connections and memory than before. Hostile clients have addresses of their own in 127.0.0.0/8. What they do lasts for so many of
the answers that the well-behaved client gets.
"""
import itertools, resource, socket, threading, urllib.parse

from trial import *
from daemon import http_request

THREADS, MOST_IDLE, RSS_GROWTH = 6, 1000, 96 << 20
BEHAVIOURS = 12  # of a thread in a round
BODY = b'{"params":[1,2],"indices":[1]}'
LARGE = {"params": daemon.tensor("uint8", (1, 4096), bytes(4096)), "indices": [0] * 2000, "response": "base64"}  # 8 MB of reply


class Served:
    """counts the answers to those who behave well, which is how the hostile ones measure time"""

    def __init__(self):
        self.count, self.ended, self.changed = 0, False, threading.Condition()

    def add(self):
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def end(self):
        """nobody behaves well any more: all waits end"""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait(self, more):
        """until there are so many more"""
        with self.changed:
            wanted = self.count + more
            self.changed.wait_for(lambda: self.ended or self.count >= wanted, WAIT_LIMIT)


class Hostile:
    """A connection from an address of its own, which never raises and never waits for long."""
    numbers = itertools.count()

    def __init__(self, running, served):
        number, self.served = next(self.numbers), served
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket.bind((f"127.0.{2 + number // 250 % 250}.{1 + number % 250}", 0))
            self.socket.connect((running.host, running.port))
        except OSError:
            pass
        self.socket.setblocking(False)

    def send(self, data):
        """all, or what the daemon takes until many answers to others later"""
        sent, waits = 0, 0
        while sent < len(data):
            try:
                sent += self.socket.send(data[sent:sent + (1 << 16)])
            except BlockingIOError:
                waits += 1
                if waits > 20:
                    return False
                self.served.wait(5)
            except OSError:
                return False
        return True

    def read(self, answers=0):
        """what has come when others have had so many more answers"""
        self.served.wait(answers)
        try:
            return self.socket.recv(1 << 16)
        except OSError:
            return b""

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


# ---------------------------------------------------------------- requests
def valid(rng):
    return rng.choice((http_request("POST", "/v1/gather", BODY), http_request("GET", "/v1/ops"), http_request("GET", "/v1/tensors/table"),
                       http_request("POST", "/v1/gather", json.dumps(LARGE).encode()),
                       http_request("POST", "/v2/models/gather/infer", b'{"inputs":[]}'),
                       http_request("PUT", "/v1/tensors/hostile", b"[1,2,3]"), http_request("DELETE", "/v1/tensors/hostile")))


def chunked(rng):
    """a body in chunks of one byte, perhaps with a wrong end"""
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    return b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces \
        + rng.choice((b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"-1\r\n\r\n", b""))


def smuggled(rng):
    """framings on which two parsers may disagree"""
    hidden = http_request("DELETE", "/v1/tensors/hostile")
    lengths = [b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length : 5",
               b"Transfer-Encoding: chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity",
               b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: identity", b"X: y\r\n Content-Length: 7", b"X: \rContent-Length: 9"]
    lines = b"\r\n".join(rng.sample(lengths, rng.randint(1, 3)))
    return b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n\r\n" + rng.choice((b"0\r\n\r\n", b"")) + hidden


def mutated(rng, request):
    data = bytearray(request)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] = rng.choice((0, 10, 13, 32, 37, 58, 255, rng.randrange(256)))
        elif rng.random() < 0.5:
            del data[at:at + rng.randint(1, 20)]
        else:
            data[at:at] = rng.choice((b"\0", b"\r\n", b"%00", b"\\u0000", b"\xff\xfe", rng.randbytes(9)))
        data = data or bytearray(b"\0")
    return bytes(data)


def with_nuls(rng):
    name = rng.choice((b"/v1/gat%00her", b"/v1/tensors/a%00b", b"/v1/gather?ax%00is=0", b"/v1/gather?bounds=clip%00", b"/v1/\0gather"))
    body = rng.choice((b'{"par\\u0000ams":[1],"indices":[0]}', b'{"params":{"ref":"table\\u0000x"},"indices":[0]}', BODY + b"\0",
                       b'{"params":[1],"indices":[0],"bounds":"clip\\u0000"}'))
    headers = rng.choice(([], ["X-Request-Id: a\0b"], ["Content-Type: application/json\0"], ["If-Match: \"\0\""], ["Host: localhost\0.evil"]))
    return http_request("POST", name.decode("latin-1"), body, headers)


def large_head(rng):
    return rng.choice((b"GET /v1/ops HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * rng.choice((4000, 40000, 1 << 20)) + b"\r\n\r\n",
                       b"GET /" + b"y" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                       b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: z\r\n" % i for i in range(5000)) + b"\r\n",
                       b"GET /v1/ops?" + b"a=b&" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"))


def any_request(rng):
    return rng.choice((valid, chunked, smuggled, with_nuls, large_head, lambda rng: mutated(rng, valid(rng)),
                       lambda rng: rng.randbytes(rng.choice((1, 50, 5000)))))(rng)


# ---------------------------------------------------------------- behaviours
def end(client, rng):
    how = rng.random()
    if how < 0.2:
        try:
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        client.read(20)
    elif how < 0.5:
        client.read(5)
    client.close(reset=how > 0.7)


def drip(running, rng, served):
    client = Hostile(running, served)
    for byte in any_request(rng)[:300]:
        if not client.send(bytes([byte])):
            break
        served.wait(rng.choice((0, 0, 1)))
    end(client, rng)


def never_read(running, rng, served):
    clients = [Hostile(running, served) for _ in range(4)]
    request = http_request("POST", "/v1/gather", json.dumps(LARGE).encode())
    for client in clients:
        client.send(request * 3)
    served.wait(rng.randint(0, 50))
    for client in clients:
        client.close(reset=rng.random() < 0.5)


def vanish(running, rng, served):
    for _ in range(20):
        client = Hostile(running, served)
        request = any_request(rng)
        client.send(request[:rng.randint(0, len(request))])
        client.close(reset=True)


def pipeline(running, rng, served):
    client = Hostile(running, served)
    client.send(b"".join(any_request(rng) for _ in range(20)))
    end(client, rng)


def announce(running, rng, served):
    """a long body, or 100 Continue, that never comes"""
    clients = [Hostile(running, served) for _ in range(10)]
    for client in clients:
        client.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s"
                    % (rng.choice((100, 10_000_000, 10 ** 15)), rng.choice((b"", b"Expect: 100-continue\r\n")), BODY[:rng.randint(0, 9)]))
    served.wait(rng.randint(0, 30))
    for client in clients:
        end(client, rng)


def stay_idle(running, rng, served):
    clients = [Hostile(running, served) for _ in range(rng.choice((50, MOST_IDLE // THREADS)))]
    served.wait(rng.randint(0, 100))
    for client in clients:
        client.close(reset=rng.random() < 0.3)


def attack(running, rng, served):
    rng.choice((drip, never_read, vanish, pipeline, pipeline, announce, stay_idle))(running, rng, served)


def attacks(running, rng, served, errors):
    try:
        for _ in range(BEHAVIOURS):
            attack(running, rng, served)
    except Exception as e:  # a bug of the trial must not look like an attack that has ended
        errors.append(e)


# ---------------------------------------------------------------- the well-behaved client
def behave(running, client, number, table):
    """one of several requests, whose answer must be right"""
    kind = number % 4
    if kind == 0:
        reply = client.post("/v1/gather", {"params": [number, number + 1], "indices": [1]})
        assert reply.status == 200 and reply.json()["output"]["data"] == [number + 1], str(reply)
    elif kind == 1:
        reply = client.post("/v1/gather", {"params": {"ref": "table"}, "indices": [number % 50], "response": "flat"})
        assert reply.status == 200 and reply.json()["output"]["data"] == table[number % 50], str(reply)
    elif kind == 2:
        value = Value("int32", [2], daemon.pack("int32", [number, -number]))
        body, content_type = value.body(random.Random(number))
        reply = client.request("PUT", "/v1/tensors/mine", body, {"Content-Type": content_type})
        assert reply.status in (200, 201), str(reply)
        found = read_value(client, "mine")
        assert found == value, f"{found} instead of {value}"
    else:
        reply = client.post("/v1/einsum", {"equation": "ij,j->i", "inputs": [{"ref": "table"}, [1, 1, 1]]})
        assert reply.status == 200 and reply.json()["output"]["data"] == [sum(row) for row in table], str(reply)[:300]


def trial(rounds, rng):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    table = [[i, i * i, -i] for i in range(50)]
    served = Served()
    with Daemon("--pool-limit", "16M", "--idle-timeout-ms", HOUR_MS) as running, Client(running) as client:
        assert client.request("PUT", "/v1/tensors/table", json.dumps(table).encode()).status == 201
        for number in range(40):
            behave(running, client, number, table)
        before = held(running)
        for _ in range(rounds):  # each must leave nothing behind
            errors = []
            threads = [threading.Thread(target=attacks, args=(running, random.Random(rng.random()), served, errors), daemon=True)
                       for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                try:
                    behave(running, client, served.count, table)
                except LOST as e:
                    raise AssertionError(f"the well-behaved client has lost its connection: {e!r}; running: {running.alive()}\n"
                                         + running.tail(20)) from e
                served.add()
            assert not errors, f"the trial itself: {errors[0]!r}"
            for name in set(names(client)) - {"table", "mine"}:  # of mutated requests, too
                client.request("DELETE", "/v1/tensors/" + urllib.parse.quote(name, safe=""))
            after = expect_returned(running, before, rss=RSS_GROWTH)
    return (f"{next(Hostile.numbers)} hostile connections, {served.count} right answers, {before['rss'] >> 20} MiB before, "
            f"{after['rss'] >> 20} after")


if __name__ == "__main__":
    run(trial, __doc__, rounds=1)
