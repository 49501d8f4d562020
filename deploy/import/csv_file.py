"""Reads CSV and TSV. The first line names the columns, unless --no-header is given. Numbers are read as
float64 and everything else as text, because the file does not specify dtypes.
"""

import csv
import io
import pathlib
import re
from collections.abc import Iterator

import pyarrow
import pyarrow.compute
import pyarrow.csv

from columns import (
    IDENTIFIER,
    MOST_COUNTED,
    Columns,
    are_usual_integers,
    check_large_texts,
    check_names,
    first_refused,
    fit,
    number_hint,
    to_numbers,
    whereabouts,
)
from keys import (
    FRACTION,
    FRACTIONS,
    INTEGER_AS_FLOAT,
    INTEGER_KINDS,
    TOO_WIDE,
    float_note,
    worst_float,
)
from table import Refused, RowRefused
from text import CsvFormat, check_utf8, cut_notes, is_number, open_text, option, shown, without_thousands

TSV = (".tsv", ".tsv.gz")
DELIMITERS = (",", ";", "\t", "|")
BLOCK = 4 << 20  # number of bytes that are parsed at a time, and maximum size of a row
QUOTED_BYTES = 1 << 20  # maximum size of a quoted field; in a longer field, a closing quote is missing
WRONG_COLUMNS = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


class Csv(Columns):
    def __init__(
        self,
        path: pathlib.Path,
        rows: tuple[str, ...],
        keys: str | None,
        key_kind: str | None,
        form: CsvFormat = CsvFormat(),
    ) -> None:
        super().__init__()
        self.path, self.place = path, str(path)
        is_tsv = path.name.lower().endswith(TSV)
        self.delimiter = form.delimiter or ("\t" if is_tsv else ",")
        self.quoted = not is_tsv if form.quote is None else form.quote
        self.decimal = form.decimal or "."
        self.has_header = form.header is not False
        self.names: list[str] | None = None  # names of the columns if the first line is a row
        self.one_column = False
        self.only_line = b""
        self.starts_empty = False
        self.check_first_line(form.delimiter is None)
        if self.quoted:
            self.notes += check_quotes(path, self.delimiter)
        elif form.quote is None:
            self.note_quotes()
        found = self.first_block()
        if self.has_header and form.header is None:
            self.check_header(found.names, bool(rows))
        hint = self.header_hint
        if sum(map(bool, found.names)) == 1 < len(found.names) - 1:
            hint = f". If the first line, {self.first_line(found.names)}, is a title, remove it"
        elif is_only_last_empty(found.names):
            hint = f". If each line ends with {shown(self.delimiter)}, remove it there"
        check_names(found.names, self.place, True, hint)
        if not found.names[0]:
            self.left_out[""] = (
                "the first column has no name, like the index that pandas writes, and is not part of"
                " the rows; to use it as keys, pass --keys ''"
            )
        self.one_column = len(found) == 1
        if self.one_column and self.starts_empty and self.has_header:
            raise Refused(f"{self.place}: the first line is empty; expected the name of the column")
        self.schema = pyarrow.schema([(f.name, column_type(f, rows, keys)) for f in found])
        self.rows, first_key = self.survey(keys, key_kind)
        if self.may_lack_header and keys is not None and differ_in_numbers(keys, first_key):
            self.note_header(found.names)
        if form.decimal is None:
            self.note_thousands(rows)
        elif form.decimal == ",":
            self.note_decimal_commas(rows)
        self.note_leading_zeros(rows, keys)
        self.notes += cut_notes(path)

    # ---------------------------------------------------------------- the first block
    def first_block(self) -> pyarrow.Schema:
        """Returns the names of the columns, with the types that Arrow infers from the first block."""
        with open_text(self.path) as file:
            start = file.read(BLOCK)
        if not start.strip(b"\r\n"):
            expected = "a first line of column names" if self.has_header else "rows"
            raise Refused(f"{self.place}: it is empty; expected {expected}")
        self.starts_empty = start.startswith((b"\r", b"\n"))
        if len(start) < BLOCK and not re.search(rb"[\r\n]", start):
            self.only_line = start + b"\n"  # Arrow ignores a line without a line break.
        try:
            with self.open({}, None) as reader:
                schema = reader.schema
                schema.names  # Decodes the names, which can fail.
        except pyarrow.ArrowInvalid as e:
            raise self.fault([]) from e
        except UnicodeDecodeError as e:
            with open_text(self.path) as file:
                check_utf8(file.readline(), f"{self.place}, line 1")
            raise Refused(f"{self.place}: the names of its columns are not UTF-8") from e
        if not self.has_header:
            self.names = [str(i) for i in range(len(schema))]
            schema = pyarrow.schema([f.with_name(n) for f, n in zip(schema, self.names)])
        return schema

    def check_first_line(self, is_default_delimiter: bool) -> None:
        with open_text(self.path) as file:
            line, second = file.readline(BLOCK).strip(), file.readline(BLOCK).strip()
        if re.fullmatch(b"sep=.", line):
            raise Refused(
                f"{self.place}: the first line, {shown(line)}, is for Excel; remove it, so that the"
                " first line contains the names of the columns"
            )
        others = (*DELIMITERS, " ") if has_spaces(line, second) else DELIMITERS
        for other in others if is_default_delimiter else ():
            if self.delimiter.encode() not in line and other.encode() in line:
                raise Refused(
                    f"{self.place}: the first line, {shown(line)}, has no {shown(self.delimiter)};"
                    f" if {shown(other)} separates the columns, use --delimiter {shown(other)}"
                )

    def check_header(self, names: list[str], are_rows_chosen: bool) -> None:
        """Refuses a first line of numbers, and adds a note about a first line with some numbers, because it
        might be a row of a file without column names. Consecutive numbers are accepted as names: pandas
        names columns 0, 1, 2, and columns can be years.
        """
        self.may_lack_header = True
        numbers = [name for name in names if looks_like_number(name)]
        if not numbers:
            return
        self.header_hint = ". If the first line is a row, use --no-header"
        if len(numbers) == len(names):
            self.header_is_doubtful = True
            if not are_rows_chosen and not are_consecutive(names, (0, 1)):
                raise Refused(
                    f"{self.place}: the first line, {self.first_line(names)}, has only numbers; expected"
                    " the names of the columns. Use --no-header if it is a row, or --header if these are names"
                )
        else:
            others = [name for name in names if name not in numbers]
            are_named = all(not name or IDENTIFIER.fullmatch(name) for name in others)
            # One or two consecutive numbers beside a text that could be a key do not tell names from a row.
            is_count = are_consecutive(numbers) and (are_named or len(numbers) > 2)
            self.header_is_doubtful = not is_count
        if self.header_is_doubtful:
            self.note_header(names)

    def note_header(self, names: list[str]) -> None:
        note = (
            f"{self.place}: the first line, {self.first_line(names)}, is read as names of columns;"
            " --no-header reads it as a row, and --header hides this note"
        )
        if note not in self.notes:
            self.notes.append(note)

    def first_line(self, names: list[str]) -> str:
        return shown(self.delimiter.join(names))

    def note_thousands(self, rows: tuple[str, ...]) -> None:
        """Adds a note about a column in which each point might separate thousands. The note is added only if
        the file seems to have decimal commas: its columns are separated by semicolons, or another column
        has decimal commas.
        """
        names = self.schema.names
        batch = next((b for b, _, _ in self.typed(dict.fromkeys(names, pyarrow.binary()))), None)
        if batch is None:
            return
        if self.delimiter != ";" and not any(
            are_all(batch.column(name), r"\A *-?[0-9]+,[0-9]+ *\z") for name in names
        ):
            return
        for name in names:
            is_row = name in rows if rows else name not in self.left_out
            if (
                is_row
                and self.schema.field(name).type == pyarrow.float64()
                and are_all(batch.column(name), r"\A *-?[1-9][0-9]{0,2}\.[0-9]{3} *\z")
            ):
                first = shown(batch.column(name).drop_null()[0].as_py().strip())
                self.notes.append(
                    f"{self.place}: the numbers in column {name}, such as {first}, have three digits"
                    " after the point, which is read as a decimal point; if it separates thousands,"
                    " remove it. --decimal . hides this note"
                )

    def note_leading_zeros(self, rows: tuple[str, ...], keys: str | None) -> None:
        """Adds a note about a column of numbers in which a value such as 007 is probably a code, not a number."""
        numbers = (pyarrow.types.is_integer, pyarrow.types.is_floating)
        names = [
            field.name
            for field in self.schema
            if any(kind(field.type) for kind in numbers)
            and field.name != keys
            and (field.name in rows if rows else field.name not in self.left_out)
        ]
        batch = next((b for b, _, _ in self.typed(dict.fromkeys(names, pyarrow.binary()))), None)
        if batch is None:
            return
        for name in names:
            padded = pyarrow.compute.match_substring_regex(batch.column(name), r"\A *-?0[0-9]+ *\z")
            at = pyarrow.compute.index(padded, True).as_py()
            if at >= 0:
                code = shown(batch.column(name)[at].as_py().strip())
                self.notes.append(
                    f"{self.place}: column {name} has leading zeros, such as {code}, which numbers"
                    f" lose; if it is a code that names the row, {option('--keys', name)} keeps the zeros"
                )

    def note_decimal_commas(self, rows: tuple[str, ...]) -> None:
        """Adds a note about a column in which each comma might separate thousands, despite --decimal ,."""
        fields = [field.name for field in self.schema if field.type == pyarrow.float64()]
        names = [name for name in fields if (name in rows if rows else name not in self.left_out)]
        commas: dict[str, str] = {}  # the first number with a comma in each column
        for batch, _, _ in self.typed(dict.fromkeys(names, pyarrow.binary())):
            for name in names.copy():
                column = batch.column(name)
                if not are_all(column, r"\A *-?([0-9]{1,3}|[1-9][0-9]{0,2},[0-9]{3}) *\z", least=0):
                    names.remove(name)
                elif name not in commas:
                    matches = pyarrow.compute.match_substring(column, ",")
                    at = pyarrow.compute.index(matches, True).as_py()
                    if at >= 0:
                        commas[name] = shown(column[at].as_py().strip())
            if not names:
                break
        for name in filter(commas.get, names):
            self.notes.append(
                f"{self.place}: the numbers in column {name}, such as {commas[name]}, have three digits"
                " after the comma, which is read as a decimal point; if it separates thousands,"
                f" {without_thousands(',')}"
            )

    def note_quotes(self) -> None:
        """Adds a note about fields of TSV that seem to be quoted."""
        with open_text(self.path) as file:
            lines = file.read(BLOCK)
        field = re.search(rb'(?:\A|[\t\r\n])("[^\t\r\n]*")[\t\r\n]', lines)
        if field:
            line = lines.count(b"\n", 0, field.start(1)) + 1
            self.notes.append(
                f"{self.place}, line {line}: {shown(field[1])} is read with its quotes; --quote"
                " reads quoted fields, and --no-quote hides this note"
            )

    # ---------------------------------------------------------------- batches
    def open(
        self,
        types: dict[str, pyarrow.DataType],
        columns: list[str] | None,
        use_threads: bool = True,
    ) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(  # The reader closes the file.
            pyarrow.PythonFile(
                io.BytesIO(self.only_line) if self.only_line else open_text(self.path), "r"
            ),
            pyarrow.csv.ReadOptions(
                block_size=BLOCK,
                use_threads=use_threads,
                column_names=self.names,
                autogenerate_column_names=not self.has_header and self.names is None,
            ),
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
                decimal_point=self.decimal,
                # A missing key differs from "", which is empty text.
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

    def check_large(self, columns: list[str]) -> None:
        for batch, file, first in self.typed({name: pyarrow.string() for name in columns}):
            for name in columns:
                place = f"{file}, column {name}"
                try:
                    check_large_texts(batch.column(name), place, first, self.decimal)
                except RowRefused as e:
                    raise Refused(f"{e}{whereabouts(self, e.row, file)}") from e

    def survey(self, keys: str | None, key_kind: str | None) -> tuple[int, str]:
        """Returns the number of rows and the first key. Determines the dtype of the keys: int64 or uint64 if
        all are integers without leading zeros.
        """
        is_key = keys is not None and keys in self.schema.names
        name: str = keys if keys is not None and is_key else self.schema.names[0]
        kinds = INTEGER_KINDS if is_key and key_kind is None else ()
        integers = floats = fractions = bool(kinds)
        worst = b""
        rows, empty, first_key = 0, -1, ""
        for batch, _, first in self.typed({name: pyarrow.string() if is_key else pyarrow.binary()}):
            if is_key and not rows and batch.num_rows:
                first_key = batch.column(0)[0].as_py() or ""
            rows += batch.num_rows
            at = pyarrow.compute.index(batch.column(0), "").as_py() if is_key and empty < 0 else -1
            empty = first + at if at >= 0 else empty
            integers = integers and are_usual_integers(batch.column(0))
            kinds = tuple(kind for kind in kinds if integers and fit(batch.column(0), kind))
            floats = floats and are_floats(batch.column(0))
            fractions = fractions and are_all(batch.column(0), with_commas(FRACTION), least=0)
            if floats and batch.num_rows:
                texts = [text.encode() for text in batch.column(0).drop_null().to_pylist()]
                worst = worst_float([*texts, worst])
        if kinds and rows:
            at = self.schema.get_field_index(name)
            field = pyarrow.field(name, pyarrow.type_for_alias(kinds[0]))
            self.schema = self.schema.set(at, field)
        elif (integers or floats or fractions) and rows:
            reason = TOO_WIDE if integers else float_note(worst) if floats else FRACTIONS
            self.notes.append(f"{self.place}: the keys in column {name} are text, {reason}")
        if is_key and self.one_column and empty >= 0:
            self.notes.append(
                f"{self.place}: the key of row {empty} is empty text, \"\"; in a file of one column, pandas"
                " writes a missing value like this"
            )
        return rows, first_key

    # ---------------------------------------------------------------- errors
    def line_of(self, row: int) -> int | None:
        if self.only_line or row >= MOST_COUNTED:
            return None
        with open_text(self.path) as file:
            text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
            if self.quoted:
                lines = csv.reader(text, delimiter=self.delimiter)
            else:
                lines = csv.reader(text, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)
            start, left = 1, row + self.has_header
            try:
                for fields in lines:
                    is_row = bool(fields) or self.one_column  # Other empty lines are ignored.
                    if is_row and left == 0:
                        return start
                    left -= is_row
                    start = lines.line_num + 1
            except csv.Error:  # such as a field of more than 128 KiB
                pass
        return None

    def fault(self, columns: list[str]) -> Refused:
        """Returns the error for a file that Arrow refused. Reads the file again to find the place."""
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
            f"{self.place}: row {row} or a later row cannot be read; a row can have at most {BLOCK}"
            " bytes"
        )

    def wrong_columns(self, number: str, expected: str, actual: str, text: str) -> Refused:
        hint = "; --quote reads quoted fields" if '"' in text and not self.quoted else ""
        with open_text(self.path) as file:
            first = next(filter(None, map(bytes.strip, file.read(BLOCK).splitlines())), b"")
        if first.startswith(b"#"):
            hint = "; if the first line is a comment, remove it"
        return Refused(
            f"{self.place}: row {int(number) - 1 - self.has_header}, {shown(text)}, has {actual} column"
            f"{'s' if actual != '1' else ''}; expected {expected}, as the first line, {shown(first)},"
            f" has{hint}"
        )

    def check_values(self, column: pyarrow.Array, name: str, first: int) -> None:
        place = f"{self.place}, column {name}"
        row = first_refused(column, lambda values: values.cast(pyarrow.string()))
        if row is not None:
            check_utf8(column[row].as_py(), f"{place}: row {first + row}")
        if self.schema.field(name).type != pyarrow.float64():
            return
        row = first_refused(column, lambda texts: to_numbers(texts, self.decimal))
        if row is not None:
            value = column[row].as_py().decode()
            raise Refused(
                f"{place}: row {first + row} is {shown(value)}; expected a number"
                f"{number_hint(value, self.decimal, not self.has_keys)}"
                f"{whereabouts(self, first + row, self.place)}"
            )


def has_spaces(line: bytes, second: bytes) -> bool:
    """True if spaces probably separate columns, with names in the first line and numbers in the second."""
    names, (first, *numbers) = line.split(b" "), second.split(b" ")
    is_table = len(numbers) > 1 or is_number(first)
    return len(names) == 1 + len(numbers) > 1 and is_table and all(map(is_number, numbers))


def column_type(field: pyarrow.Field, rows: tuple[str, ...], keys: str | None) -> pyarrow.DataType:
    """Returns float64 if the command line or the first block makes the column numbers, and otherwise text."""
    types = pyarrow.types
    inferred = types.is_integer(field.type) or types.is_floating(field.type)
    if field.name != keys and (field.name in rows or inferred or types.is_null(field.type)):
        return pyarrow.float64()
    return pyarrow.string()


def are_floats(column: pyarrow.Array) -> bool:
    """True if all texts are integers written as floats, such as 7.0 or 1.23E+12, perhaps with decimal commas."""
    return are_all(column, with_commas(INTEGER_AS_FLOAT), least=0)


def with_commas(pattern: str) -> str:
    """Returns the pattern for a whole text, with a comma also accepted as decimal separator."""
    return "\\A" + pattern.replace("\\.", "[.,]") + "\\z"


def are_all(column: pyarrow.Array, pattern: str, least: int = 1) -> bool:
    """True if all texts match the pattern and there are at least `least` texts."""
    matches = pyarrow.compute.match_substring_regex(column, pattern)
    return bool(pyarrow.compute.all(matches, min_count=least).as_py())


def looks_like_number(name: str) -> bool:
    """True for text that could be meant as a number, also in unsupported notations."""
    try:
        float(name.replace(",", "."))
    except ValueError:
        return False
    return any(map(str.isdigit, name))


def differ_in_numbers(name: str, key: str) -> bool:
    """True for texts that differ only in their numbers, such as doc0 and doc1."""
    digits = re.compile("[0-9]+")
    return bool(digits.search(name)) and digits.sub("0", name) == digits.sub("0", key)


def is_only_last_empty(names: list[str]) -> bool:
    """True if only names at the end are empty."""
    found = [bool(name) for name in names]
    return found[0] and not found[-1] and found == sorted(found, reverse=True)


def are_consecutive(names: list[str], first: tuple[int, ...] = ()) -> bool:
    """True for consecutive increasing integers. Unless `first` is empty, they must start at one of its values."""
    if not all(re.fullmatch("[0-9]{1,9}", name) for name in names):
        return False
    start = int(names[0])
    return [*map(int, names)] == [*range(start, start + len(names))] and (
        not first or start in first
    )


# ---------------------------------------------------------------- quotes
def check_quotes(path: pathlib.Path, delimiter: str) -> list[str]:
    """Refuses quoted fields that are not closed or are followed by text, because Arrow would silently
    join fields and lines. Returns a note if quoted fields contain line breaks.
    """
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    # A match starts only after the end of a field, so text between matches is not quoted.
    field = re.compile(rb'(?<=[%s])"[^"]*(?:""[^"]*)*("?)' % ends)
    after = re.compile(rb"[%s]|\Z" % ends)
    buffer, line, broken, first_broken = b"\n", 0, 0, 0
    with open_text(path) as file:
        while True:
            block = file.read(QUOTED_BYTES)
            buffer += block
            end = len(buffer) - bool(block)  # The last byte is kept, because a quote might follow it.
            for match in field.finditer(buffer) if b'"' in buffer else ():
                if match.end() == len(buffer) and block:  # The rest of the field is in the next block.
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
                    f" {QUOTED_BYTES} bytes, the maximum; if the quote is part of the text, use --no-quote"
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
