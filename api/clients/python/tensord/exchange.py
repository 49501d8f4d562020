"""Runs one call, with retries, from its request to its value. A call is a generator of steps that does no I/O itself.

The blocking client and the asyncio client perform the same steps, each in its own way, and send the results back.
"""
from __future__ import annotations

import os
import random
import re
import ssl
import time
from collections import deque
from collections.abc import Generator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Optional, Protocol, TypeVar, Union
from urllib.parse import urlsplit

from .calls import Call, completed, document, is_json, json_call, tensor_path
from .errors import ConnectionLost, NotAcceptable, ProtocolError, Timeout, problem_error
from .http1 import Reply, check_header, read_reply, request_head

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8080"  # the daemon's address without --listen
PIECE = 1 << 20  # bytes sent between two reports of progress
JOINED = 64 * 1024  # maximum size in bytes of a request that is joined into one buffer
LONGEST = 86400.0  # maximum timeout of a call in seconds; the daemon accepts no longer deadline
# Codes of errors that the daemon returns before it executes anything. After such an error any call can be sent again.
REFUSALS = frozenset(("QUEUE_FULL", "CLIENT_LIMIT", "CONNECTION_LIMIT", "MEMORY_EXHAUSTED", "DRAINING", "DATA_DIR_LOCKED"))


class Connection(Protocol):
    def close(self) -> None: ...
    def stale(self) -> bool: ...


class Enter(NamedTuple):
    """Waits until fewer requests are in progress than the pool allows. Only asyncio tasks wait; the number of threads is limited by
    the program."""
    pool: Pool
    deadline: float


class Open(NamedTuple):
    deadline: float


class Send(NamedTuple):
    """Sends the buffers. The result is False if a reply arrived or the connection ended before everything was sent."""
    connection: Any
    buffers: list[Any]
    deadline: float


class Receive(NamedTuple):
    connection: Any
    view: memoryview
    deadline: float


class Sleep(NamedTuple):
    seconds: float


Step = Union[Enter, Open, Send, Receive, Sleep]


def socket_path(url: str) -> Optional[str]:
    """Returns the path of the Unix socket in unix:///PATH or unix:/PATH, or None for other URLs."""
    if not url.startswith("unix:"):
        return None
    path = url[len("unix:"):]
    path = path[2:] if path.startswith("//") else path
    if not path.startswith("/"):
        raise ValueError(f"the URL is {url!r}; expected unix:///PATH with an absolute path, such as unix:///run/tensord/tensord.sock")
    return path


class Settings:
    """The daemon's address and the options for sending requests."""

    def __init__(self, url: str, token: Optional[str], timeout: float, retries: int, max_reply: int):
        self.socket = socket_path(url)
        parts = urlsplit("http://localhost" if self.socket else url if "//" in url else "http://" + url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL is {url!r}; expected http://HOST:PORT, https://HOST:PORT or unix:///PATH")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("the URL contains more than a host, a port and a path; pass a token with the argument `token`")
        self.url, self.tls = url, parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.place = f"unix:{self.socket}" if self.socket else f"{self.host}:{self.port}"
        self.prefix = parts.path.rstrip("/")
        self.timeout, self.retries, self.max_reply = timeout, retries, max_reply
        self.headers = {"Host": parts.netloc}
        if token is not None:
            check_header("Authorization", token)
            self.headers["Authorization"] = "Bearer " + token


class Pool:
    """Idle connections. Threads share the pool without a lock, because a fork could leave a lock held. The operations of
    a deque are atomic."""

    def __init__(self, most: int):
        self.most, self.idle, self.closed, self.process = most, deque[Any](), False, os.getpid()
        self.gate: Any = None  # the Gate of an event loop (streams.py)

    def pop(self, last: bool = True) -> Any:
        try:
            return self.idle.pop() if last else self.idle.popleft()
        except IndexError:  # No connection is idle, or another thread was faster.
            return None

    def take(self) -> Any:
        """Returns the most recently used connection, so that surplus connections stay idle."""
        if self.process != os.getpid():  # After a fork, the connections belong to the parent.
            self.idle, self.process = deque[Any](), os.getpid()
        while (connection := self.pop()) is not None:
            if not connection.stale():
                return connection
            connection.close()
        return None

    def give(self, connection: Connection) -> None:
        self.idle.append(connection)
        if self.closed:
            self.close()
        elif len(self.idle) > self.most and (oldest := self.pop(last=False)) is not None:
            oldest.close()

    def close(self) -> None:
        self.closed = True
        while (connection := self.pop()) is not None:
            connection.close()


class Lost(Exception):
    """The connection broke.

    final    another attempt would not help, or the reply had started
    opening  the connection could not be opened
    mute     no byte ever arrived on the connection
    """

    def __init__(self, cause: Exception, final: bool, opening: bool = False, mute: bool = False):
        super().__init__(str(cause) or type(cause).__name__)
        self.cause, self.opening, self.mute = cause, opening, mute
        self.final = final or isinstance(cause, ssl.SSLCertVerificationError)


def head_of(call: Call[Any], settings: Settings, deadline: float) -> bytes:
    left = max(1, int((deadline - time.monotonic()) * 1000))
    headers = {**settings.headers, **call.headers, "X-Request-Timeout-Ms": str(left)}
    if call.body or call.method in ("POST", "PUT"):
        headers["Content-Length"] = str(sum(map(len, call.body)))
    return request_head(call.method, settings.prefix + call.path, headers)


def pieces(buffers: list[Any]) -> Generator[memoryview, None, None]:
    for buffer in buffers:
        view = memoryview(buffer)
        for at in range(0, len(view), PIECE):
            yield view[at:at + PIECE]


def joined(buffers: list[Any]) -> list[Any]:
    return [b"".join(buffers)] if sum(map(len, buffers)) <= JOINED else buffers


def send(connection: Any, call: Call[Any], head: bytes, deadline: float) -> Generator[Step, Any, bool]:
    """Sends a call and reports its progress. Returns False if the call was not sent completely."""
    if call.progress is None:
        return bool((yield Send(connection, joined([head, *call.body]), deadline)))
    complete = yield Send(connection, [head], deadline)
    done, total = 0, sum(map(len, call.body))
    for piece in pieces(call.body):
        complete = complete and (yield Send(connection, [piece], deadline))
        if not complete:
            return False
        done += len(piece)
        call.progress(done, total)
    return True


def receive(connection: Any, fresh: bool, method: str, limit: int, deadline: float) -> Generator[Step, Any, Reply]:
    reading, began = read_reply(method, limit), False
    view = next(reading)
    while True:
        try:
            count = yield Receive(connection, view, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost(error, began, mute=fresh and not began) from None
        if count == 0 and not began:
            raise Lost(ConnectionError("the connection was closed without a reply"), False, mute=fresh)
        began = True
        try:
            view = reading.send(count)
        except StopIteration as end:
            reply: Reply = end.value
            return reply


def admitted(call: Call[Any], settings: Settings, pool: Pool, deadline: float) -> Generator[Step, Any, Reply]:
    gate = yield Enter(pool, deadline)
    try:
        return (yield from attempt(call, settings, pool, deadline))
    finally:
        if gate is not None:
            gate.leave()


def attempt(call: Call[Any], settings: Settings, pool: Pool, deadline: float) -> Generator[Step, Any, Reply]:
    """Sends the request once. Afterwards the connection is closed, or returned to the pool if it can be reused."""
    connection = pool.take()
    fresh = connection is None
    if fresh:
        try:
            connection = yield Open(deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost(error, False, opening=True) from None
    kept = False
    try:
        try:
            complete = yield from send(connection, call, head_of(call, settings, deadline), deadline)
        except TimeoutError:
            raise
        except OSError:
            complete = False  # The daemon might have replied before it received the whole request.
        reply = yield from receive(connection, fresh, call.method, settings.max_reply, deadline)
        kept = reply.reusable and complete
        return reply
    finally:
        if kept:
            pool.give(connection)
        else:
            connection.close()


def error_of(reply: Reply) -> Exception:
    if reply.status < 400:  # A redirect is not followed, so that the token is not sent to another address.
        place = reply.headers.get("location", "")
        return ProtocolError(f"the reply has status {reply.status}{' and redirects to ' + place[:200] if place else ''}; redirects are not followed")
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


def asked_pause(retry_after: str) -> Optional[float]:
    """Returns the seconds until the time in Retry-After, which is a number or a date; None if it is neither."""
    if re.fullmatch("[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def pause(tries: int, retry_after: str) -> float:
    """Returns the seconds to wait before a retry: the time that the daemon asks for, or else a time that doubles with each
    retry. A random addition spreads the clients."""
    asked = asked_pause(retry_after)
    return (0.05 * 2 ** min(tries, 20) if asked is None else asked) * (1 + random.random() / 4)


def deadline_of(settings: Settings, timeout: Optional[float]) -> float:
    seconds = settings.timeout if timeout is None else timeout
    if not seconds > 0:
        raise ValueError(f"the timeout is {seconds}; must be above 0 seconds")
    return time.monotonic() + min(seconds, LONGEST)


def exchange(call: Call[T], settings: Settings, pool: Pool, timeout: Optional[float]) -> Generator[Step, Any, T]:
    """Sends all requests of a call within one deadline."""
    deadline = deadline_of(settings, timeout)
    if call.untyped:
        infos = []
        for name in call.untyped.tables:
            infos.append((yield from answered(json_call("GET", tensor_path(name)), settings, pool, deadline)))
        call = completed(call, call.untyped, infos)
    try:
        return (yield from answered(call, settings, pool, deadline))
    except NotAcceptable:
        if call.otherwise is None:
            raise
    return (yield from answered(call.otherwise, settings, pool, deadline))


def answered(call: Call[T], settings: Settings, pool: Pool, deadline: float) -> Generator[Step, Any, T]:
    """Sends a request until it is answered or its last retry fails."""
    tries = 0
    while True:
        retry_after = ""
        failure: Exception
        try:
            reply = yield from admitted(call, settings, pool, deadline)
            if reply.status < 300:
                return decoded(call, reply)
            failure = error_of(reply)
            again, retry_after = may_repeat(call, reply.status, failure), reply.headers.get("retry-after", "")
        except Lost as error:
            failure, again = ConnectionLost(f"{settings.place}: {error}{hint_of(error, settings)}"), call.idempotent and not error.final
        except TimeoutError:
            raise Timeout(f"{call.method} {call.path} was not answered in time") from None
        wait = pause(tries, retry_after)
        if not again or tries >= settings.retries or time.monotonic() + wait >= deadline:
            raise failure
        tries += 1
        yield Sleep(wait)


# X509_V_ERR_… codes of OpenSSL: a self-signed certificate in the chain, or an issuer that is not known.
UNKNOWN_AUTHORITY = (18, 19, 20, 21)


def hint_of(error: Lost, settings: Settings) -> str:
    """Returns the probable cause of a lost connection if the system's message does not name it, or else an empty string."""
    if isinstance(error.cause, (ConnectionRefusedError, FileNotFoundError)):
        return "; no daemon listens there. Start tensord, or use tensord.serve()"
    if isinstance(error.cause, ssl.SSLCertVerificationError) and error.cause.verify_code in UNKNOWN_AUTHORITY:
        return "; pass ca_file= (--ca-file) with the authority's certificate, or with the server's own if it is self-signed"
    if error.mute and not settings.tls and not settings.socket:
        return "; if the daemon serves HTTPS, its URL starts with https://"
    # A peer that speaks TLS presents a certificate or sends an alert. If the peer closes the connection during the handshake,
    # asyncio raises ConnectionResetError.
    is_of_tls = isinstance(error.cause, ssl.SSLCertVerificationError) or "ALERT" in str(error.cause).upper()
    if settings.tls and error.opening and isinstance(error.cause, (ssl.SSLError, ConnectionResetError)) and not is_of_tls:
        return "; if the daemon has no TLS, its URL starts with http://"
    return ""


def decoded(call: Call[T], reply: Reply) -> T:
    try:
        if reply.status == 101:
            raise ProtocolError("the reply switches protocols, which the client did not ask for")
        return call.decode(reply)
    except ProtocolError as error:
        error.request_id = reply.headers.get("x-request-id")
        raise
