"""CSV and TSV."""

import contextlib
import pathlib
from collections.abc import Iterator

import pyarrow
import pyarrow.csv

from columns import Columns, check_names
from table import Refused
from text import open_text

TSV = (".tsv", ".tsv.gz")


@contextlib.contextmanager
def arrow_errors(place: str) -> Iterator[None]:
    """What Arrow cannot read is refused."""
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as e:
        raise Refused(f"{place}: {e}") from e


class Csv(Columns):
    """The first line names the columns. Numbers are read as float64, all else is text: a number of
    CSV has no dtype.
    """

    def __init__(self, path: pathlib.Path, rows: tuple[str, ...], keys: str | None) -> None:
        super().__init__()
        self.path, self.place = path, str(path)
        self.parse = pyarrow.csv.ParseOptions(
            delimiter="\t" if path.name.lower().endswith(TSV) else ",", newlines_in_values=True
        )
        with arrow_errors(self.place), self.open({}, None, 1 << 20) as reader:
            names = reader.schema.names
        check_names(names, self.place, first_may_be_empty=True)
        if not names[0]:
            self.left_out[""] = (
                "the first column has no name: it is the index that pandas writes, and not part of"
                " the rows"
            )
        numbers = rows or [name for name in names if name != keys]
        self.schema = pyarrow.schema(
            [(name, pyarrow.float64() if name in numbers else pyarrow.string()) for name in names]
        )

    def open(
        self, types: dict[str, pyarrow.DataType], columns: list[str] | None, block: int
    ) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(  # which closes the file
            pyarrow.PythonFile(open_text(self.path), "r"),
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
        with (
            arrow_errors(self.place),
            self.open(
                {name: self.schema.field(name).type for name in columns}, columns, 4 << 20
            ) as reader,
        ):
            row = 0
            for batch in reader:
                yield batch, self.place, row
                row += batch.num_rows
