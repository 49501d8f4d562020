"""Performs the steps of an exchange on blocking sockets."""
from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Generator
from typing import Any, Optional, TypeVar

from .exchange import Open, Receive, Send, Settings, Sleep, Step

T = TypeVar("T")
JOINED = 64 * 1024  # requests up to this size are sent as one


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
        """whether an idle connection has something to read: its end, since no reply is due"""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))


def connect(settings: Settings, context: Optional[ssl.SSLContext], deadline: float) -> SocketConnection:
    plain = socket.create_connection((settings.host, settings.port), timeout=left(deadline))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return SocketConnection(plain)
        return SocketConnection(context.wrap_socket(plain, server_hostname=settings.host))
    except BaseException:
        plain.close()
        raise


def send(step: Send) -> None:
    sock = step.connection.socket
    buffers = step.buffers
    if sum(map(len, buffers)) <= JOINED:
        buffers = [b"".join(buffers)]
    for buffer in buffers:
        sock.settimeout(left(step.deadline))
        sock.sendall(buffer)


def perform(step: Step, settings: Settings, context: Optional[ssl.SSLContext]) -> Any:
    if isinstance(step, Receive):
        step.connection.socket.settimeout(left(step.deadline))
        return step.connection.socket.recv_into(step.view)
    if isinstance(step, Send):
        return send(step)
    if isinstance(step, Open):
        return connect(settings, context, step.deadline)
    assert isinstance(step, Sleep)
    return time.sleep(step.seconds)


def run(steps: Generator[Step, Any, T], settings: Settings, context: Optional[ssl.SSLContext]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                result = perform(step, settings, context)
            except (OSError, socket.timeout) as error:
                # Before Python 3.10 socket.timeout is no TimeoutError.
                step = steps.throw(TimeoutError() if isinstance(error, socket.timeout) else error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()
