"""One call from its request to its value, with retries, without reading or writing: a generator of steps.

The blocking client and the asyncio client perform the same steps, each in its own way, and send their results back.
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
DEFAULT_URL = "http://127.0.0.1:8080"  # where the daemon listens without --listen
PIECE = 1 << 20  # how often a progress is reported
JOINED = 64 * 1024  # requests up to this size are sent as one
LONGEST = 86400.0  # seconds of a call, which is the longest deadline that the daemon takes
# The daemon refuses with these before it does anything, so that any call may be sent again.
REFUSALS = frozenset(("QUEUE_FULL", "CLIENT_LIMIT", "CONNECTION_LIMIT", "MEMORY_EXHAUSTED", "DRAINING", "DATA_DIR_LOCKED"))


class Connection(Protocol):
    def close(self) -> None: ...
    def stale(self) -> bool: ...


class Enter(NamedTuple):
    """waits until fewer requests are under way than the pool has room for; threads bound themselves, tasks do not"""
    pool: Pool
    deadline: float


class Open(NamedTuple):
    deadline: float


class Send(NamedTuple):
    """its result says whether all was sent: not if a reply came, or the connection ended, before"""
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


class Settings:
    """where and how requests are sent"""

    def __init__(self, url: str, token: Optional[str], timeout: float, retries: int, max_reply: int):
        parts = urlsplit(url if "//" in url else "http://" + url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the url is {url!r}; expected http://HOST:PORT or https://HOST:PORT")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("the url has more than a host, a port and a path; a token is an argument of its own")
        self.url, self.tls = url, parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/")
        self.timeout, self.retries, self.max_reply = timeout, retries, max_reply
        self.headers = {"Host": parts.netloc}
        if token is not None:
            check_header("Authorization", token)
            self.headers["Authorization"] = "Bearer " + token


class Pool:
    """Idle connections.  Threads share it without a lock, which a fork could leave locked: deques append and pop in one step."""

    def __init__(self, most: int):
        self.most, self.idle, self.closed, self.process = most, deque[Any](), False, os.getpid()
        self.gate: Any = None  # that of an event loop

    def pop(self, last: bool = True) -> Any:
        try:
            return self.idle.pop() if last else self.idle.popleft()
        except IndexError:  # none, or another thread was faster
            return None

    def take(self) -> Any:
        """the connection that was used last, so that those that are not needed grow old"""
        if self.process != os.getpid():  # after a fork they are those of the parent
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
    """the connection broke; final: another attempt would be of no use, or the reply had begun; mute: nothing ever came on it"""

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
    """whether all was sent"""
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
    """sends the request once; the connection goes back to the pool or is closed"""
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
            complete = False  # the daemon may have replied before it had the whole request
        reply = yield from receive(connection, fresh, call.method, settings.max_reply, deadline)
        kept = reply.reusable and complete
        return reply
    finally:
        if kept:
            pool.give(connection)
        else:
            connection.close()


def error_of(reply: Reply) -> Exception:
    if reply.status < 400:  # the token is not for another address
        place = reply.headers.get("location", "")
        return ProtocolError(f"the reply has status {reply.status}{' and refers to ' + place[:200] if place else ''}; it is not followed")
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
    """the seconds of Retry-After, which is a number or a date"""
    if re.fullmatch("[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def pause(tries: int, retry_after: str) -> float:
    """what the daemon asks for, otherwise twice as long each time, and a random part so that clients spread"""
    asked = asked_pause(retry_after)
    return (0.05 * 2 ** min(tries, 20) if asked is None else asked) * (1 + random.random() / 4)


def deadline_of(settings: Settings, timeout: Optional[float]) -> float:
    seconds = settings.timeout if timeout is None else timeout
    if not seconds > 0:
        raise ValueError(f"the timeout is {seconds}; expected seconds above 0")
    return time.monotonic() + min(seconds, LONGEST)


def exchange(call: Call[T], settings: Settings, pool: Pool, timeout: Optional[float]) -> Generator[Step, Any, T]:
    """all requests of a call, by one deadline"""
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
    """sends one request until it has an answer or the last of its retries failed"""
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
            failure, again = ConnectionLost(f"{settings.host}:{settings.port}: {error}{hint_of(error, settings)}"), call.idempotent and not error.final
        except TimeoutError:
            raise Timeout(f"{call.method} {call.path} was not answered in time") from None
        wait = pause(tries, retry_after)
        if not again or tries >= settings.retries or time.monotonic() + wait >= deadline:
            raise failure
        tries += 1
        yield Sleep(wait)


UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # X509_V_ERR_… of OpenSSL: the certificate, or one above it, signs itself, or none above it is known


def hint_of(error: Lost, settings: Settings) -> str:
    """what the cause of a lost connection may be, if the system's words do not say it"""
    if isinstance(error.cause, ConnectionRefusedError):
        return "; no daemon listens there: start tensord, or use tensord.serve()"
    if isinstance(error.cause, ssl.SSLCertVerificationError) and error.cause.verify_code in UNKNOWN_AUTHORITY:
        return "; pass ca_file= (--ca-file) with the authority's certificate, or with the server's own if it is self-signed"
    if error.mute and not settings.tls:
        return "; if the daemon serves HTTPS, its URL starts with https://"
    # A peer with TLS has a certificate, or sends an alert; asyncio turns the end of a handshake into ConnectionResetError.
    is_of_tls = isinstance(error.cause, ssl.SSLCertVerificationError) or "ALERT" in str(error.cause).upper()
    if settings.tls and error.opening and isinstance(error.cause, (ssl.SSLError, ConnectionResetError)) and not is_of_tls:
        return "; if the daemon has no TLS, its URL starts with http://"
    return ""


def decoded(call: Call[T], reply: Reply) -> T:
    try:
        if reply.status == 101:
            raise ProtocolError("the reply changes the protocol, which was not asked for")
        return call.decode(reply)
    except ProtocolError as error:
        error.request_id = reply.headers.get("x-request-id")
        raise
