"""Performs the steps of an exchange on blocking sockets."""
from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from collections.abc import Generator
from typing import Any, Optional, TypeVar

from .exchange import JOINED, PIECE, Open, Receive, Send, Settings, Sleep, Step

T = TypeVar("T")


def left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


class SocketConnection:
    def __init__(self, plain: socket.socket):
        self.socket = plain

    def close(self) -> None:
        self.socket.close()

    def stale(self) -> bool:
        """True if an idle connection is readable. No reply is due, so the daemon must have closed the connection."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0 or ready(self.socket, "r", 0) != ""


def ready_by_select(sock: Any, wanted: str, seconds: float) -> str:
    """Does the same as `ready` with select(), which works only for file descriptors below 1024."""
    reading, writing, _ = select.select([sock] if "r" in wanted else [], [sock] if "w" in wanted else [], [], seconds)
    return "r" * len(reading) + "w" * len(writing)


if sys.platform == "win32":
    ready = ready_by_select
else:
    def ready(sock: Any, wanted: str, seconds: float) -> str:
        """Waits at most `seconds` until the socket can be read ("r") or written ("w"), as wanted.

        Returns the letters of what is possible. The end of the connection and errors count as readable."""
        poll = select.poll()
        poll.register(sock, select.POLLIN * ("r" in wanted) | select.POLLOUT * ("w" in wanted))
        found = sum(event for _, event in poll.poll(1000 * seconds))
        return "r" * bool(found & ~select.POLLOUT) + "w" * bool(found & select.POLLOUT)


def connect(settings: Settings, context: Optional[ssl.SSLContext], deadline: float) -> SocketConnection:
    if settings.socket is not None:
        return SocketConnection(open_socket(socket.AF_UNIX, settings.socket, deadline))
    failure = OSError("the host has no address")
    for family, _, _, _, address in socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM):
        try:
            plain = open_socket(family, address, deadline)
        except OSError as error:
            failure = error
            continue
        try:
            plain.settimeout(left(deadline))
            return SocketConnection(plain if context is None else context.wrap_socket(plain, server_hostname=settings.host))
        except BaseException:
            plain.close()
            raise
    raise failure


def open_socket(family: int, address: Any, deadline: float) -> socket.socket:
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.settimeout(left(deadline))
        plain.connect(address)
        if isinstance(address, tuple):  # A Unix socket has a path.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain
    except BaseException:
        plain.close()
        raise


def send(step: Send) -> bool:
    """Sends the buffers in pieces, because a TLS socket applies its timeout to each piece.

    Returns False if a reply arrives before everything is sent."""
    sock = step.connection.socket
    for buffer in step.buffers:
        view = memoryview(buffer)
        watched = len(view) > JOINED and not isinstance(sock, ssl.SSLSocket)
        while view:
            if watched and replied(sock, step.deadline):
                return False
            sock.settimeout(left(step.deadline))
            view = view[sock.send(view[:PIECE]):]
    return True


def replied(sock: socket.socket, deadline: float) -> bool:
    """Waits until the socket can be written or read. True if it can be read, because a reply has arrived."""
    found = ready(sock, "rw", left(deadline))
    if not found:
        raise TimeoutError
    return "r" in found


def perform(step: Step, settings: Settings, context: Optional[ssl.SSLContext]) -> Any:
    if isinstance(step, Receive):
        step.connection.socket.settimeout(left(step.deadline))
        return step.connection.socket.recv_into(step.view)
    if isinstance(step, Send):
        return send(step)
    if isinstance(step, Open):
        return connect(settings, context, step.deadline)
    return time.sleep(step.seconds) if isinstance(step, Sleep) else None


def run(steps: Generator[Step, Any, T], settings: Settings, context: Optional[ssl.SSLContext]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                result = perform(step, settings, context)
            except (OSError, socket.timeout) as error:
                # Before Python 3.10, socket.timeout is not a subclass of TimeoutError.
                step = steps.throw(TimeoutError() if isinstance(error, socket.timeout) else error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()
