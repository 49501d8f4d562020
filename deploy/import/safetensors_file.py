"""Safetensors: reads files, and folders as Hugging Face lays them out, and plans the file that the
import writes.
"""

import dataclasses
import json
import math
import pathlib
import struct
from collections.abc import Iterator
from typing import Any

from table import DTYPE_OF_CODE, Array, Dtype, Refused, Table, file_in, read_rows

HEADER_BYTES = 100_000_000  # at most, as in the reference implementation
FILE_BYTES = 1 << 60  # far more than a disk has, and no offset overflows
ALIGNMENT = 64  # of the largest tensor: rows then begin at cache lines


# ---------------------------------------------------------------- reading
@dataclasses.dataclass(frozen=True)
class Entry:
    """Where a tensor lies."""

    path: pathlib.Path
    dtype: Dtype
    shape: tuple[int, ...]
    begin: int


def is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def read_header(path: pathlib.Path) -> dict[str, Entry]:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_BYTES + 1
        if length > min(HEADER_BYTES, size - 8):
            raise Refused(
                f"{path}: it is not a safetensors file: its header would be longer than the file"
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as e:
            raise Refused(f"{path}: the header is not JSON: {e}") from e
    if not isinstance(header, dict):
        raise Refused(f"{path}: the header is no object")
    return {
        name: read_entry(path, name, description, 8 + length, size)
        for name, description in header.items()
        if name != "__metadata__"
    }


def read_entry(path: pathlib.Path, name: str, description: Any, data: int, size: int) -> Entry:
    place = f"{path}, tensor {name}"
    if not isinstance(description, dict):
        raise Refused(f"{place}: it is not described by an object")
    code, shape, range_ = (description.get(member) for member in ("dtype", "shape", "data_offsets"))
    if not isinstance(code, str) or code not in DTYPE_OF_CODE:
        raise Refused(f"{place}: the dtype is {code!r}; expected one of {', '.join(DTYPE_OF_CODE)}")
    if not (
        isinstance(shape, list)
        and all(map(is_extent, shape))
        and isinstance(range_, list)
        and len(range_) == 2
        and all(map(is_extent, range_))
    ):
        raise Refused(
            f"{place}: its shape and data_offsets are not lists of extents and of two offsets"
        )
    dtype, (begin, end) = DTYPE_OF_CODE[code], range_
    if end - begin != math.prod(shape) * dtype.storage.itemsize or data + end > size:
        raise Refused(
            f"{place}: bytes {begin} to {end} are not those of {dtype.name} {shape} in a file of"
            f" {size} bytes"
        )
    return Entry(path, dtype, tuple(shape), data + begin)


class Safetensors:
    """The tensors of a file, or of the files that the index of a folder names."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.entries = read_folder(path) if path.is_dir() else read_header(path)
        self.names = sorted(self.entries)

    def table(self, name: str) -> Table:
        entry = self.entries[name]
        place = f"{entry.path}, tensor {name}"

        def batches() -> Iterator[Array]:
            with entry.path.open("rb") as file:
                file.seek(entry.begin)
                yield from read_rows(file, entry.shape, entry.dtype.storage, place)

        return Table(name, entry.dtype, entry.shape, batches, place)

    def array(self, name: str) -> Array:
        return self.table(name).array()


def read_folder(folder: pathlib.Path) -> dict[str, Entry]:
    """model.safetensors, or the files of model.safetensors.index.json."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        paths = sorted(folder.glob("*.safetensors"))
        if len(paths) != 1:
            raise Refused(
                f"{folder}: it has {len(paths)} safetensors files and no {index.name}; expected one"
                " file, or the index"
            )
        return read_header(paths[0])
    try:
        names = json.loads(index.read_bytes())["weight_map"]
        files = sorted({str(file) for file in names.values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Refused(f"{index}: it has no weight_map: {e}") from e
    headers = {file: read_header(file_in(folder, file, str(index))) for file in files}
    for name, file in names.items():
        if name not in headers[file]:
            raise Refused(f"{index}: {file} has no tensor {name}")
    return {name: headers[file][name] for name, file in names.items()}


# ---------------------------------------------------------------- writing
@dataclasses.dataclass(frozen=True)
class Part:
    """A tensor to be written."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.storage.itemsize


@dataclasses.dataclass(frozen=True)
class Layout:
    """The header of a file, and where each tensor begins in it."""

    header: bytes
    begin: dict[str, int]
    size: int


def plan(parts: list[Part]) -> Layout:
    """The widest dtypes come first, so that every tensor is aligned; the largest tensor begins at a
    cache line, if the others allow it.
    """
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"two tensors would be named {name}; --tensor FROM=TO renames one")
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
