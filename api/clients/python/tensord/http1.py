"""HTTP/1.1 without sockets: formats the head of a request, and parses a reply from the bytes that the caller reads.

Replies are not trusted. Redirects are not followed, compressed bodies are refused, at most `limit` bytes are allocated for a
body, and the memory pages of the body are touched only when its bytes arrive.
"""
from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from .errors import ProtocolError, ReplyTooLarge

HEAD_LIMIT = 64 * 1024
ERROR_LIMIT = 1 << 20
TLS_ALERT = b"\x15\x03"
PIECE = 16 * 1024
CHUNK_LINE_LIMIT = 1024

# A generator that parses a reply. It yields the memory to fill, and receives the number of bytes read, or 0 at the end.
Reading = Generator[memoryview, int, "Reply"]


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: memoryview
    reusable: bool


def check_header(name: str, value: str) -> None:
    if "\r" in value or "\n" in value:
        raise ValueError(f"the value of the header {name} contains a line break")


def request_head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in headers.items():
        check_header(name, value)
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_head(head: bytes) -> tuple[int, dict[str, str], bool]:
    """Returns the status, the headers with lower-case names, and True if the connection stays open."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (rest[:3].isascii() and rest[:3].isdigit()) or len(rest.split(" ")[0]) != 3:
        raise ProtocolError(f"the reply is not HTTP; it starts with {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolError(f"the reply has a header without a colon: {line[:80]!r}")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise ProtocolError(f"the reply has two {name} headers")
        headers[name] = value.strip()
    return int(rest[:3]), headers, version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"


class Input:
    """Bytes that were read and are not parsed yet."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def more(self) -> Generator[memoryview, int, None]:
        piece = bytearray(PIECE)
        count = yield memoryview(piece)
        if count == 0:
            raise ProtocolError("the reply is truncated" if self.bytes else "the connection was closed without a reply")
        self.bytes += memoryview(piece)[:count]
        if self.bytes.startswith(TLS_ALERT):
            raise ProtocolError("the daemon serves HTTPS; use a URL that starts with https://")

    def until(self, mark: bytes, limit: int) -> Generator[memoryview, int, bytes]:
        searched = 0
        while (at := self.bytes.find(mark, searched)) < 0:
            if len(self.bytes) > limit:
                raise ProtocolError(f"a part of the reply is longer than {limit} bytes, its maximum")
            searched = max(0, len(self.bytes) - len(mark) + 1)
            yield from self.more()
        found = bytes(self.bytes[:at])
        del self.bytes[:at + len(mark)]
        return found

    def exactly(self, length: int) -> Generator[memoryview, int, memoryview]:
        try:
            body = np.empty(length, "u1").data  # Unlike bytearray, numpy.empty does not touch the memory pages.
        except (MemoryError, OverflowError, ValueError):
            raise ReplyTooLarge(f"not enough memory for a reply of {length} bytes") from None
        at = min(length, len(self.bytes))
        body[:at] = self.bytes[:at]
        del self.bytes[:at]
        while at < length:
            count = yield body[at:]
            if count == 0:
                raise ProtocolError(f"the reply is truncated: {at} of {length} bytes")
            at += count
        return body


def check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ReplyTooLarge(f"the reply has at least {size} bytes; the limit is {limit}")


def read_chunks(source: Input, limit: int) -> Generator[memoryview, int, memoryview]:
    body = bytearray()
    while True:
        line = (yield from source.until(b"\r\n", CHUNK_LINE_LIMIT)).partition(b";")[0].strip()
        size = number(line, 16)
        if size == 0:
            break
        check_size(len(body) + size, limit)
        body += yield from source.exactly(size)
        if bytes((yield from source.exactly(2))) != b"\r\n":
            raise ProtocolError("a chunk of the reply does not end where its size says")
    while (yield from source.until(b"\r\n", CHUNK_LINE_LIMIT)):
        pass
    return memoryview(body)


def number(text: bytes, base: int) -> int:
    try:
        value = int(text, base) if text.isalnum() else -1
    except ValueError:
        value = -1
    if value < 0:
        raise ProtocolError(f"the reply has {text[:40]!r} where a size is expected")
    return value


def read_body(source: Input, headers: dict[str, str], limit: int) -> Generator[memoryview, int, memoryview]:
    encoding = headers.get("transfer-encoding", "").lower()
    if encoding and "content-length" in headers or encoding not in ("", "chunked"):
        raise ProtocolError(f"the reply has the transfer encoding {encoding[:80]!r}; expected 'chunked' without Content-Length, or Content-Length alone")
    if encoding:
        return (yield from read_chunks(source, limit))
    if "content-length" not in headers:
        raise ProtocolError("the reply has neither a content length nor chunks")
    size = number(headers["content-length"].encode("latin-1"), 10)
    check_size(size, limit)
    return (yield from source.exactly(size))


def read_reply(method: str, limit: int) -> Reading:
    source = Input()
    while True:
        head = yield from source.until(b"\r\n\r\n", HEAD_LIMIT)
        status, headers, reusable = parse_head(head)
        if status >= 200 or status == 101:
            break
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ProtocolError(f"the reply has the content encoding {headers['content-encoding'][:80]!r}, which the client did not ask for")
    if method == "HEAD" or status in (101, 204, 304):
        body = memoryview(b"")
    else:
        body = yield from read_body(source, headers, limit if status < 300 else min(limit, ERROR_LIMIT))
    return Reply(status, headers, body, reusable and not source.bytes)
