"""Parquet and CSV: a table of some columns, keyed by another one. Rows are read in batches, the
columns of keys and of rows one after the other, so that neither has to fit into memory.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from keys import kind_of
from table import BATCH_KEYS, DTYPES, Array, Dtype, Keys, Refused, Strings, Table, rows_per_batch


@contextlib.contextmanager
def arrow_errors(place: str) -> Iterator[None]:
    """What Arrow cannot read is refused."""
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as e:
        raise Refused(f"{place}: {e}") from e


class Columns:
    """The files of one input, and the columns that all of them have."""

    schema: pyarrow.Schema
    place: str

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        """Batches of these columns, the name of the file and the number of the first row in it."""
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError


class Parquet(Columns):
    def __init__(self, paths: list[pathlib.Path]) -> None:
        self.paths = paths
        self.place = str(paths[0]) if len(paths) == 1 else str(paths[0].parent)
        self.schema = self.open(paths[0]).schema_arrow
        self.rows = 0
        for path in paths:
            with self.open(path) as file:
                self.rows += file.metadata.num_rows
                if (
                    file.schema_arrow.types != self.schema.types
                    or file.schema_arrow.names != self.schema.names
                ):
                    raise Refused(f"{path}: its columns are not those of {paths[0]}")

    @staticmethod
    def open(path: pathlib.Path) -> pyarrow.parquet.ParquetFile:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def count(self) -> int:
        return self.rows

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        for path in self.paths:
            with self.open(path) as file:
                row = 0
                for batch in file.iter_batches(size, columns=columns):
                    yield batch, str(path), row
                    row += batch.num_rows


TSV = (".tsv", ".tsv.gz")


class Csv(Columns):
    """The first line names the columns. Numbers are read as float64, all else is text: a number of
    CSV has no dtype.
    """

    def __init__(self, path: pathlib.Path, rows: tuple[str, ...], keys: str | None) -> None:
        self.path, self.place = path, str(path)
        self.parse = pyarrow.csv.ParseOptions(
            delimiter="\t" if path.name.lower().endswith(TSV) else ",", newlines_in_values=True
        )
        with self.open({}, None, 1 << 20) as reader:
            names = reader.schema.names
        numbers = rows or [name for name in names if name != keys]
        self.schema = pyarrow.schema(
            [(name, pyarrow.float64() if name in numbers else pyarrow.string()) for name in names]
        )

    def open(
        self, types: dict[str, pyarrow.DataType], columns: list[str] | None, block: int
    ) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            self.path,
            pyarrow.csv.ReadOptions(block_size=block),
            self.parse,
            pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=False,
            ),
        )

    def count(self) -> int:
        return sum(batch.num_rows for batch, _, _ in self.batches(self.schema.names[:1], 0))

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        with self.open(
            {name: self.schema.field(name).type for name in columns}, columns, 4 << 20
        ) as reader:
            row = 0
            for batch in reader:
                yield batch, self.place, row
                row += batch.num_rows


# ---------------------------------------------------------------- values of a column
def storage_of(column: pyarrow.Array) -> pyarrow.Array:
    return column.storage if isinstance(column.type, pyarrow.BaseExtensionType) else column


def is_list(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def first_null(column: pyarrow.Array) -> int:
    return int(pyarrow.compute.index(column.is_null(), True).as_py())


@dataclasses.dataclass(frozen=True)
class Column:
    """Reads the values of a column of numbers, or of lists of numbers: an array [rows] or [rows,
    width].
    """

    name: str
    dtype: Dtype
    width: int | None  # None: one number a row

    def read(self, batch: pyarrow.RecordBatch, file: str, first: int) -> Array:
        column = storage_of(batch.column(self.name))
        place = f"{file}, column {self.name}"
        if column.null_count:
            raise Refused(f"{place}: row {first + first_null(column)} has no value")
        if self.width is None:
            return self.numbers(column)
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != self.width).any():
            row = int(numpy.argmax(lengths != self.width))
            raise Refused(
                f"{place}: row {first + row} has {lengths[row]} elements; expected {self.width}, as"
                " in the first row"
            )
        values = column.flatten()
        if values.null_count:
            row, at = divmod(first_null(values), self.width)
            raise Refused(f"{place}: element {at} of row {first + row} has no value")
        return self.numbers(values).reshape(len(column), self.width)

    def numbers(self, values: pyarrow.Array) -> Array:
        array: Array = values.to_numpy(zero_copy_only=False)
        return array.astype(self.dtype.storage, copy=False)


def column_of(columns: Columns, name: str) -> Column:
    """The column, with the width of the first row."""
    kind = columns.schema.field(name).type
    if isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
    element = kind.value_type if is_list(kind) else kind
    dtype = DTYPES.get(
        {"halffloat": "float16", "float": "float32", "double": "float64"}.get(
            str(element), str(element)
        )
    )
    if dtype is None:
        raise Refused(
            f"{columns.place}, column {name}: the type is {kind}; expected numbers, or lists of"
            " numbers"
        )
    return Column(name, dtype, first_width(columns, name, kind) if is_list(kind) else None)


def first_width(columns: Columns, name: str, kind: pyarrow.DataType) -> int:
    if pyarrow.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch, file, _ in columns.batches([name], 1):
        if batch.num_rows:
            value = storage_of(batch.column(name))[0]
            if not value.is_valid:
                raise Refused(f"{file}, column {name}: row 0 has no value")
            return len(value)
    return 0


# ---------------------------------------------------------------- keys
def keys_of_column(columns: Columns, name: str, asked: str | None) -> Keys:
    place = f"{columns.place}, column {name}"
    kind = columns.schema.field(name).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    types = pyarrow.types
    text = any(
        f(value)
        for f in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
        )
    )
    if not text and not types.is_integer(value):
        raise Refused(f"{place}: keys are of type {kind}; expected integers or strings")
    given = asked or ("string" if text else kind_of(numpy.dtype(str(value)), place))
    target = pyarrow.large_string() if given == "string" else pyarrow.type_for_alias(given)

    def batches() -> Iterator[Array | Strings]:
        with arrow_errors(place):
            for batch, file, first in columns.batches([name], BATCH_KEYS):
                column = batch.column(0)
                where = f"{file}, column {name}"
                if column.null_count:
                    raise Refused(f"{where}: row {first + first_null(column)} has no key")
                column = cast_keys(
                    column, value, target, f"{where}, rows {first} to {first + len(column) - 1}"
                )
                yield strings_of_column(column) if given == "string" else column.to_numpy()

    return Keys(given, batches, place)


def cast_keys(
    column: pyarrow.Array, value: pyarrow.DataType, target: pyarrow.DataType, where: str
) -> pyarrow.Array:
    try:
        if column.type != value:  # a dictionary
            column = column.cast(value)
        return column.cast(target)
    except pyarrow.ArrowInvalid as e:
        raise Refused(f"{where}: {e}") from e


def strings_of_column(column: pyarrow.Array) -> Strings:
    if not len(column):
        return Strings(numpy.zeros(1, "<i8"), b"")
    _, offset_buffer, data = column.buffers()
    offsets = numpy.frombuffer(offset_buffer, "<i8")[
        column.offset : column.offset + len(column) + 1
    ]
    content = (
        data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes() if data else b""
    )
    return Strings(offsets - offsets[0], content)


# ---------------------------------------------------------------- the table
def read(
    paths: list[pathlib.Path],
    rows: tuple[str, ...],
    keys: str | None,
    key_kind: str | None,
    is_csv: bool,
) -> Table:
    """The table of some columns: by default the only one of lists, or else all but that of the
    keys.
    """
    place = str(paths[0])
    with arrow_errors(place):
        columns = Csv(paths[0], rows, keys) if is_csv else Parquet(paths)
        names = columns.schema.names
        for name in (*rows, *([keys] if keys else [])):
            if names.count(name) != 1:
                raise Refused(
                    f"{place}: there {'are several columns' if name in names else 'is no column'}"
                    f" {name}; it has {', '.join(names)}"
                )
        return table_of(
            columns,
            list(rows) or default_rows(columns, keys),
            keys_of_column(columns, keys, key_kind) if keys else None,
        )


def table_of(columns: Columns, chosen: list[str], keys: Keys | None) -> Table:
    parts = [column_of(columns, name) for name in chosen]
    for part in parts:
        if part.dtype != parts[0].dtype:
            raise Refused(
                f"{columns.place}: column {part.name} is {part.dtype.name}, but column"
                f" {parts[0].name} is {parts[0].dtype.name}; --rows chooses columns of one dtype"
            )
        if part.width is not None and len(parts) > 1:
            raise Refused(
                f"{columns.place}: column {part.name} has lists; --rows takes one column of lists,"
                " or several of numbers"
            )
    width = parts[0].width if len(parts) == 1 else len(parts)
    shape = (columns.count(),) if width is None else (columns.count(), width)
    size = rows_per_batch((width or 1) * parts[0].dtype.storage.itemsize)

    def batches() -> Iterator[Array]:
        with arrow_errors(columns.place):
            for batch, file, first in columns.batches(chosen, size):
                arrays = [part.read(batch, file, first) for part in parts]
                yield arrays[0] if len(arrays) == 1 else numpy.stack(arrays, axis=1)

    return Table(
        chosen[0] if len(parts) == 1 else "rows",
        parts[0].dtype,
        shape,
        batches,
        columns.place,
        keys,
    )


def default_rows(columns: Columns, keys: str | None) -> list[str]:
    fields = [field for field in columns.schema if field.name != keys]
    lists = [
        field.name
        for field in fields
        if is_list(field.type) or isinstance(field.type, pyarrow.BaseExtensionType)
    ]
    if len(lists) > 1:
        raise Refused(
            f"{columns.place}: there are several columns of lists, {', '.join(lists)}; --rows"
            " chooses one"
        )
    names = lists or [field.name for field in fields]
    if not names:
        raise Refused(f"{columns.place}: there is no column of rows")
    return names
