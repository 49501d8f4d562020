"""Performs the steps of an exchange on asyncio streams."""
from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator
from typing import Any, Optional, TypeVar

from .blocking import left
from .exchange import Open, Receive, Send, Settings, Sleep, Step

T = TypeVar("T")


class StreamConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    def close(self) -> None:
        self.writer.close()

    def stale(self) -> bool:
        return self.reader.at_eof() or self.writer.is_closing()


async def send(step: Send) -> None:
    for buffer in step.buffers:
        step.connection.writer.write(buffer)
        await step.connection.writer.drain()


async def receive(step: Receive) -> int:
    data = await step.connection.reader.read(len(step.view))
    step.view[:len(data)] = data
    return len(data)


async def connect(settings: Settings, context: Optional[ssl.SSLContext]) -> StreamConnection:
    return StreamConnection(*await asyncio.open_connection(settings.host, settings.port, ssl=context))


async def perform(step: Step, settings: Settings, context: Optional[ssl.SSLContext]) -> Any:
    if isinstance(step, Sleep):
        return await asyncio.sleep(step.seconds)
    seconds = left(step.deadline)
    if isinstance(step, Receive):
        return await asyncio.wait_for(receive(step), seconds)
    if isinstance(step, Send):
        return await asyncio.wait_for(send(step), seconds)
    assert isinstance(step, Open)
    return await asyncio.wait_for(connect(settings, context), seconds)


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
