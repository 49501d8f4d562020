"""Replies that no daemon sends: an exception that says what is wrong, before the deadline, and no more memory than is allowed."""
import json
import resource
import threading

import numpy as np
import pytest
import tensord
from conftest import GOOD, HELD, LIMIT, SHORT, answer, gather, problem, reply
from tensord.blocking import ready


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return reply(200, len(text).to_bytes(8, "little") + text + data, "Content-Type: application/vnd.safetensors")


def entry(shape, offsets, dtype="F32"):
    return {"output": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def chunked(*headers):
    """a good reply but for these headers"""
    head, _, body = GOOD.partition(b"\r\n\r\n")
    lines = [line for line in head.decode().split("\r\n") if not line.startswith("Content-Length")]
    return "\r\n".join([*lines, *headers, "", f"{len(body):x}", ""]).encode() + body + b"\r\n0\r\n\r\n"


def test_a_reply_in_chunks_is_read(false_server, using):
    assert using(false_server(chunked("Transfer-Encoding: chunked")).url, gather).tolist() == [5]


HOSTILE = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "head that ends early": b"HTTP/1.1 200 OK\r\nContent-Le",
    "head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000,
    "truncated body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
    "length of 2^70": b"HTTP/1.1 200 OK\r\nContent-Length: 1180591620717411303424\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "two lengths": GOOD.replace(b"\r\n", b"\r\nContent-Length: 1\r\n", 1),
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "truncated chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc",
    "empty body": reply(200),
    "header longer than the file": reply(200, b"\xff" * 8 + b"{}"),
    "header that is no JSON": safetensors(b"{"),
    "header that is a list": safetensors(b"[]"),
    "no output": safetensors({}),
    "offsets beyond the data": safetensors(entry([2], [0, 8]), b"abc"),
    "negative offsets": safetensors(entry([1], [-4, 0]), b"abcd"),
    "shape of another size": safetensors(entry([3], [0, 8]), b"12345678"),
    "shape that overflows": safetensors(entry([2 ** 62, 4], [0, 0])),
    "unknown dtype": safetensors(entry([1], [0, 4], "F99"), b"1234"),
    "dtype that is a list": safetensors(entry([1], [0, 4], ["F32"]), b"1234"),
    "JSON without outputs": reply(200, b"{}", "Content-Type: application/json"),
    "JSON of another shape": reply(200, b'{"output":{"dtype":"int32","shape":[9],"data":[5]}}', "Content-Type: application/json"),
    "JSON that is deep": reply(200, b"[" * 100000, "Content-Type: application/json"),
    "JSON of a negative shape": reply(200, b'{"output":{"dtype":"int32","shape":[-1],"data":[5]}}', "Content-Type: application/json"),
    "JSON of too large a number": reply(200, b'{"output":{"dtype":"int32","shape":[1],"data":[%d]}}' % 10 ** 30,
                                        "Content-Type: application/json"),
    "JSON of a number of 10000 digits": reply(200, b'{"output":' + b"9" * 10000 + b"}", "Content-Type: application/json"),
    "status that is no number": b"HTTP/1.1 \xb2\xb2\xb2 OK\r\nContent-Length: 0\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "length and chunks": chunked("Content-Length: 3", "Transfer-Encoding: chunked"),
    "two encodings": chunked("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"),
    "encoding that is not known": chunked("Transfer-Encoding: gzip, chunked"),
    "chunk longer than its size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "chunk of a negative size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "chunk line without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100000,
    "compressed body": GOOD.replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1),
    "redirect": reply(307, b"", "Location: http://127.0.0.1:1/"),
    "not modified": b"HTTP/1.1 304 X\r\n\r\n",
    "header of 17 MiB": safetensors(json.dumps(entry([1], [0, 4])).encode() + b" " * (17 << 20), b"abcd"),
    "metadata that are a list": safetensors({"__metadata__": [], **entry([2 ** 70, 0], [0, 0])}),
    "shape that is a number": safetensors(entry(3, [0, 0])),
    "shape of a fraction": safetensors(entry([1.0], [0, 4]), b"abcd"),
    "shape of 100 dimensions": safetensors(entry([1] * 100, [0, 4]), b"abcd"),
    "offsets that are texts": safetensors(entry([1], ["0", "4"]), b"abcd"),
    "three offsets": safetensors(entry([1], [0, 2, 4]), b"abcd"),
    "pickle": reply(200, b"cos\nsystem\n(S'touch hacked'\ntR.", "Content-Type: application/octet-stream"),
}


@pytest.mark.parametrize("bytes_", HOSTILE.values(), ids=HOSTILE)
def test_a_reply_that_no_daemon_sends_is_a_protocol_error(false_server, using, bytes_):
    with pytest.raises(tensord.ProtocolError):
        using(false_server(bytes_).url, gather, timeout=LIMIT, retries=0)


@pytest.mark.parametrize("use", [
    lambda client: client.ops(), lambda client: client.tables.list(), lambda client: client.tables.aliases(), lambda client: client.ready(),
    lambda client: client.store("s").gather("t", [0]), lambda client: client.dynamic_partition([1], [0], num_partitions=1),
    lambda client: client.top_k("t", k=1), lambda client: client.tables["t"].keys()],
    ids=["ops", "tables", "aliases", "ready", "store", "partition", "top_k", "keys"])
@pytest.mark.parametrize("document", [[1], {"ops": 5, "tensors": {}, "aliases": "x", "outputs": 7}], ids=["list", "wrong members"])
def test_a_document_of_another_form_is_a_protocol_error(false_server, using, use, document):
    server = false_server(reply(200, json.dumps(document).encode(), "Content-Type: application/json"))
    try:
        found = using(server.url, use, timeout=LIMIT, retries=0)
    except tensord.ProtocolError:
        return
    assert found == document  # those whose members are not looked at


def forever(start, piece):
    def send(connection):
        connection.sendall(start)
        while True:
            connection.sendall(piece)
    return send


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = {  # more pieces than there is time for
    "byte by byte": [bytes([one]) for one in GOOD],
    "100 Continue without end": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 50,
    "trailers without end": [CHUNKED + b"0\r\n", *[b"a: b\r\n" * 1000] * 50],
    "slow chunks": [CHUNKED, *[b"1\r\na\r\n"] * 50],
}


@pytest.mark.parametrize("pieces", SLOW.values(), ids=SLOW)
def test_a_slow_reply_is_a_timeout_whatever_comes_meanwhile(false_server, using, clock, pieces):
    def send(connection):
        for piece in pieces:
            if not clock.receives.acquire(timeout=2 * LIMIT):
                break
            clock.advance(LIMIT)
            connection.sendall(piece)
        return HELD
    with pytest.raises(tensord.Timeout):
        using(false_server(send).url, gather, timeout=10 * LIMIT)
    assert 10 * LIMIT <= clock.passed <= 12 * LIMIT and not clock.pauses


def test_a_body_that_does_not_come_is_a_timeout(false_server, using):
    def send(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        return HELD
    with pytest.raises(tensord.Timeout):
        using(false_server(send).url, gather, timeout=SHORT)


def test_a_daemon_that_does_not_read_is_a_timeout(false_server, using, clock):
    server = false_server(HELD, reads_bodies=False)
    with pytest.raises(tensord.Timeout):
        using(server.url, lambda client: client.tables["t"].put(np.zeros(20_000_000, "f4")), timeout=SHORT)


@pytest.mark.parametrize("progress", [None, lambda sent, total: None], ids=["", "progress"])
def test_a_refusal_before_the_whole_body_is_read_is_that_refusal(false_server, using, progress):
    def refuse(connection):
        connection.sendall(problem(413, "PAYLOAD_TOO_LARGE"))
        return HELD

    def use(client):
        try:
            yield client.tables["t"].put(np.zeros(20_000_000, "f4"), progress=progress)
        finally:
            assert not client.pool.idle
    with pytest.raises(tensord.PayloadTooLarge):
        using(false_server(refuse, reads_bodies=False).url, use, timeout=LIMIT)


ENDLESS = {
    "chunks": forever(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + bytes(0x8000) + b"\r\n"),
    "one chunk": forever(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000\r\n", bytes(65536)),
    "length of a TiB": forever(b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n", bytes(65536)),
    "error of two MiB": forever(b"HTTP/1.1 400 X\r\nContent-Length: 2097152\r\n\r\n", bytes(65536)),
}


@pytest.mark.parametrize("send", ENDLESS.values(), ids=ENDLESS)
def test_a_reply_longer_than_max_reply_is_refused_before_it_is_read(false_server, using, send):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(tensord.ReplyTooLarge, match="bytes"):
        using(false_server(send).url, gather, timeout=LIMIT, max_reply=64 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB


def test_a_length_takes_no_memory_before_its_bytes_come(false_server, using):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(tensord.ProtocolError, match="truncated"):
        using(false_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\nabc").url, gather)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("value", ["9" * 400, "-5", "1e9", "nan", "\xb2", "", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 99 Foo", "999999999"])
def test_a_senseless_retry_after_does_not_delay_beyond_the_deadline(false_server, using, clock, value):
    server = false_server(problem(429, "QUEUE_FULL").replace(b"\r\n\r\n", b"\r\nRetry-After: " + value.encode("latin-1") + b"\r\n\r\n"),
                          GOOD, close=False)
    try:
        assert using(server.url, gather, timeout=LIMIT).tolist() == [5]
    except tensord.QueueFull:
        assert not clock.pauses
    assert sum(clock.pauses) < 0.1


def test_a_retry_after_that_is_a_date_is_a_time_to_wait(false_server, using, clock):
    server = false_server(problem(503, "DRAINING", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"), GOOD, close=False)
    assert using(server.url, gather).tolist() == [5] and clock.pauses == [0]


def test_a_redirect_is_not_followed_and_its_place_is_named(false_server, using):
    other = false_server(GOOD)
    with pytest.raises(tensord.ProtocolError, match=other.url):
        using(false_server(reply(302, b"", f"Location: {other.url}/v1/gather")).url, gather, token="secret")
    assert not other.requests


def has_something_to_read(client):
    """whether the idle connection has; a loop has read it already where it had its turn"""
    return not client.pool.idle or client.pool.idle[0].stale()


def wait_without_the_loop(client):
    """as above, of the socket and while no task runs"""
    for connection in client.pool.idle:
        sock = connection.socket if hasattr(connection, "socket") else connection.transport.get_extra_info("socket")
        assert ready(sock, "r", LIMIT) == "r"


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("spaces", [0, 40_000], ids=["short", "longer than what is read at once"])
def test_bytes_after_a_reply_are_not_those_of_the_next(false_server, using, later, spaces):
    is_read = threading.Event()

    def smuggle(connection):
        connection.sendall(answer(1, spaces) if later else answer(1, spaces) + answer(666))
        assert not later or is_read.wait(LIMIT)
        connection.sendall(answer(666))
        connection.recv(1)  # until the client closes it
    server = false_server(smuggle, answer(2))

    def twice(client):
        first = yield client.gather("t", [0])
        is_read.set()
        yield lambda: has_something_to_read(client)
        return [first.tolist(), (yield client.gather("t", [0])).tolist()]
    assert using(server.url, twice, timeout=LIMIT) == [[1], [2]]


@pytest.mark.parametrize("blocks", [False, True], ids=["", "the loop is blocked meanwhile"])
def test_a_connection_that_was_closed_while_it_was_idle_is_not_used(false_server, using, blocks):
    server = false_server(GOOD, reply(200, b"{}", "Content-Type: application/json"))

    def twice(client):
        yield client.gather("t", [0])
        if blocks:
            wait_without_the_loop(client)
        else:
            yield lambda: has_something_to_read(client)
        return (yield client.tables["t"].scatter([[0]], [1], mode="add"))  # which is not sent twice
    assert using(server.url, twice) == {}


def test_settings_that_make_no_sense_are_refused(using):
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            using("http://127.0.0.1:1", gather, timeout=timeout)
    for url in ("ftp://host", "http://", "http://host:port", "http://user:password@host", "http://host/?x=1"):
        with pytest.raises(ValueError):
            using(url, gather)
    with pytest.raises(ValueError, match="line break"):
        using("http://127.0.0.1:1", gather, token="a\r\nX: y")
