"""Reads safetensors files, and plans the layout of the file that the import writes."""

import dataclasses
import json
import math
import pathlib
import struct
from collections.abc import Iterator
from typing import Any

from json_file import parse
from table import DTYPE_OF_CODE, Array, Dtype, Refused, Table, Unreadable, read_rows

HEADER_BYTES = 100_000_000  # maximum size of a header, as in the reference implementation
FILE_BYTES = 1 << 60  # maximum size of a file: larger than any disk, and no offset overflows
ALIGNMENT = 64  # alignment of the largest tensor, so that its rows start at cache lines


# ---------------------------------------------------------------- reading
FOREIGN_BITS = {  # size in bits of the dtypes that tensord lacks
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """The dtype, shape and position of a tensor in a file."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def bits(self) -> int | None:
        """The size of an element in bits, or None if the dtype is unknown."""
        dtype = DTYPE_OF_CODE.get(self.code)
        return 8 * dtype.storage.itemsize if dtype else FOREIGN_BITS.get(self.code)


def is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def read_header(path: pathlib.Path) -> dict[str, Entry]:
    """Reads the header of a file. Refuses tensors that do not cover the data without holes and overlaps."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_BYTES + 1
        if length > min(HEADER_BYTES, size - 8):
            raise Refused(
                f"{path}: it is not a safetensors file; its header would be longer than the file"
            )
        header = parse(file.read(length), f"{path}, header")
    if not isinstance(header, dict):
        raise Refused(f"{path}: the header is not an object")
    entries = {
        name: read_entry(f"{path}, tensor {name}", description)
        for name, description in header.items()
        if name != "__metadata__"
    }
    check_ranges(path, entries, 8 + length, size)
    return {
        name: dataclasses.replace(entry, begin=8 + length + entry.begin, end=8 + length + entry.end)
        for name, entry in entries.items()
    }


def read_entry(place: str, description: Any) -> Entry:
    if not isinstance(description, dict):
        raise Refused(f"{place}: it is not described by an object")
    code, shape, range_ = (description.get(member) for member in ("dtype", "shape", "data_offsets"))
    if not isinstance(code, str):
        raise Refused(f"{place}: the dtype is {code!r}; expected a name, such as F32")
    if not (
        isinstance(shape, list)
        and all(map(is_extent, shape))
        and isinstance(range_, list)
        and len(range_) == 2
        and all(map(is_extent, range_))
    ):
        raise Refused(
            f"{place}: its shape must be a list of extents, and data_offsets a list of two offsets"
        )
    return Entry(code, tuple(shape), *range_)


def check_ranges(path: pathlib.Path, entries: dict[str, Entry], data: int, size: int) -> None:
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        begin, end, bits = entry.begin, entry.end, entry.bits
        place = f"{path}, tensor {name}"
        if begin > end or data + end > size:
            raise Refused(f"{place}: bytes {begin} to {end} are outside the file, which has {size} bytes")
        if bits and 8 * (end - begin) != math.prod(entry.shape) * bits:
            raise Refused(
                f"{place}: it has {end - begin} bytes, which is not the size of {entry.code} {list(entry.shape)}"
            )
        if begin != at:
            raise Refused(
                f"{place}: its data starts at {begin}, but the preceding tensors end at {at};"
                " overlaps and holes are not allowed"
            )
        at = end
    if data + at != size:
        raise Refused(f"{path}: the tensors end at {data + at}, but the file has {size} bytes")


class Safetensors:
    """The tensors of a safetensors file."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.entries = read_header(path)
        self.names = sorted(self.entries)

    def table(self, name: str) -> Table:
        entry = self.entries[name]
        place = f"{self.path}, tensor {name}"
        dtype = DTYPE_OF_CODE.get(entry.code)
        if not dtype:
            raise Unreadable(
                f"{place}: the dtype is {entry.code}; expected one of {', '.join(DTYPE_OF_CODE)}"
            )
        storage = dtype.storage

        def batches() -> Iterator[Array]:
            with self.path.open("rb") as file:
                file.seek(entry.begin)
                yield from read_rows(file, entry.shape, storage, place)

        return Table(name, dtype, entry.shape, batches, place)

    def array(self, name: str) -> Array:
        return self.table(name).array()


# ---------------------------------------------------------------- writing
@dataclasses.dataclass(frozen=True)
class Part:
    """A tensor to write."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.storage.itemsize


@dataclasses.dataclass(frozen=True)
class Layout:
    """The header of a file, and the position of each tensor in the file."""

    header: bytes
    begin: dict[str, int]
    size: int


def plan(parts: list[Part]) -> Layout:
    """Plans a file. The widest dtypes come first, so every tensor is aligned. The largest tensor starts at a
    cache line if the other tensors allow it.
    """
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"two tensors would be named {name}; rename one with --tensor FROM=TO")
    entries: dict[str, Any] = {}
    offsets: dict[str, int] = {}
    at = 0
    for part in sorted(parts, key=lambda part: (-part.dtype.storage.itemsize, part.name)):
        offsets[part.name] = at
        entries[part.name] = {
            "dtype": part.dtype.code,
            "shape": list(part.shape),
            "data_offsets": [at, at + part.bytes],
        }
        at += part.bytes
    if at > FILE_BYTES:
        raise Refused(f"the tensors have {at} bytes; expected at most {FILE_BYTES}")
    text = json.dumps(entries, separators=(",", ":")).encode()
    largest = offsets[max(parts, key=lambda part: part.bytes).name] if parts else 0
    padding = -(8 + len(text)) % 8
    while (8 + len(text) + padding + largest) % ALIGNMENT and padding < ALIGNMENT:
        padding += 8
    header = struct.pack("<Q", len(text) + padding) + text + b" " * padding
    return Layout(
        header, {name: len(header) + offset for name, offset in offsets.items()}, len(header) + at
    )
