"""Connections: retries, deadlines, threads, asyncio, and processes."""
import asyncio
import concurrent.futures
import contextlib
import inspect
import os
import re
import socket
import subprocess
import time

import numpy as np
import pytest
import tensord
from conftest import GOOD, HELD, LIMIT, SHORT, asynchronous, gather, problem, reply, soon
from tensord import blocking, streams

PLANETS = [2, 3]
INFO = reply(200, b'{"dtype":"float64"}', "Content-Type: application/json", "Connection: close")


@pytest.mark.parametrize("status, code", [(429, "QUEUE_FULL"), (503, "DRAINING"), (503, "DATA_DIR_LOCKED"), (503, "DEVICE_UNAVAILABLE")])
def test_a_refusal_is_tried_again_after_the_time_in_retry_after(false_server, using, clock, status, code):
    server = false_server(problem(status, code, "Retry-After: 7"), GOOD, close=False)
    assert using(server.url, gather).tolist() == [5] and len(server.requests) == 2
    assert len(clock.pauses) == 1 and 7 <= clock.pauses[0] <= 7 * 1.25


def test_a_refusal_is_final_after_the_last_retry_and_if_the_deadline_is_before_it(false_server, using, clock):
    server = false_server(*[problem(429, "QUEUE_FULL")] * 3, close=False)
    with pytest.raises(tensord.QueueFull):
        using(server.url, gather, retries=2)
    assert len(server.requests) == 3 and len(clock.pauses) == 2
    server = false_server(problem(429, "QUEUE_FULL", "Retry-After: 60"))
    with pytest.raises(tensord.QueueFull):
        using(server.url, gather)
    assert len(server.requests) == 1 and len(clock.pauses) == 2


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


@pytest.mark.parametrize("call, is_repeated", [
    (lambda client: client.tables["t"].put([1]), True),
    (lambda client: client.tables["t@1"].put([1]), False),  # the version would exist
    (lambda client: client.tables["t"].put([1], if_match='"1"'), False),  # the condition would fail
    (lambda client: client.tables["t"].put([1], if_none_match="*"), False),
    (lambda client: client.tables["t"].set_keys(["a"]), True),
    (lambda client: client.tables["t@1"].set_keys(["a"]), False),
    (lambda client: client.tables["t"].scatter([[0]], [1]), True),
    (lambda client: client.tables["t"].scatter([[0]], [1], if_match='"1"'), False),
    (lambda client: client.tables["t"].delete(), False),
    (lambda client: client.tables["t"].info(), True),
    (lambda client: client.einsum_plan("ij->j", [3, 4]), True),
    (lambda client: client.tables.set_aliases({"a": "t@1"}), False),
    (lambda client: client.store("s").gather("t", [0]), False),  # t could be s
])
def test_a_call_is_sent_again_if_the_second_time_has_the_same_result(false_server, using, call, is_repeated):
    server = false_server(b"", problem(404, "TENSOR_NOT_FOUND"))
    with pytest.raises(tensord.TensorNotFound if is_repeated else tensord.ConnectionLost):
        using(server.url, call)
    assert len(server.requests) == 1 + is_repeated


def test_a_change_is_not_repeated_after_a_503_that_may_have_changed_something(false_server, using):
    server = false_server(problem(503, "DEVICE_UNAVAILABLE", "Retry-After: 0"), GOOD)
    with pytest.raises(tensord.DeviceUnavailable):
        using(server.url, lambda client: client.tables["t"].scatter([[0]], [1], mode="add"))


def test_a_reply_that_does_not_come_is_a_timeout(false_server, using):
    with pytest.raises(tensord.Timeout):
        using(false_server(HELD).url, gather, timeout=SHORT)


def test_the_deadline_and_the_token_are_sent(false_server, using, clock):
    server = false_server(GOOD)
    using(server.url, gather, timeout=LIMIT, token="secret")
    head = server.requests[0][0].decode() + "\r\n"
    assert "\r\nX-Request-Timeout-Ms: 300000\r\n" in head and "\r\nAuthorization: Bearer secret\r\n" in head


def test_the_requests_of_a_call_share_its_deadline(false_server, using, clock):
    """a list with NaN takes the dtype of a table, which is asked for first; safetensors does not have every dtype"""
    def slowly(text):
        def answer(connection):
            clock.advance(3)
            connection.sendall(text)
        return answer

    def told(server):
        return [(head.split(b" ", 2)[1], int(re.search(rb"X-Request-Timeout-Ms: (\d+)", head)[1])) for head, _ in server.requests]
    info = slowly(INFO)
    server = false_server(info, info, GOOD)
    using(server.url, lambda client: client.concat(["a", [[float("nan")]], "b", "a"]), timeout=LIMIT)
    assert told(server) == [(b"/v1/tensors/a", 300000), (b"/v1/tensors/b", 297000), (b"/v1/concat", 294000)]
    text = reply(200, b'{"dtype":"string","shape":[1],"data":["a"]}', "Content-Type: application/json")
    server = false_server(slowly(problem(406, "NOT_ACCEPTABLE", "Connection: close")), text)
    using(server.url, lambda client: client.tables["t"].get(timeout=10))
    assert told(server) == [(b"/v1/tensors/t", 10000), (b"/v1/tensors/t?response=base64", 7000)]


def test_a_dtype_is_only_asked_of_tables_that_are_data(false_server, using):
    nan = [float("nan")]
    for use in (lambda client: client.embedding_bag("a", "i", offsets="o", weights=nan),
                lambda client: client.embedding_bag("a", tensord.Keys(tensord.Ref("k")), weights=nan),
                lambda client: client.dynamic_stitch(["i", "j"], ["a", nan]),
                lambda client: client.lookup("a", tensord.Ref("k"), queries=tensord.Ref("q"), default=nan),
                lambda client: client.tables["a"].scatter("i", nan),
                lambda client: client.tables["a"].upsert(tensord.Ref("k"), nan)):
        server = false_server(INFO, problem(400, "INVALID_ARGUMENT"))
        with pytest.raises(tensord.InvalidArgument):
            using(server.url, use)
        assert [head.split(b" ", 2)[1] for head, _ in server.requests][0] == b"/v1/tensors/a" and len(server.requests) == 2


def test_where_nothing_listens_is_a_connection_error(false_server, using):
    server = false_server()
    server.stop_listening()
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


def test_threads_share_a_pool_while_connections_break(false_server, daemon):
    with tensord.Client(daemon.url, connections=3) as client:
        whole = client.tables["planets"].get()

        def work(seed):
            if seed % 7 == 0 and (connection := client.pool.pop()) is not None:
                with contextlib.suppress(OSError):  # it may be broken already
                    connection.socket.shutdown(2)
                client.pool.give(connection)
            np.testing.assert_array_equal(client.gather("planets", [seed % 8]), whole[[seed % 8]])
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            list(threads.map(work, range(500)))
        assert len(client.pool.idle) <= 3
    assert not client.pool.idle


def test_a_closed_client_keeps_no_connection(daemon):
    client = tensord.Client(daemon.url)
    client.close()
    assert client.gather("planets", [0]).shape == (1, 4) and not client.pool.idle


def test_processes_after_a_fork_do_not_share_connections(client):
    whole = client.tables["planets"].get()
    children = [os.fork() for _ in range(4)]
    if 0 in children:
        status = 1
        with contextlib.suppress(BaseException):
            same = all(np.array_equal(client.gather("planets", [at % 8])[0], whole[at % 8]) for at in range(100))
            status = 0 if same else 1
        os._exit(status)
    for at in range(200):
        np.testing.assert_array_equal(client.gather("planets", [at % 8])[0], whole[at % 8])
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


def opened_connections(monkeypatch):
    """the connections that asyncio clients open from now on"""
    opened, true_connect = [], streams.connect

    async def connect(*arguments):
        opened.append(await true_connect(*arguments))
        return opened[-1]
    monkeypatch.setattr(streams, "connect", connect)
    return opened


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_task_closes_its_connection_and_disturbs_no_other(false_server):
    server = false_server(lambda connection: connection.recv(1), GOOD)

    async def use(client):
        task = asyncio.ensure_future(client.gather("t", [0]))
        await soon(lambda: server.requests)
        await cancelled(task)
        assert not client.pool.idle
        return await client.gather("t", [0])
    assert asynchronous(server.url, use).tolist() == [5]


def test_a_cancelled_upload_and_a_cancelled_start_end_at_once(false_server, monkeypatch):
    opened = opened_connections(monkeypatch)

    async def use(client):
        task = asyncio.ensure_future(client.tables["t"].put(np.zeros(20_000_000, "f4")))
        await soon(lambda: opened and opened[0].full)
        await cancelled(task)
        task = asyncio.ensure_future(client.gather("t", [0]))
        await asyncio.sleep(0)
        await cancelled(task)
        assert not client.pool.idle
    asynchronous(false_server(HELD, reads_bodies=False).url, use, timeout=LIMIT)


def test_tasks_that_are_cancelled_at_any_time_leave_the_others_right(daemon, client):
    whole = client.tables["planets"].get()

    async def one(client, at):
        task = asyncio.ensure_future(client.gather("planets", [at % 8]))
        if at % 3 == 0:
            for _ in range(at % 50):  # turns of the loop
                await asyncio.sleep(0)
            task.cancel()
        try:
            np.testing.assert_array_equal((await task)[0], whole[at % 8])
        except asyncio.CancelledError:
            assert at % 3 == 0

    async def use(client):
        for _ in range(5):
            await asyncio.gather(*(one(client, at) for at in range(60)))
        assert len(asyncio.all_tasks()) == 1
    asynchronous(daemon.url, use, connections=4)


def test_any_number_of_tasks_share_a_few_connections(daemon, monkeypatch):
    opened = opened_connections(monkeypatch)

    async def use(client):
        rows = await asyncio.gather(*(client.gather("planets", [at % 8]) for at in range(500)))
        return len(rows), client.pool.gate.free
    assert asynchronous(daemon.url, use, connections=4) == (500, 4) and len(opened) <= 4


def test_the_wait_for_a_turn_is_part_of_the_time_of_a_call(false_server, clock):
    server = false_server(HELD)

    async def use(client):
        clock.advances_with(asyncio.get_running_loop())
        calls = [asyncio.ensure_future(client.gather("t", [0])) for _ in range(5)]
        await soon(lambda: server.requests and len(client.pool.gate.waiting) == 4)
        await cancelled(calls[2])  # while it waits
        clock.advance(2 * LIMIT)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in results] == [tensord.Timeout, tensord.Timeout, asyncio.CancelledError, tensord.Timeout, tensord.Timeout]
        assert client.pool.gate.free == 1 and len(server.requests) == 1
    asynchronous(server.url, use, connections=1, timeout=2 * LIMIT)


def test_a_turn_that_comes_with_a_cancellation_is_passed_on():
    async def work():
        gate, deadline = streams.Gate(1), time.monotonic() + LIMIT
        await gate.enter(deadline)
        waits = [asyncio.ensure_future(gate.enter(deadline)) for _ in range(2)]
        await asyncio.sleep(0)
        gate.leave()
        waits[0].cancel()
        await waits[1]
        gate.leave()
        assert gate.free == 1
    asyncio.run(work())


def test_an_asyncio_client_may_be_used_in_one_loop_after_another(daemon):
    client = tensord.AsyncClient(daemon.url)
    for _ in range(3):
        assert asyncio.run(client.gather("planets", [0])).shape == (1, 4)


def test_both_clients_have_the_same_methods():
    syntax = {"length": "__len__", "contains": "__contains__", "array": "__array__"}
    for asyncio_ in (tensord.AsyncClient, tensord.AsyncTable, tensord.AsyncTables, tensord.AsyncStore):
        blocking_ = getattr(tensord, asyncio_.__name__[5:])
        for name in dir(asyncio_):
            if not name.startswith("_"):
                twin = getattr(blocking_, syntax.get(name, name))
                assert not inspect.iscoroutinefunction(twin), name
                if callable(twin):
                    assert list(inspect.signature(twin).parameters) == list(inspect.signature(getattr(asyncio_, name)).parameters), name


@pytest.mark.parametrize("kind", [tensord.Client, tensord.AsyncClient])
def test_a_client_without_a_url_is_that_of_the_daemon_at_its_default_address(kind):
    said = subprocess.run([tensord.serving.binary(), "--help"], capture_output=True, text=True, check=True).stdout
    address = re.search(r"--listen HOST:PORT.*\n(?:.*\n)*?\s+default: (\S+)", said)[1]
    assert kind().settings.url == f"http://{address}"


def test_a_port_without_a_daemon_is_named_with_what_to_do(using):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(tensord.ConnectionLost, match=f"^127.0.0.1:{port}: .*; no daemon listens there. Start tensord, or use tensord.serve\\(\\)$"):
        using(f"http://127.0.0.1:{port}", gather, retries=0)


def test_https_where_there_is_no_tls_is_named(using, daemon):
    with pytest.raises(tensord.ConnectionLost, match="; if the daemon has no TLS, its URL starts with http://$"):
        using(daemon.url.replace("http:", "https:"), gather, retries=0)


def test_an_upload_that_is_too_large_is_refused_before_it_is_sent(using):
    with tensord.serve(None, "--tensor-quota", "1M") as server:
        sent = []
        with pytest.raises(tensord.PayloadTooLarge) as caught:
            using(server.url, lambda client: client.tables["t"].put(np.zeros(20_000_000, "f4"), progress=lambda done, total: sent.append(done)))
        assert caught.value.limit == 1 << 20 and max(sent, default=0) < 80_000_000


@pytest.mark.parametrize("ready", [blocking.ready, blocking.ready_by_select])
def test_what_a_socket_is_ready_for(ready):
    """by select where there is no poll, as on Windows"""
    here, there = socket.socketpair()
    with here, there:
        assert (ready(here, "r", 0), ready(here, "w", 0), ready(here, "rw", 0)) == ("", "w", "w")
        there.sendall(b"x")
        assert (ready(here, "r", 1), ready(here, "rw", 1)) == ("r", "rw")
        here.recv(1)
        there.close()
        assert ready(here, "r", 1) == "r"
        assert "w" in ready(here, "w", 1)


def test_a_server_that_has_stopped_can_be_stopped_again(copy_of_sample):
    with tensord.serve(copy_of_sample()) as server:
        assert server.client.gather("planets", [2]).shape == (1, 4)
        assert len(server.client.pool.idle) == 1
        server.stop()
        assert len(server.client.pool.idle) == 0
        server.stop()
    with pytest.raises(tensord.ConnectionLost):
        server.client.gather("planets", [2])
