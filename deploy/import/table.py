"""Tables and their keys, in the form that the reader of every input format produces: a known shape, and
rows in batches.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import numpy.typing

Array = numpy.typing.NDArray[Any]

# Suffixes of files with columns.
PARQUET = (".parquet", ".pq")
COLUMN_FILES = (*PARQUET, ".feather", ".arrow", ".ipc")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
BATCH_BYTES = 4 << 20  # size of the rows that are in memory at a time
BATCH_KEYS = 1 << 16
MOST_DIMENSIONS = 16  # maximum number of dimensions of a tensor in tensord


class Refused(Exception):
    """An input is refused. The message names the place."""


class RowRefused(Refused):
    """A row is refused. `row` is its number in its file."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text)
        self.row = row


class Unreadable(Refused):
    """A tensor has no equivalent in tensord. The other tensors of the input can still be imported."""


@dataclasses.dataclass(frozen=True)
class Dtype:
    """A dtype of tensord. `storage` is the NumPy dtype with the same bits; NumPy has no bfloat16."""

    name: str
    code: str  # name of the dtype in safetensors
    storage: numpy.dtype[Any]

    @property
    def is_float(self) -> bool:
        return self.name in ("float16", "bfloat16", "float32", "float64")


DTYPES = {
    name: Dtype(name, code, numpy.dtype(storage))
    for name, code, storage in (
        ("bool", "BOOL", "?"),
        ("int8", "I8", "i1"),
        ("int16", "I16", "<i2"),
        ("int32", "I32", "<i4"),
        ("int64", "I64", "<i8"),
        ("uint8", "U8", "u1"),
        ("uint16", "U16", "<u2"),
        ("uint32", "U32", "<u4"),
        ("uint64", "U64", "<u8"),
        ("float16", "F16", "<f2"),
        ("bfloat16", "BF16", "<u2"),
        ("float32", "F32", "<f4"),
        ("float64", "F64", "<f8"),
        ("complex64", "C64", "<c8"),
    )
}
DTYPE_OF_CODE = {dtype.code: dtype for dtype in DTYPES.values()}


def dtype_of(array_dtype: numpy.dtype[Any], place: str) -> Dtype:
    """Returns the dtype of a NumPy array."""
    if array_dtype.name not in DTYPES:
        raise Unreadable(
            f"{place}: the dtype is {array_dtype}; expected one of {', '.join(DTYPES)}"
            f"{dtype_hint(array_dtype)}"
        )
    return DTYPES[array_dtype.name]


def dtype_hint(array_dtype: numpy.dtype[Any]) -> str:
    """Returns advice on converting an array x with an unsupported dtype."""
    if array_dtype.names:
        return f"; numpy.save('FILE.npy', x[{array_dtype.names[0]!r}]) saves one field as an array"
    if array_dtype == "V2":  # numpy.save writes the bfloat16 of ml_dtypes as V2.
        return (
            "; if it is bfloat16, numpy.save('FILE.npy', x.view(ml_dtypes.bfloat16).astype('float32'))"
            " keeps its values, and --dtype bfloat16 makes it bfloat16 again"
        )
    to = {"c": "complex64", "f": "float64", "M": "int64", "m": "int64"}.get(array_dtype.kind)
    return f"; numpy.save('FILE.npy', x.astype({to!r})) converts the array x" if to else ""


@dataclasses.dataclass(frozen=True)
class Strings:
    """A batch of strings: string i is data[offsets[i]:offsets[i + 1]], in UTF-8."""

    offsets: Array  # int64, starting at 0
    data: bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.data[self.offsets[i] : self.offsets[i + 1]]


def strings_of(texts: list[bytes]) -> Strings:
    offsets = numpy.zeros(len(texts) + 1, "<i8")
    numpy.cumsum([len(text) for text in texts], out=offsets[1:])
    return Strings(offsets, b"".join(texts))


class FileRows(typing.NamedTuple):
    """A file that is one part of a table."""

    place: str
    rows: int


def locate(row: int, place: str, files: tuple[FileRows, ...]) -> tuple[str, int]:
    """Returns the file that contains a row of a table, and the number of the row in the file."""
    for file in files:
        if row < file.rows:
            return file.place, row
        row -= file.rows
    return place, row


@dataclasses.dataclass(frozen=True)
class Keys:
    """The keys of a table. Each call of `batches` yields all keys from the start."""

    kind: str  # int64, uint64 or string
    batches: Callable[[], "Iterator[Array | Strings]"]
    place: str  # source of the keys, for errors
    files: tuple["FileRows", ...] = ()  # the files of the keys, if there are several
    one_a_line: bool = False  # True for a file with one key per line
    may_have_header: bool = False  # True if the first key might be a header
    by_position: bool = True  # True if key i names row i; False if a vocabulary gives the rows
    hint_if_one_lacks: str = ""  # hint for one missing key, if the first key might have been read as a header
    notes: tuple[str, ...] = ()  # notes about the keys to show to the user
    asked: bool = False  # True if --key-dtype gives the dtype
    found: list[str] = dataclasses.field(default_factory=list)  # notes made while the keys are first read


@dataclasses.dataclass(frozen=True)
class Table:
    """A tensor of the input. Each call of `batches` yields arrays of its rows from the start, in the
    storage of its dtype.
    """

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    batches: Callable[[], Iterator[Array]]
    place: str
    keys: Keys | None = None
    notes: tuple[str, ...] = ()  # decisions of the reader to show to the user
    files: tuple["FileRows", ...] = ()  # the files of the rows, if there are several
    columns: tuple[str, ...] = ()  # names of the elements of a row, if they have names
    integers: tuple[bool, ...] = ()  # for each element of a row, True if the input had integers

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.storage.itemsize

    def array(self) -> Array:
        """Reads the whole tensor, for small tensors."""
        batches = list(self.batches())
        return (
            numpy.concatenate(batches).reshape(self.shape)
            if batches
            else numpy.zeros(self.shape, self.dtype.storage)
        )

    @property
    def n_rows(self) -> int:
        return self.shape[0] if self.shape else 1


def rows_per_batch(row_bytes: int) -> int:
    return max(1, BATCH_BYTES // max(1, row_bytes))


def table_of_array(name: str, array: Array, place: str) -> Table:
    """Returns a table of the rows of an array, in memory or mapped."""
    array = numpy.ascontiguousarray(array)
    dtype = dtype_of(array.dtype, place)
    shape = array.shape
    rows = array.astype(dtype.storage, copy=False).reshape(shape if shape else (1,))
    step = rows_per_batch(rows.nbytes // max(1, len(rows)))
    return Table(
        name, dtype, shape, lambda: (rows[i : i + step] for i in range(0, len(rows), step)), place
    )


def read_exactly(stream: typing.IO[bytes], size: int, place: str) -> bytes:
    """Reads `size` bytes from a stream, which can return fewer bytes per read."""
    parts = []
    while size > 0:
        try:
            part = stream.read(size)
        except OSError as e:
            raise Refused(f"{place}: {e.strerror or 'it is damaged'}") from e
        if not part:
            raise Refused(f"{place}: it is truncated; {size} bytes of its rows are missing")
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_rows(
    stream: typing.IO[bytes], shape: tuple[int, ...], storage: "numpy.dtype[Any]", place: str
) -> Iterator[Array]:
    """Yields the rows of a contiguous tensor in batches."""
    inner = shape[1:]
    width = math.prod(inner)
    left = shape[0] if shape else 1
    step = rows_per_batch(width * storage.itemsize) if width else left
    while left > 0:
        n = min(left, step)
        data = read_exactly(stream, n * width * storage.itemsize, place)
        try:
            rows = numpy.frombuffer(data, storage).reshape(n, *inner)
        except ValueError as e:  # An empty tensor has extents that are too large for NumPy.
            raise Refused(f"{place}: the extents of the shape {list(shape)} are too large") from e
        if storage.kind == "b" and data.strip(b"\0\1"):
            value = data.strip(b"\0\1")[0]
            raise Refused(f"{place}: a bool is the byte {value}; expected 0 or 1")
        yield rows
        left -= n


def first_rows(table: Table, count: int) -> Table:
    """Returns the table with only the first `count` rows."""

    def batches() -> Iterator[Array]:
        left = count
        for batch in table.batches():
            if left:
                yield batch[:left]
            left -= min(left, len(batch))

    return dataclasses.replace(table, shape=(count, *table.shape[1:]), batches=batches)


def file_in(folder: pathlib.Path, name: str, place: str) -> pathlib.Path:
    """Returns the path of a file that a document in the folder names. Refuses names that lead to another folder."""
    if pathlib.PurePath(name).name != name:
        raise Refused(f"{place}: {name!r} is not the name of a file in the same folder")
    return folder / name
