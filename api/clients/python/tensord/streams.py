"""Performs the steps of an exchange on asyncio transports."""
from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Generator
from typing import Any, Optional, TypeVar, cast

from .blocking import left, ready
from .exchange import PIECE, Enter, Open, Receive, Send, Settings, Sleep, Step

T = TypeVar("T")
EARLY = 16 * 1024


class StreamConnection(asyncio.BufferedProtocol):
    """A connection that reads into the memory of the step that waits for the bytes.

    asyncio.StreamReader would copy the bytes, and could not tell whether unexpected bytes arrived on an idle connection.
    Bytes that arrive while no step waits are kept, and reading is paused until a step has taken them.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.view: Optional[memoryview] = None  # memory of the step that waits for bytes
        self.given: Optional[memoryview] = None  # memory that the transport is filling
        self.early = b""
        self.full = self.ended = False
        self.error: Optional[Exception] = None
        self.waiter: Optional[asyncio.Future[int]] = None

    # -------------------------------------------------------------- called by the transport
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        self.given = self.view if self.view is not None else memoryview(bytearray(EARLY))
        return self.given

    def buffer_updated(self, nbytes: int) -> None:
        if self.given is self.view:
            self.view = None
            self.wake(nbytes)
        else:
            self.early += bytes(cast(memoryview, self.given)[:nbytes])
            self.transport.pause_reading()
            self.wake(0)

    def eof_received(self) -> bool:
        self.ended = True
        self.wake(0)
        return False

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self.ended, self.error = True, exc
        self.wake(0)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.wake(0)

    # -------------------------------------------------------------- called by a step
    def wake(self, count: int) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(count)

    async def wait(self, deadline: float) -> int:
        waiter: asyncio.Future[int] = self.loop.create_future()
        self.waiter = waiter
        timer = self.loop.call_later(left(deadline), expire, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self.waiter = None

    async def send(self, buffers: list[Any], deadline: float) -> bool:
        for buffer in buffers:
            view = memoryview(buffer)
            for at in range(0, len(view), PIECE):
                self.transport.write(view[at:at + PIECE])
                while self.full and not self.ended and not self.early:
                    await self.wait(deadline)
                if at + PIECE <= len(view):
                    await asyncio.sleep(0)  # With a fast daemon the buffer never fills. Yield here to read its reply and let other tasks run.
                if self.ended or self.early:
                    return False
        return True

    async def receive(self, view: memoryview, deadline: float) -> int:
        if self.early:
            count = min(len(view), len(self.early))
            view[:count], self.early = self.early[:count], self.early[count:]
            if not self.early and not self.ended:
                self.transport.resume_reading()
            return count
        count, self.view = 0, view
        try:
            while not (count or self.early or self.ended):
                count = await self.wait(deadline)
        finally:
            self.view = None
        if self.early and not count:
            return await self.receive(view, deadline)
        if self.error is not None and not count:
            raise self.error
        return count

    def close(self) -> None:
        if not self.loop.is_closed():
            self.transport.abort()

    def stale(self) -> bool:
        """True if an idle connection belongs to another event loop, has ended, or has bytes to read.

        The socket itself is checked, because the loop might not have seen the bytes yet."""
        if self.early or self.ended or self.loop is not asyncio.get_running_loop():
            return True
        return ready(self.transport.get_extra_info("socket"), "r", 0) != ""


class Gate:
    """Admits at most `most` requests at a time, in order of arrival."""

    def __init__(self, most: int) -> None:
        self.loop, self.free = asyncio.get_running_loop(), most
        self.waiting: deque[asyncio.Future[int]] = deque()

    async def enter(self, deadline: float) -> None:
        if self.free:
            self.free -= 1
            return
        waiter: asyncio.Future[int] = self.loop.create_future()
        timer = self.loop.call_later(left(deadline), expire, waiter)
        self.waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.leave()  # The task was admitted just before it was cancelled.
            raise
        finally:
            timer.cancel()

    def leave(self) -> None:
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(0)
                return
        self.free += 1


async def enter(step: Enter) -> Gate:
    gate = step.pool.gate
    if gate is None or gate.loop is not asyncio.get_running_loop():
        gate = step.pool.gate = Gate(max(1, step.pool.most))
    await gate.enter(step.deadline)
    return cast(Gate, gate)


def expire(waiter: asyncio.Future[int]) -> None:
    if not waiter.done():
        waiter.set_exception(asyncio.TimeoutError())


async def connect(settings: Settings, context: Optional[ssl.SSLContext]) -> StreamConnection:
    loop = asyncio.get_running_loop()
    if settings.socket is not None:
        return (await loop.create_unix_connection(StreamConnection, settings.socket))[1]
    return (await loop.create_connection(StreamConnection, settings.host, settings.port, ssl=context))[1]


async def perform(step: Step, settings: Settings, context: Optional[ssl.SSLContext]) -> Any:
    if isinstance(step, Receive):
        return await step.connection.receive(step.view, step.deadline)
    if isinstance(step, Send):
        return await step.connection.send(step.buffers, step.deadline)
    if isinstance(step, Open):
        return await asyncio.wait_for(connect(settings, context), left(step.deadline))
    return await (asyncio.sleep(step.seconds) if isinstance(step, Sleep) else enter(step))


async def run(steps: Generator[Step, Any, T], settings: Settings, context: Optional[ssl.SSLContext]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                result = await perform(step, settings, context)
            except asyncio.TimeoutError:
                step = steps.throw(TimeoutError())
            except OSError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()
