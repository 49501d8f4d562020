"""CSV and TSV: the first line names the columns. Numbers are read as float64 and everything else as
text, because the file does not tell dtypes.
"""

import io
import pathlib
import re
from collections.abc import Iterator

import pyarrow
import pyarrow.compute
import pyarrow.csv

from columns import (
    Columns,
    are_integers,
    check_names,
    check_overflow,
    first_refused,
    number_hint,
    to_numbers,
)
from table import Refused
from text import check_utf8, cut_notes, is_number, open_text, shown

TSV = (".tsv", ".tsv.gz")
DELIMITERS = (",", ";", "\t", "|")
BLOCK = 4 << 20  # bytes that are parsed at a time; a row cannot be longer
QUOTED_BYTES = 1 << 20  # of a quoted field at most: a longer one is a quote that is not closed
WRONG_COLUMNS = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


class Csv(Columns):
    def __init__(
        self,
        path: pathlib.Path,
        rows: tuple[str, ...],
        keys: str | None,
        key_kind: str | None,
        delimiter: str | None = None,
        quote: bool | None = None,
    ) -> None:
        super().__init__()
        self.path, self.place = path, str(path)
        is_tsv = path.name.lower().endswith(TSV)
        self.delimiter = delimiter or ("\t" if is_tsv else ",")
        self.quoted = not is_tsv if quote is None else quote
        self.one_column = False
        self.only_line = b""
        self.starts_empty = False
        self.check_first_line(delimiter is None)
        if self.quoted:
            self.notes += check_quotes(path, self.delimiter)
        elif quote is None:
            self.note_quotes()
        found = self.first_block()
        if not rows:
            self.check_header(found.names)
        check_names(found.names, self.place, first_may_be_empty=True)
        if not found.names[0]:
            self.left_out[""] = (
                "the first column has no name: it is the index that pandas writes, and not part of"
                " the rows; --keys '' takes it as keys"
            )
        self.one_column = len(found) == 1
        if self.one_column and self.starts_empty:
            raise Refused(f"{self.place}: the first line is empty; expected the name of the column")
        self.schema = pyarrow.schema([(f.name, column_type(f, rows, keys)) for f in found])
        self.rows = self.survey(keys, key_kind)
        self.notes += cut_notes(path)

    # ---------------------------------------------------------------- the first block
    def first_block(self) -> pyarrow.Schema:
        """The names of the columns, with the types that Arrow infers from the first block."""
        with open_text(self.path) as file:
            start = file.read(BLOCK)
        if not start.strip(b"\r\n"):
            raise Refused(f"{self.place}: it is empty; expected a first line of column names")
        self.starts_empty = start.startswith((b"\r", b"\n"))
        if len(start) < BLOCK and not re.search(rb"[\r\n]", start):
            self.only_line = start + b"\n"  # without which Arrow does not read it
        try:
            with self.open({}, None) as reader:
                schema = reader.schema
                schema.names  # decodes them
                return schema
        except pyarrow.ArrowInvalid as e:
            raise self.fault([]) from e
        except UnicodeDecodeError as e:
            with open_text(self.path) as file:
                check_utf8(file.readline(), f"{self.place}, line 1")
            raise Refused(f"{self.place}: the names of its columns are not UTF-8") from e

    def check_first_line(self, is_default_delimiter: bool) -> None:
        with open_text(self.path) as file:
            line = file.readline(BLOCK).strip()
        if re.fullmatch(b"sep=.", line):
            raise Refused(
                f"{self.place}: the first line, {shown(line)}, is for Excel; remove it, so that the"
                " first line has the names of the columns"
            )
        for other in DELIMITERS if is_default_delimiter else ():
            if self.delimiter.encode() not in line and other.encode() in line:
                raise Refused(
                    f"{self.place}: the first line, {shown(line)}, has no {shown(self.delimiter)};"
                    f" if {shown(other)} separates the columns, use --delimiter {shown(other)}"
                )

    def check_header(self, names: list[str]) -> None:
        """Refuses a first line of numbers: it is the first row of a file without names of columns,
        unless its numbers are those that pandas gives to columns without names.
        """
        integers = [re.fullmatch("[0-9]+", name) for name in names]
        numbers = [any(map(str.isdigit, name)) and is_number(name) for name in names]
        line = shown(self.delimiter.join(names))
        counted = [[str(i + first) for i in range(len(names))] for first in (0, 1)]
        if all(numbers) and names not in counted:
            raise Refused(
                f"{self.place}: the first line, {line}, has only numbers; expected the names of the"
                " columns: write a line of names before it. If these are names, --rows takes them"
            )
        if all(numbers) or any(n and not i for n, i in zip(numbers, integers)):
            self.notes.append(f"{self.place}: the first line, {line}, is read as names of columns")

    def note_quotes(self) -> None:
        """Notes fields of TSV that seem to be quoted."""
        with open_text(self.path) as file:
            lines = file.read(BLOCK)
        field = re.search(rb'(?:\A|[\t\r\n])("[^\t\r\n]*")[\t\r\n]', lines)
        if field:
            line = lines.count(b"\n", 0, field.start(1)) + 1
            self.notes.append(
                f"{self.place}, line {line}: {shown(field[1])} is read with its quotes; --quote"
                " reads quoted fields, --no-quote hides this note"
            )

    # ---------------------------------------------------------------- batches
    def open(
        self,
        types: dict[str, pyarrow.DataType],
        columns: list[str] | None,
        use_threads: bool = True,
    ) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(  # which closes the file
            pyarrow.PythonFile(
                io.BytesIO(self.only_line) if self.only_line else open_text(self.path), "r"
            ),
            pyarrow.csv.ReadOptions(block_size=BLOCK, use_threads=use_threads),
            pyarrow.csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char='"' if self.quoted else False,
                newlines_in_values=self.quoted,
                ignore_empty_lines=not self.one_column,
            ),
            pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],
                # A key that is missing, and "", which is empty text, differ.
                strings_can_be_null=True,
                quoted_strings_can_be_null=not types or pyarrow.float64() in types.values(),
            ),
        )

    def count(self) -> int:
        return self.rows

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        yield from self.typed({name: self.schema.field(name).type for name in columns})

    def typed(
        self, types: dict[str, pyarrow.DataType]
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        row = 0
        try:
            with self.open(types, list(types)) as reader:
                for batch in reader:
                    yield batch, self.place, row
                    row += batch.num_rows
        except pyarrow.ArrowInvalid as e:
            raise self.fault(list(types)) from e

    def check_infinities(self, columns: list[str]) -> None:
        for batch, file, first in self.typed({name: pyarrow.string() for name in columns}):
            for name in columns:
                check_overflow(batch.column(name), f"{file}, column {name}", first)

    def survey(self, keys: str | None, key_kind: str | None) -> int:
        """Counts the rows. Keys are int64 if all of them are integers in their usual form."""
        is_key = keys is not None and keys in self.schema.names
        name: str = keys if keys is not None and is_key else self.schema.names[0]
        integers = floats = is_key and key_kind is None
        rows = 0
        for batch, _, _ in self.typed({name: pyarrow.string() if is_key else pyarrow.binary()}):
            rows += batch.num_rows
            integers = integers and are_integers(batch.column(0))
            floats = floats and are_floats(batch.column(0))
        if integers and rows:
            at = self.schema.get_field_index(name)
            self.schema = self.schema.set(at, pyarrow.field(name, pyarrow.int64()))
        elif floats and rows:
            self.notes.append(
                f"{self.place}: the keys in column {name} are text, because they are written as"
                " numbers such as 7.0 or 1e9; --key-dtype string hides this note"
            )
        return rows

    # ---------------------------------------------------------------- errors
    def fault(self, columns: list[str]) -> Refused:
        """Returns the error for a file that Arrow refused: reads it again to find the place."""
        row = 0
        try:
            types = {name: pyarrow.binary() for name in columns}
            # Without threads, Arrow counts the rows.
            with self.open(types, columns or None, use_threads=False) as reader:
                for batch in reader:
                    for name in columns:
                        self.check_values(batch.column(name), name, row)
                    row += batch.num_rows
        except pyarrow.ArrowInvalid as e:
            if found := WRONG_COLUMNS.search(str(e)):
                return self.wrong_columns(*found.groups())
        except Refused as e:
            return e
        return Refused(
            f"{self.place}: row {row} or a row after it cannot be read; a row has at most {BLOCK}"
            " bytes"
        )

    def wrong_columns(self, number: str, expected: str, actual: str, text: str) -> Refused:
        hint = "; --quote reads quoted fields" if '"' in text and not self.quoted else ""
        return Refused(
            f"{self.place}: row {int(number) - 2} has {actual} column"
            f"{'s' if actual != '1' else ''}; expected {expected}, as in the first line:"
            f" {shown(text)}{hint}"
        )

    def check_values(self, column: pyarrow.Array, name: str, first: int) -> None:
        place = f"{self.place}, column {name}"
        row = first_refused(column, lambda values: values.cast(pyarrow.string()))
        if row is not None:
            check_utf8(column[row].as_py(), f"{place}: row {first + row}")
        if self.schema.field(name).type != pyarrow.float64():
            return
        row = first_refused(column, to_numbers)
        if row is not None:
            value = column[row].as_py().decode()
            raise Refused(
                f"{place}: row {first + row} is {shown(value)}; expected a number"
                f"{number_hint(value)}"
            )


def column_type(field: pyarrow.Field, rows: tuple[str, ...], keys: str | None) -> pyarrow.DataType:
    """Text, or float64 if the command line or the first block makes it numbers."""
    types = pyarrow.types
    inferred = types.is_integer(field.type) or types.is_floating(field.type)
    if field.name in rows or (field.name != keys and (inferred or types.is_null(field.type))):
        return pyarrow.float64()
    return pyarrow.string()


def are_floats(column: pyarrow.Array) -> bool:
    """True if all texts are such as 7.0, which pandas makes of integers if one of them is missing, or
    1.23E+12, which Excel makes of long integers.
    """
    matches = pyarrow.compute.match_substring_regex(
        column, r"\A-?[0-9]+(\.0|(\.[0-9]+)?[eE]\+?[0-9]+)\z"
    )
    return bool(pyarrow.compute.all(matches, min_count=0).as_py())


# ---------------------------------------------------------------- quotes
def check_quotes(path: pathlib.Path, delimiter: str) -> list[str]:
    """Refuses quoted fields that are not closed, or have text after them: Arrow would join fields,
    and lines, without an error. Returns a note if line breaks are quoted.
    """
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    # A field ends before each match, so that the text between matches is not quoted.
    field = re.compile(rb'(?<=[%s])"[^"]*(?:""[^"]*)*("?)' % ends)
    after = re.compile(rb"[%s]|\Z" % ends)
    buffer, line, broken, first_broken = b"\n", 0, 0, 0
    with open_text(path) as file:
        while True:
            block = file.read(QUOTED_BYTES)
            buffer += block
            end = len(buffer) - bool(block)  # the last byte may be before a quote
            for match in field.finditer(buffer) if b'"' in buffer else ():
                if match.end() == len(buffer) and block:  # the next block has the rest
                    end = match.start() - 1
                    break
                if not match[1] or not after.match(buffer, match.end()):
                    end = match.start() - 1
                    raise quote_fault(path, line + buffer.count(b"\n", 0, match.start()), match)
                if b"\n" in match[0] or b"\r" in match[0]:
                    first_broken = first_broken or line + buffer.count(b"\n", 0, match.start())
                    broken += 1
            if len(buffer) - end > 2 * QUOTED_BYTES:
                at = line + buffer.count(b"\n", 0, end + 1)
                raise Refused(
                    f"{path}, line {at}: a quoted field starts here and has more than"
                    f" {QUOTED_BYTES} bytes; if the quote is part of the text, use --no-quote"
                )
            line += buffer.count(b"\n", 0, end)
            buffer = buffer[end:]
            if not block:
                break
    if not broken:
        return []
    return [
        f"{path}: {broken} quoted field{'s have' if broken > 1 else ' has'} line breaks, the first"
        f" in line {first_broken}; if quotes are part of the text, use --no-quote"
    ]


def quote_fault(path: pathlib.Path, line: int, match: re.Match[bytes]) -> Refused:
    what = "has text after its closing quote" if match[1] else "is not closed"
    return Refused(
        f"{path}, line {line}: the quoted field {shown(match[0])} {what}; a quote inside a quoted"
        ' field is written "". If quotes are part of the text, use --no-quote'
    )
