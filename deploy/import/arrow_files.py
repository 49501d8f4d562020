"""Reads Parquet, Feather and Arrow IPC: one file, or several files that form one table. Folders named
COLUMN=VALUE, as Hive and Spark create them, add columns.
"""

import contextlib
import json
import os
import pathlib
import typing
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from columns import (
    Columns,
    are_usual_integers,
    check_names,
    dtype_of_type,
    fit,
    index_note,
    is_list,
    is_text,
)
from table import FileRows, Refused

ARROW = (".feather", ".arrow", ".ipc")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@contextlib.contextmanager
def read_errors(path: pathlib.Path) -> Iterator[None]:
    """Refuses a file that Arrow cannot read. Arrow's own message is omitted, because it is about Arrow's code."""
    kind = "Arrow" if path.name.lower().endswith(ARROW) else "Parquet"
    try:
        yield
    except pyarrow.ArrowNotImplementedError as e:
        raise Refused(
            f"{path}: it has an encoding, a compression or a type that pyarrow"
            f" {pyarrow.__version__} cannot read"
        ) from e
    except OSError as e:
        if e.errno:
            raise Refused(f"{path}: {os.strerror(e.errno)}") from e
        raise Refused(f"{path}: it is damaged, encrypted, or not {kind}") from e
    except (pyarrow.ArrowException, UnicodeDecodeError) as e:
        raise Refused(f"{path}: it is damaged, or not {kind}") from e


# ---------------------------------------------------------------- one file
class File(typing.Protocol):
    schema: pyarrow.Schema

    def count(self) -> int: ...

    def batches(self, columns: list[str], size: int) -> Iterator[pyarrow.RecordBatch]: ...


class ParquetFile:
    def __init__(self, file: pyarrow.parquet.ParquetFile) -> None:
        self.file, self.schema = file, file.schema_arrow

    def count(self) -> int:
        return int(self.file.metadata.num_rows)

    def batches(self, columns: list[str], size: int) -> Iterator[pyarrow.RecordBatch]:
        yield from self.file.iter_batches(size, columns=columns)


class ArrowFile:
    """A file in Arrow's file format, which Feather also uses, or in Arrow's stream format."""

    def __init__(self, data: pyarrow.MemoryMappedFile) -> None:
        is_file = data.read(6) == b"ARROW1"
        data.seek(0)
        if is_file:
            reader = pyarrow.ipc.open_file(data)
            self.all = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = pyarrow.ipc.open_stream(data)
            self.all = iter(reader)
        self.schema = reader.schema

    def count(self) -> int:
        return sum(batch.num_rows for batch in self.all)

    def batches(self, columns: list[str], size: int) -> Iterator[pyarrow.RecordBatch]:
        for batch in self.all:
            chosen = batch.select(columns)
            chosen.validate(full=True)  # Without validation, Arrow trusts the offsets in a file.
            for first in range(0, chosen.num_rows, size):
                yield chosen.slice(first, size)


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[File]:
    with read_errors(path):
        if not path.name.lower().endswith(ARROW):
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
                yield ParquetFile(file)
            return
        if not path.stat().st_size:
            raise Refused(f"{path}: it is empty")
        with pyarrow.memory_map(str(path)) as data:
            if data.read(4) == b"FEA1":
                raise Refused(f"{path}: it is Feather version 1; expected Feather version 2 or Parquet")
            data.seek(0)
            yield ArrowFile(data)


def pandas_index(schema: pyarrow.Schema) -> list[Any]:
    """Returns the index of a DataFrame, which pandas describes in the metadata: the names of the index
    columns, or objects that describe a range. A range has no column in the file.
    """
    try:
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    if not isinstance(described, list):
        return []
    return [one for one in described if isinstance(one, dict) or one in schema.names]


def range_note(index: dict[str, Any]) -> str:
    """Returns a note about an index that is a range. An unnamed index that numbers the rows from 0 needs no note."""
    name, start, step = index.get("name"), index.get("start"), index.get("step")
    if name is None and (start, step) == (0, 1):
        return ""
    return (
        f"the index{'' if name is None else f' {name}'} of a pandas DataFrame, a range from {start} in"
        f" steps of {step}, is not stored in the file, and the table has no keys. reset_index() makes it a"
        " column, which --keys can name"
    )


# ---------------------------------------------------------------- partitions
def partition_of(path: pathlib.Path, root: pathlib.Path | None) -> dict[str, str | None]:
    """Returns the columns that the folders below `root` define, with their values for the file `path`."""
    found: dict[str, str | None] = {}
    for folder in path.relative_to(root).parts[:-1] if root else ():
        name, equals, value = folder.partition("=")
        if equals:
            name, value = urllib.parse.unquote(name), urllib.parse.unquote(value)
            if name in found or not name:
                raise Refused(f"{path}: its folders name the column {name!r} twice, or have no column name")
            found[name] = None if value == HIVE_NULL else value
    return found


def partition_schema(partitions: list[dict[str, str | None]]) -> pyarrow.Schema:
    """Returns the columns that folders define. A column is int64 if all its values are integers without
    leading zeros, and text otherwise.
    """
    fields = []
    for name in partitions[0]:
        values = pyarrow.array([partition[name] for partition in partitions], pyarrow.string())
        given = values.drop_null()
        is_int64 = are_usual_integers(given) and fit(given, "int64")
        kind = pyarrow.int64() if is_int64 else pyarrow.string()
        fields.append(pyarrow.field(name, kind))
    return pyarrow.schema(fields)


def common_type(one: pyarrow.DataType, other: pyarrow.DataType) -> pyarrow.DataType | None:
    """Returns a type that holds the numbers, or the lists of numbers, of both types; None if no type does."""
    dtypes = [dtype_of_type(one), dtype_of_type(other)]
    are_tensors = any(isinstance(kind, pyarrow.BaseExtensionType) for kind in (one, other))
    if None in dtypes or are_tensors or is_list(one) != is_list(other):
        return None
    is_float = any(dtype.is_float for dtype in dtypes if dtype)
    kind = pyarrow.float64() if is_float else pyarrow.int64()
    return pyarrow.list_(kind) if is_list(one) else kind


def common_schema(
    schema: pyarrow.Schema,
    place: str,
    first: pyarrow.Schema,
    first_place: str,
    converts: bool,
    keys: str | None,
) -> pyarrow.Schema:
    """Checks the columns of another file against the first file, and returns the common schema.

    The names must be the same, in any order. The types must be the same, except for numbers that are converted later, and
    for keys that are integers.
    """
    check_names(schema.names, place)
    for a, a_place, b, b_place in (
        (schema, place, first, first_place),
        (first, first_place, schema, place),
    ):
        for name in a.names:
            if name not in b.names:
                index = (
                    "; it is the index of a DataFrame, which df.to_parquet(FILE, index=False) leaves out"
                    if name.startswith("__index_level_")
                    else ""
                )
                raise Refused(
                    f"{place}: column {name} is in {a_place}, but not in {b_place}; expected the same"
                    f" columns in each file{index}"
                )
    fields = {field.name: field for field in first}
    for field in schema:
        expected = first.field(field.name).type
        if field.type == expected:
            continue
        is_key, column = field.name == keys, f"df[{field.name!r}]"
        as_text = f"; all keys must have one dtype. To make them text, use {column} = {column}.astype(str)"
        integers = all(map(pyarrow.types.is_integer, (field.type, expected)))
        common = common_type(field.type, expected) if integers or not is_key else None
        if not common or not (is_key or converts):
            raise Refused(
                f"{place}: column {field.name} is of type {field.type}; expected {expected}, as in"
                f" {first_place}"
                + ("; --dtype float32 or float64 converts both" if common else "")
                + (as_text if is_key and any(map(is_text, (field.type, expected))) else "")
            )
        fields[field.name] = field.with_type(common)
    return pyarrow.schema(fields.values(), first.metadata)


class ArrowFiles(Columns):
    def __init__(
        self,
        paths: list[pathlib.Path],
        root: pathlib.Path | None,
        converts: bool,
        keys: str | None,
    ) -> None:
        """Opens the files. If `converts`, the dtypes of numbers can differ. `keys` is the column of keys, if any."""
        super().__init__()
        self.paths = paths
        self.place = str(root or paths[0])
        self.parts: list[FileRows] = []
        self.partitions = [partition_of(path, root) for path in paths]
        for path, partition in zip(paths, self.partitions):
            if list(partition) != list(self.partitions[0]):
                raise Refused(
                    f"{path}: its folders name the columns {', '.join(partition) or 'none'};"
                    f" expected {', '.join(self.partitions[0]) or 'none'}, as in {paths[0]}"
                )
        for path in paths:
            with opened(path) as file:
                if path == paths[0]:
                    schema = file.schema
                    check_names(schema.names, str(path))
                else:
                    schema = common_schema(
                        file.schema, str(path), schema, str(paths[0]), converts, keys
                    )
                self.parts.append(FileRows(str(path), file.count()))
        partitions = partition_schema(self.partitions)
        for name in partitions.names:
            if name in schema.names:
                raise Refused(
                    f"{paths[0]}: column {name} is in the file and in the names of its folders. To use"
                    " the column of the files, pass the files instead of the folder"
                )
        self.schema = pyarrow.schema([*schema, *partitions])
        self.left_out = {
            name: index_note(name) for name in pandas_index(schema) if isinstance(name, str)
        } | {
            name: f"column {name} comes from the names of folders and is not part of the rows; --keys or"
            " --rows can name it"
            for name in partitions.names
        }
        ranges = [index for index in pandas_index(schema) if isinstance(index, dict)]
        self.absent = {
            name: f"{name} is the index of a pandas DataFrame, a range that is not stored in the"
            " file; reset_index() makes it a column"
            for index in ranges
            if isinstance(name := index.get("name"), str)
        }
        self.keyless_notes = [
            f"{self.place}: {note}" for note in map(range_note, ranges) if note
        ]

    def count(self) -> int:
        return sum(part.rows for part in self.parts)

    def files(self) -> tuple[FileRows, ...]:
        return tuple(self.parts) if len(self.parts) > 1 else ()

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        for path, partition in zip(self.paths, self.partitions):
            stored = [name for name in columns if name not in partition]
            row = 0
            with opened(path) as file:
                for batch in file.batches(stored, size):
                    yield self.with_partition(batch, columns, partition), str(path), row
                    row += batch.num_rows

    def with_partition(
        self, batch: pyarrow.RecordBatch, columns: list[str], partition: dict[str, str | None]
    ) -> pyarrow.RecordBatch:
        if not any(name in partition for name in columns):
            return batch
        arrays = []
        for name in columns:
            if name in partition:
                value = pyarrow.scalar(partition[name], pyarrow.string())
                kind = self.schema.field(name).type
                arrays.append(pyarrow.repeat(value, batch.num_rows).cast(kind))
            else:
                arrays.append(batch.column(name))
        return pyarrow.RecordBatch.from_arrays(arrays, columns)
