"""A daemon for all tests of the package, and servers that send what a test tells them."""
import contextlib
import os
import re
import socket
import sys
import threading
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
    """answers the requests, one after the other on any connection, with these bytes, and closes after each if told"""

    def __init__(self, *replies, close=True):
        self.replies, self.close, self.requests = list(replies), close, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while self.replies:
                connection = self.listener.accept()[0]
                with connection:
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
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
        self.requests.append((head, body))
        reply = self.replies.pop(0)
        if reply is None:  # never
            threading.Event().wait(5)
            return False
        connection.sendall(reply)
        return not self.close


@pytest.fixture
def false_server():
    servers = []

    def start(*replies, **options):
        servers.append(FalseServer(*replies, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.listener.close()
