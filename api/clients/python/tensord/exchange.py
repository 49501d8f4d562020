"""One call from its request to its value, with retries, without reading or writing: a generator of steps.

The blocking client and the asyncio client perform the same steps, each in its own way, and send their results back.
"""
from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple, Optional, Protocol, TypeVar, Union
from urllib.parse import urlsplit

from .calls import Call, document, is_json
from .errors import ConnectionLost, ProtocolError, Timeout, problem_error
from .http1 import Reply, read_reply, request_head

T = TypeVar("T")
PIECE = 1 << 20  # how often a progress is reported
# The daemon refuses with these before it does anything, so that any call may be sent again.
REFUSALS = frozenset(("QUEUE_FULL", "CLIENT_LIMIT", "CONNECTION_LIMIT", "MEMORY_EXHAUSTED", "DRAINING"))


class Connection(Protocol):
    def close(self) -> None: ...
    def stale(self) -> bool: ...


class Open(NamedTuple):
    deadline: float


class Send(NamedTuple):
    connection: Any
    buffers: list[Any]
    deadline: float


class Receive(NamedTuple):
    connection: Any
    view: memoryview
    deadline: float


class Sleep(NamedTuple):
    seconds: float


Step = Union[Open, Send, Receive, Sleep]


class Settings:
    """where and how requests are sent"""

    def __init__(self, url: str, token: Optional[str], timeout: float, retries: int, connections: int):
        parts = urlsplit(url if "//" in url else "http://" + url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the url is {url!r}; expected http://HOST:PORT or https://HOST:PORT")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/")
        self.timeout, self.retries, self.connections = timeout, retries, connections
        self.headers = {"Host": parts.netloc.rpartition("@")[2]}
        if token is not None:
            self.headers["Authorization"] = "Bearer " + token


class Pool:
    """Idle connections.  Threads share it: deques append and pop in one step."""

    def __init__(self, most: int):
        self.most, self.idle, self.closed = most, deque[Any](), False

    def take(self) -> Any:
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:  # another thread was faster
                break
            if not connection.stale():
                return connection
            connection.close()
        return None

    def give(self, connection: Connection) -> None:
        if self.closed or len(self.idle) >= self.most:
            connection.close()
        else:
            self.idle.append(connection)

    def close(self) -> None:
        self.closed = True
        while self.idle:
            self.idle.pop().close()


class Lost(Exception):
    """the connection broke; began: after the first byte of the reply"""

    def __init__(self, cause: Exception, began: bool):
        super().__init__(str(cause) or type(cause).__name__)
        self.began = began


def head_of(call: Call[Any], settings: Settings, deadline: float) -> bytes:
    left = max(1, min(86_400_000, int((deadline - time.monotonic()) * 1000)))
    headers = {**settings.headers, **call.headers, "X-Request-Timeout-Ms": str(left)}
    if call.body or call.method in ("POST", "PUT"):
        headers["Content-Length"] = str(sum(map(len, call.body)))
    return request_head(call.method, settings.prefix + call.path, headers)


def pieces(buffers: list[Any]) -> Generator[memoryview, None, None]:
    for buffer in buffers:
        view = memoryview(buffer)
        for at in range(0, len(view), PIECE):
            yield view[at:at + PIECE]


def send(connection: Any, call: Call[Any], head: bytes, deadline: float) -> Generator[Step, Any, None]:
    if call.progress is None:
        yield Send(connection, [head, *call.body], deadline)
        return
    yield Send(connection, [head], deadline)
    done, total = 0, sum(map(len, call.body))
    for piece in pieces(call.body):
        yield Send(connection, [piece], deadline)
        done += len(piece)
        call.progress(done, total)


def receive(connection: Any, method: str, deadline: float) -> Generator[Step, Any, Reply]:
    reading, began = read_reply(method), False
    view = next(reading)
    while True:
        try:
            count = yield Receive(connection, view, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost(error, began) from None
        if count == 0 and not began:
            raise Lost(ConnectionError("the connection was closed without a reply"), False)
        began = True
        try:
            view = reading.send(count)
        except StopIteration as end:
            reply: Reply = end.value
            return reply


def attempt(call: Call[Any], settings: Settings, pool: Pool, deadline: float) -> Generator[Step, Any, Reply]:
    """sends the request once; the connection goes back to the pool or is closed"""
    connection = pool.take()
    if connection is None:
        try:
            connection = yield Open(deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost(error, False) from None
    kept = False
    try:
        try:
            yield from send(connection, call, head_of(call, settings, deadline), deadline)
        except TimeoutError:
            raise
        except OSError:
            pass  # the daemon may have replied before it had the whole request
        reply = yield from receive(connection, call.method, deadline)
        kept = reply.reusable
        return reply
    finally:
        if kept:
            pool.give(connection)
        else:
            connection.close()


def error_of(reply: Reply) -> Exception:
    problem: dict[str, Any] = {}
    if is_json(reply):
        try:
            problem = document(reply)
        except ProtocolError:
            pass
    problem.setdefault("request_id", reply.headers.get("x-request-id"))
    problem.setdefault("detail", f"status {reply.status}")
    return problem_error(problem, reply.status)


def may_repeat(call: Call[Any], status: int, error: Any) -> bool:
    return status in (429, 503) and (call.idempotent or error.code in REFUSALS)


def pause(tries: int, retry_after: str) -> float:
    """what the daemon asks for, otherwise twice as long each time, and a random part so that clients spread"""
    base = float(retry_after) if retry_after.isdigit() else 0.05 * 2 ** tries
    return base * (1 + random.random() / 4)


def exchange(call: Call[T], settings: Settings, pool: Pool, timeout: Optional[float]) -> Generator[Step, Any, T]:
    deadline = time.monotonic() + (settings.timeout if timeout is None else timeout)
    tries = 0
    while True:
        retry_after = ""
        failure: Exception
        try:
            reply = yield from attempt(call, settings, pool, deadline)
            if reply.status < 300:
                return decoded(call, reply)
            failure, again = error_of(reply), False
            again, retry_after = may_repeat(call, reply.status, failure), reply.headers.get("retry-after", "")
        except Lost as error:
            failure, again = ConnectionLost(f"{settings.host}:{settings.port}: {error}"), call.idempotent and not error.began
        except TimeoutError:
            raise Timeout(f"{call.method} {call.path} was not answered in time") from None
        wait = pause(tries, retry_after)
        if not again or tries >= settings.retries or time.monotonic() + wait >= deadline:
            raise failure
        tries += 1
        yield Sleep(wait)


def decoded(call: Call[T], reply: Reply) -> T:
    try:
        return call.decode(reply)
    except ProtocolError as error:
        error.request_id = reply.headers.get("x-request-id")
        raise
