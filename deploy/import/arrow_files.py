"""Parquet, Feather and Arrow IPC: one file, or the files of a folder that make one table. Folders
named COLUMN=VALUE, as Hive and Spark make them, are columns, too.
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
    """Refuses a file that Arrow cannot read, without Arrow's message, which is about its code."""
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
    """Arrow's file format, which is also Feather, or its stream format."""

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
            chosen.validate(full=True)  # Arrow trusts the offsets in a file
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
                raise Refused(f"{path}: it is Feather of version 1; expected version 2 or Parquet")
            data.seek(0)
            yield ArrowFile(data)


def pandas_index(schema: pyarrow.Schema) -> list[Any]:
    """The index of a DataFrame, as pandas describes it in the metadata: the names of its columns, or
    objects that describe a range, which has no column.
    """
    try:
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    if not isinstance(described, list):
        return []
    return [one for one in described if isinstance(one, dict) or one in schema.names]


def range_note(index: dict[str, Any]) -> str:
    """About an index that is a range, unless it numbers the rows from 0 and has no name."""
    name, start, step = index.get("name"), index.get("start"), index.get("step")
    if name is None and (start, step) == (0, 1):
        return ""
    return (
        f"the index{'' if name is None else f' {name}'} of a pandas DataFrame, a range from {start} in"
        f" steps of {step}, is not stored in the file, and the table has no keys; reset_index() makes a"
        " column of it, which --keys can name"
    )


# ---------------------------------------------------------------- partitions
def partition_of(path: pathlib.Path, root: pathlib.Path | None) -> dict[str, str | None]:
    """The columns that the folders below `root` name, and their values in the file `path`."""
    found: dict[str, str | None] = {}
    for folder in path.relative_to(root).parts[:-1] if root else ():
        name, equals, value = folder.partition("=")
        if equals:
            name, value = urllib.parse.unquote(name), urllib.parse.unquote(value)
            if name in found or not name:
                raise Refused(f"{path}: its folders name the column {name!r} twice or not at all")
            found[name] = None if value == HIVE_NULL else value
    return found


def partition_schema(partitions: list[dict[str, str | None]]) -> pyarrow.Schema:
    """Values are int64 if all are integers in their usual form, and text otherwise."""
    fields = []
    for name in partitions[0]:
        values = pyarrow.array([partition[name] for partition in partitions], pyarrow.string())
        given = values.drop_null()
        is_int64 = are_usual_integers(given) and fit(given, "int64")
        kind = pyarrow.int64() if is_int64 else pyarrow.string()
        fields.append(pyarrow.field(name, kind))
    return pyarrow.schema(fields)


def common_type(one: pyarrow.DataType, other: pyarrow.DataType) -> pyarrow.DataType | None:
    """The type of a column that has numbers, or lists of numbers, of both types, or None."""
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
    """The columns of the first file; those of another file have the same names, in any order, and
    the same types unless they are numbers that are converted later, or keys that are integers.
    """
    check_names(schema.names, place)
    for a, a_place, b, b_place in (
        (schema, place, first, first_place),
        (first, first_place, schema, place),
    ):
        for name in a.names:
            if name not in b.names:
                index = (
                    "; it is the index of pandas, which df.to_parquet(FILE, index=False) leaves out"
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
        as_text = f"; keys have one dtype: {column} = {column}.astype(str) makes text of them"
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
        """`converts`: the dtypes of numbers may differ; `keys` is the column of keys, if any."""
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
                    f"{paths[0]}: column {name} is in the file and in the names of its folders; to take"
                    " the column of the files, name the files instead of the folder"
                )
        self.schema = pyarrow.schema([*schema, *partitions])
        self.left_out = {
            name: index_note(name) for name in pandas_index(schema) if isinstance(name, str)
        } | {
            name: f"column {name} is in the names of folders, and not part of the rows; --keys or"
            " --rows can name it"
            for name in partitions.names
        }
        ranges = [index for index in pandas_index(schema) if isinstance(index, dict)]
        self.absent = {
            name: f"{name} is the index of a pandas DataFrame, a range that is not stored in the"
            " file; reset_index() makes a column of it"
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
