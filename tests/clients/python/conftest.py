"""A daemon for all tests of the package, servers that send what a test tells them, and a clock that passes when a test says so."""
import asyncio
import contextlib
import inspect
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import tensord
from tensord import blocking as blocking_steps
from tensord import exchange, streams

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests" / "http"))
from daemon import POLL_S, eventually

LIMIT = 300.0  # seconds, which only end a hang
SHORT = 0.2  # seconds of a call that nothing answers
HELD = object()
os.environ.pop("TENSORD_URL", None)


async def soon(condition):
    """as eventually, while other tasks run"""
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(POLL_S)
    return value


@pytest.fixture(scope="session")
def copy_of_sample(tmp_path_factory):
    """makes a copy of the sample folder: of several daemons on one folder only one can write"""
    return lambda: shutil.copytree(ROOT / "deploy" / "sample", tmp_path_factory.mktemp("sample") / "tables")


@pytest.fixture(scope="session")
def daemon(copy_of_sample):
    with tensord.serve(copy_of_sample()) as server:
        yield server


@pytest.fixture
def client(daemon):
    with tensord.Client(daemon.url) as one:
        yield one


class FalseServer:
    """answers the requests, one after the other on any connection, with these bytes, and closes after each if told

    A function in place of bytes gets the connection, and ends it when it returns; if it returns HELD, the connection stays open
    until the end of the test, and nothing is read. HELD in place of bytes is no answer.
    """

    def __init__(self, *replies, close=True, reads_bodies=True, tls=None):
        self.replies, self.close, self.reads_bodies, self.tls, self.requests = list(replies), close, reads_bodies, tls, []
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while self.replies:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, contextlib.suppress(OSError):
                while self.replies and self.answer(connection):
                    pass

    def stop_listening(self):
        """Ends `accept` first: one that goes on after a close may take the connections of the next socket with this number."""
        with contextlib.suppress(OSError):  # it has been closed
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def answer(self, connection):
        request = b""
        while b"\r\n\r\n" not in request:
            piece = connection.recv(65536)
            if not piece:
                return False
            request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        while self.reads_bodies and length and len(body) < int(length[1]):
            body += connection.recv(65536)
        self.requests.append((head, body))
        reply = self.replies.pop(0)
        if callable(reply):
            with contextlib.suppress(OSError):
                reply = reply(connection)
            if reply is not HELD:
                return False
        if reply is HELD:
            self.ended.wait()
            return False
        connection.sendall(reply)
        return not self.close


def reply(status, body=b"", *headers):
    return "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def problem(status, code, *headers):
    return reply(status, json.dumps({"code": code, "detail": code}).encode(), "Content-Type: application/problem+json", *headers)


def answer(number, spaces=0):
    return reply(200, b'{"output":{"dtype":"int32","shape":[1],"data":[%d]}}' % number + b" " * spaces, "Content-Type: application/json")


GOOD = answer(5)


def asynchronous(url, use, **options):
    async def value(given):
        return await (soon(given) if callable(given) else given)

    async def work():
        async with tensord.AsyncClient(url, **options) as client:
            made = use(client)
            if not inspect.isgenerator(made):
                return await made
            try:
                given = next(made)
                while True:
                    try:
                        result = await value(given)
                    except Exception as error:
                        given = made.throw(error)
                    else:
                        given = made.send(result)
            except StopIteration as end:
                return end.value
    return asyncio.run(work())


def blocking(url, use, **options):
    with tensord.Client(url, **options) as client:
        made = use(client)
        if not inspect.isgenerator(made):
            return made
        result = None
        try:
            while True:
                given = made.send(result)
                result = eventually(given) if callable(given) else given
        except StopIteration as end:
            return end.value


@pytest.fixture(params=[blocking, asynchronous])
def using(request):
    """runs a function of a client, or the steps of a generator, which yields calls and conditions to wait for, with either client"""
    return request.param


class Clock:
    """The clients' time, which stands still unless a test or a pause between two tries advances it.

    It stands in for the module `time`. `receives` is released whenever a client begins to wait for bytes.
    """

    def __init__(self):
        self.passed, self.pauses, self.receives = 0.0, [], threading.Semaphore(0)

    def monotonic(self):
        return 1000 + self.passed

    def advance(self, seconds):
        self.passed += seconds

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.advance(seconds)

    def advances_with(self, loop):
        """the timers of the loop expire as this time passes, and as the machine's does"""
        true_time = loop.time
        loop.time = lambda: true_time() + self.passed

    def noted(self, step):
        """whether the step is done: a pause; otherwise it is noted if it is to receive"""
        if isinstance(step, exchange.Sleep):
            self.sleep(step.seconds)
            return True
        if isinstance(step, exchange.Receive):
            self.receives.release()
        return False


@pytest.fixture
def clock(monkeypatch):
    made, by_sockets, by_streams = Clock(), blocking_steps.perform, streams.perform

    def perform(step, *rest):
        return None if made.noted(step) else by_sockets(step, *rest)

    async def perform_async(step, *rest):
        return None if made.noted(step) else await by_streams(step, *rest)
    for module in exchange, blocking_steps:
        monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(blocking_steps, "perform", perform)
    monkeypatch.setattr(streams, "perform", perform_async)
    return made


def gather(client):
    return client.gather("t", [0])


@pytest.fixture
def false_server():
    servers = []

    def start(*replies, **options):
        servers.append(FalseServer(*replies, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.ended.set()
        server.stop_listening()
