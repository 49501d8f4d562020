"""A daemon for all tests of the package, and servers that send what a test tells them."""
import asyncio
import contextlib
import inspect
import json
import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import tensord

ROOT = Path(__file__).resolve().parents[3]
os.environ.pop("TENSORD_URL", None)


@pytest.fixture(scope="session")
def daemon():
    with tensord.serve(ROOT / "deploy" / "sample") as server:
        yield server


@pytest.fixture
def client(daemon):
    with tensord.Client(daemon.url) as one:
        yield one


class FalseServer:
    """answers the requests, one after the other on any connection, with these bytes, and closes after each if told

    A function in place of bytes gets the connection, and ends it when it returns. None is no answer.
    """

    def __init__(self, *replies, close=True, reads_bodies=True, tls=None):
        self.replies, self.close, self.reads_bodies, self.tls, self.requests = list(replies), close, reads_bodies, tls, []
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
        if reply is None:  # never
            threading.Event().wait(5)
            return False
        if callable(reply):
            with contextlib.suppress(OSError):
                reply(connection)
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
        return await (asyncio.sleep(given) if isinstance(given, float) else given)

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
                result = time.sleep(given) if isinstance(given, float) else given
        except StopIteration as end:
            return end.value


@pytest.fixture(params=[blocking, asynchronous])
def using(request):
    """runs a function of a client, or the steps of a generator, which yields calls and pauses in seconds, with either client"""
    return request.param


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
        server.listener.close()
