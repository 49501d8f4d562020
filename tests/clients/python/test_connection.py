"""Connections: retries, deadlines, threads, asyncio, and replies that no daemon sends."""
import asyncio
import concurrent.futures
import json
import time

import numpy as np
import pytest
import tensord

PLANETS = [2, 3]


def reply(status, body=b"", *headers):
    return "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def problem(status, code, *headers):
    return reply(status, json.dumps({"code": code, "detail": code}).encode(), "Content-Type: application/problem+json", *headers)


GOOD = reply(200, b'{"output":{"dtype":"int32","shape":[1],"data":[5]}}', "Content-Type: application/json")


def asynchronous(url, use, **options):
    async def work():
        async with tensord.AsyncClient(url, **options) as client:
            return await use(client)
    return asyncio.run(work())


def blocking(url, use, **options):
    with tensord.Client(url, **options) as client:
        return use(client)


@pytest.fixture(params=[blocking, asynchronous])
def using(request):
    return request.param


def gather(client):
    return client.gather("t", [0])


@pytest.mark.parametrize("status, code", [(429, "QUEUE_FULL"), (503, "DRAINING"), (503, "DEVICE_UNAVAILABLE")])
def test_a_refusal_is_tried_again_after_the_time_in_retry_after(false_server, using, status, code):
    server, begin = false_server(problem(status, code, "Retry-After: 1"), GOOD), time.monotonic()
    assert using(server.url, gather).tolist() == [5]
    assert time.monotonic() - begin >= 1 and len(server.requests) == 2


def test_a_refusal_is_final_after_the_last_retry_and_if_the_deadline_is_before_it(false_server, using):
    server = false_server(*[problem(429, "QUEUE_FULL")] * 3)
    with pytest.raises(tensord.QueueFull):
        using(server.url, gather, retries=2)
    assert len(server.requests) == 3
    server = false_server(problem(429, "QUEUE_FULL", "Retry-After: 60"))
    with pytest.raises(tensord.QueueFull):
        using(server.url, gather)
    assert len(server.requests) == 1


def test_other_errors_are_not_tried_again(false_server, using):
    server = false_server(problem(500, "INTERNAL"), GOOD)
    with pytest.raises(tensord.Internal):
        using(server.url, gather)


def test_a_connection_that_ends_without_a_reply_is_tried_again_for_what_is_idempotent(false_server, using):
    assert using(false_server(b"", GOOD).url, gather).tolist() == [5]
    server = false_server(b"", GOOD)
    with pytest.raises(tensord.ConnectionLost):
        using(server.url, lambda client: client.tables["t"].scatter([[0]], [1], mode="add"))
    assert len(server.requests) == 1


def test_a_change_is_not_repeated_after_a_503_that_may_have_changed_something(false_server, using):
    server = false_server(problem(503, "DEVICE_UNAVAILABLE", "Retry-After: 0"), GOOD)
    with pytest.raises(tensord.DeviceUnavailable):
        using(server.url, lambda client: client.tables["t"].scatter([[0]], [1], mode="add"))


def test_a_reply_that_does_not_come_is_a_timeout(false_server, using):
    begin = time.monotonic()
    with pytest.raises(tensord.Timeout):
        using(false_server(None).url, gather, timeout=0.2)
    assert time.monotonic() - begin < 3


def test_the_deadline_and_the_token_are_sent(false_server, using):
    server = false_server(GOOD)
    using(server.url, gather, timeout=5, token="secret")
    head = server.requests[0][0].decode()
    sent = int(head.split("X-Request-Timeout-Ms: ")[1].split("\r")[0])
    assert 4000 < sent <= 5000 and "Authorization: Bearer secret" in head


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return reply(200, len(text).to_bytes(8, "little") + text + data, "Content-Type: application/vnd.safetensors")


def entry(shape, offsets, dtype="F32"):
    return {"output": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


HOSTILE = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "head that ends early": b"HTTP/1.1 200 OK\r\nContent-Le",
    "head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000,
    "truncated body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
    "length of 2^70": b"HTTP/1.1 200 OK\r\nContent-Length: 1180591620717411303424\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
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
}


@pytest.mark.parametrize("bytes_", HOSTILE.values(), ids=HOSTILE)
def test_a_reply_that_no_daemon_sends_is_a_protocol_error(false_server, using, bytes_):
    with pytest.raises((tensord.ProtocolError)):
        using(false_server(bytes_).url, gather, timeout=5, retries=0)


def test_where_nothing_listens_is_a_connection_error(false_server, using):
    server = false_server()
    server.listener.close()
    with pytest.raises(tensord.ConnectionLost):
        using(server.url, gather, retries=1)


def test_threads_share_a_client(client):
    def work(seed):
        rows = np.random.default_rng(seed).integers(0, 8, 5)
        np.testing.assert_array_equal(client.gather("planets", rows), whole[rows])
    whole = client.tables["planets"].get()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(400)))
    assert len(client.pool.idle) <= 8


def test_tasks_share_an_asyncio_client(daemon, client):
    whole = client.tables["planets"].get()

    async def use(one):
        got = await asyncio.gather(*(one.tables["planets"][number % 8] for number in range(100)))
        np.testing.assert_array_equal(np.stack(got), whole[np.arange(100) % 8])
        with pytest.raises(tensord.IndexOutOfBounds):
            await one.tables["planets"][99]
        return await one.tables["planets"][1:3]
    np.testing.assert_array_equal(asynchronous(daemon.url, use), whole[1:3])


def test_a_connection_is_used_again(daemon, client):
    client.gather("planets", PLANETS)
    first = client.pool.idle[0]
    client.gather("planets", PLANETS)
    assert list(client.pool.idle) == [first]
