"""Parquet: one file, or several files that are the parts of one table."""

import contextlib
import json
import pathlib
from collections.abc import Iterator

import pyarrow
import pyarrow.parquet

from columns import Columns, check_names
from table import FileRows, Refused


@contextlib.contextmanager
def read_errors(path: pathlib.Path) -> Iterator[None]:
    """Refuses a file that Arrow cannot read. Arrow's own messages describe its code, not the file."""
    try:
        yield
    except pyarrow.ArrowNotImplementedError as e:
        raise Refused(
            f"{path}: it has an encoding, a compression or a type that pyarrow"
            f" {pyarrow.__version__} cannot read"
        ) from e
    except OSError as e:
        if e.errno:  # of the system, which names the file
            raise
        raise Refused(f"{path}: it is damaged, encrypted, or not Parquet") from e
    except (pyarrow.ArrowException, UnicodeDecodeError) as e:
        raise Refused(f"{path}: it is damaged, or not Parquet") from e


def pandas_index(schema: pyarrow.Schema) -> list[str]:
    """The columns that hold the index of a DataFrame, as pandas describes them in the metadata."""
    try:
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    if not isinstance(described, list):
        return []
    return [name for name in described if isinstance(name, str) and name in schema.names]


class Parquet(Columns):
    def __init__(self, paths: list[pathlib.Path]) -> None:
        super().__init__()
        self.paths = paths
        self.place = str(paths[0]) if len(paths) == 1 else str(paths[0].parent)
        self.parts: list[FileRows] = []
        for path in paths:
            with read_errors(path), self.open(path) as file:
                schema = file.schema_arrow
                names = schema.names
                self.parts.append(FileRows(str(path), file.metadata.num_rows))
            if path == paths[0]:
                check_names(names, str(path))
                self.schema = schema
            elif schema.types != self.schema.types or names != self.schema.names:
                raise Refused(f"{path}: its columns are not the columns of {paths[0]}")
        self.left_out = {
            name: f"column {name} is the index of a pandas DataFrame, and not part of the rows;"
            " --keys or --rows can name it"
            for name in pandas_index(self.schema)
        }

    @staticmethod
    def open(path: pathlib.Path) -> pyarrow.parquet.ParquetFile:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def count(self) -> int:
        return sum(part.rows for part in self.parts)

    def files(self) -> tuple[FileRows, ...]:
        return tuple(self.parts) if len(self.parts) > 1 else ()

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        for path in self.paths:
            row = 0
            with read_errors(path), self.open(path) as file:
                for batch in file.iter_batches(size, columns=columns):
                    yield batch, str(path), row
                    row += batch.num_rows
