"""Makes a table from columns of an input, with the keys in another column, whatever the input's format.
Rows are read in batches, and keys and rows are read in separate passes, so neither has to fit in
memory.
"""

import collections
import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator

import numpy
import pyarrow
import pyarrow.compute

from keys import INTEGER_TEXT, PADDED_TEXT, USUAL_INTEGER, float_texts, is_float, kind_of, note_padded
from table import (
    BATCH_KEYS,
    DTYPES,
    Array,
    Dtype,
    FileRows,
    Keys,
    Refused,
    RowRefused,
    Strings,
    Table,
    rows_per_batch,
)
from text import (
    MISSING_MARKS,
    MISSING_WORDS,
    THOUSANDS,
    TOO_LARGE,
    is_number,
    join_list,
    option,
    shown,
    spelling_hint,
    split_list,
)

EXACT = 1 << 53  # float64 represents all integers up to this value exactly
INEXACT = (
    "floats are exact only for integers up to 2**53. For a column of identifiers, use --keys, or leave"
    " it out of --rows"
)
# Pattern of column names that probably hold keys.
IDENTIFIER = re.compile(
    r"(?i:(.*[_ .-])?(id|uid|uuid|guid|key)s?"
    r"|(article|book|customer|doc|document|entity|film|image|item|movie|node|object|page|post|product"
    r"|record|row|session|song|token|track|user|video|word)id"
    r"|idx|index|item|pk|sku)"
    r"|.*[a-z](Id|ID|Key)"
)
PANDAS_FLOATS = (
    "; pandas converts a column of integers to floats if a value is missing. Fill the value or remove"
    " the row, then use astype('int64'). Floats have rounded integers above 2**53, so"
    " write these as integers at their source"
)
MOST_SHOWN = 5  # maximum number of columns in an error
MOST_COUNTED = 1 << 20  # an error shows the line of a row only for smaller row numbers
IS_KEY = "; the column has the keys, which --keys names, and --rows names the other columns"
NO_KEYS = ", and the table has no keys; --keys names the column of keys"
OTHER_ROWS = "; --rows chooses the columns of the rows"
FILL = "fill it, or remove the row"
SHORTENED = (
    "is text that was shortened when it was written, so the numbers at ... are not in the file. Write"
    " it again from the arrays, as Parquet"
)
PANDAS_INDEX = re.compile(r"Unnamed: 0|__index_level_[0-9]+__")  # names that pandas gives the index in a file
RESET_INDEX = re.compile("index|level_[0-9]+")  # names that reset_index() gives the first columns


class Columns:
    """The columns of one input. Each file format has a subclass."""

    schema: pyarrow.Schema
    place: str

    def __init__(self) -> None:
        self.notes: list[str] = []
        # Columns that are part of the rows only if --rows names them, with the reason.
        self.left_out: dict[str, str] = {}
        # Names that look like columns of the input but are not, with the reason.
        self.absent: dict[str, str] = {}
        # Notes for a table without keys.
        self.keyless_notes: list[str] = []
        # For formats with names in each row: the line of the first use of each column that row 0 lacks.
        self.origins: dict[str, str] = {}
        # False if the first line is a row. True for formats with names in each row.
        self.has_header = True
        # Hint for errors about a column that does not exist.
        self.header_hint = ""
        # True if the first line is read as names but might be a row.
        self.may_lack_header = False
        # True if the first line, read as names, is probably a row.
        self.header_is_doubtful = False
        # Decimal separator of numbers in text; None for formats where it is fixed.
        self.decimal: str | None = None
        # The column with the keys. Errors about a row show its key.
        self.keys: str | None = None
        # True if the table has keys, from a column or from another file.
        self.has_keys = False

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        """Yields batches of these columns, each with the name of its file and the number of its first row in the file."""
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def check_large(self, columns: list[str]) -> None:
        """Refuses numbers that float64 cannot hold, in text formats: numbers that are too large, which
        are read as infinite like the text "inf", and 64-bit integers that are rounded.
        """

    def line_of(self, row: int) -> int | None:
        """Returns the line in which a row starts, in text formats. None if reading up to it would take long."""
        return None

    def files(self) -> tuple[FileRows, ...]:
        """Returns the files in order if there are several, otherwise nothing."""
        return ()


def check_names(
    names: list[str], place: str, first_may_be_empty: bool = False, hint: str = ""
) -> None:
    """Refuses names of columns that are empty or not unique."""
    faults = [
        f"columns {listed(i for i, other in enumerate(names, 1) if other == name)} are"
        f" {'both' if count == 2 else 'all'} named {name!r}"
        for name, count in collections.Counter(names).items()
        if name and count > 1
    ]
    empty = [
        i for i, name in enumerate(names, 1) if not name and not (first_may_be_empty and i == 1)
    ]
    if empty:
        faults.append(
            f"column{'s' if len(empty) > 1 else ''} {listed(empty)}"
            f" {'have' if len(empty) > 1 else 'has'} no name"
        )
    if faults:
        raise Refused(f"{place}: {'; '.join(faults)}. Expected a different name for each column{hint}")


def listed(items: Iterable[object]) -> str:
    """Formats items for a sentence, such as "1, 2 and 5"."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


# ---------------------------------------------------------------- values that are not numbers
def first_refused(
    column: pyarrow.Array, convert: Callable[[pyarrow.Array], pyarrow.Array]
) -> int | None:
    """Returns the position of the first value that `convert` refuses, or None if it accepts all values."""

    def fails(begin: int, end: int) -> bool:
        try:
            convert(column.slice(begin, end - begin))
        except pyarrow.ArrowInvalid:
            return True
        return False

    begin, end = 0, len(column)
    if not fails(begin, end):
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        if fails(begin, middle):
            end = middle
        else:
            begin = middle
    return begin


def to_numbers(texts: pyarrow.Array, decimal: str | None = None) -> pyarrow.Array:
    """Converts CSV text to float64. Spaces around a number are allowed, and empty text is a missing value."""
    trimmed = pyarrow.compute.ascii_trim(texts.cast(pyarrow.string()), " \t")
    if decimal == ",":  # A point is then invalid.
        points = pyarrow.compute.replace_substring(trimmed, ".", "point")
        trimmed = pyarrow.compute.replace_substring(points, ",", ".")
    missing = pyarrow.compute.equal(trimmed, "")
    return pyarrow.compute.if_else(missing, None, trimmed).cast(pyarrow.float64())


def check_large_texts(texts: pyarrow.Array, place: str, first: int, decimal: str | None) -> None:
    """Refuses finite numbers that are infinite as float64, and integers that float64 rounds. `first` is
    the row number of the first text.
    """
    integers = pyarrow.compute.match_substring_regex(texts, r"\A *[-+]?[0-9]{16,20} *\z")
    for row in numpy.flatnonzero(integers.fill_null(False).to_numpy(zero_copy_only=False)):
        check_exact(int(texts[row].as_py()), f"{place}: row {first + row}")
    digits = pyarrow.compute.match_substring_regex(texts, "[0-9]")
    too_large = pyarrow.compute.and_(digits, pyarrow.compute.is_inf(to_numbers(texts, decimal)))
    row = pyarrow.compute.index(too_large, True).as_py()
    if row >= 0:
        value = shown(texts[row].as_py())
        raise RowRefused(f"{place}: row {first + row} is {value}; {TOO_LARGE}", first + row)


def check_exact(value: int, place: str) -> None:
    """Refuses a 64-bit integer if float64 rounds it. Such an integer is probably an identifier."""
    if abs(value) < 1 << 64 and int(float(value)) != value:
        raise Refused(f"{place} has the integer {value}; {INEXACT}. To have it rounded, write {value}.0")


def text_hint(name: str, text: str) -> str:
    """Returns advice on converting a column of text like `text`, in JSON or NumPy notation, to lists."""
    if is_shortened(text):
        return SHORTENED
    try:
        json.loads(text)
        function = "json.loads"
    except (ValueError, RecursionError):
        separator = "," if "," in text else None
        pieces = map(str.strip, text.strip("[]").split(separator))
        if not all(map(is_number, pieces)):  # NumPy would stop at the first piece that is not a number.
            return "is text; write it again from the lists, as Parquet"
        function = f"lambda x: numpy.fromstring(x.strip('[]'), sep={separator or ' '!r})"
    return f"is text; convert it to lists with df[{name!r}] = df[{name!r}].map({function})"


def is_shortened(text: str) -> bool:
    """True for an array that NumPy or PyTorch shortened, such as [ 1.82 0.62 ... 0.12]."""
    return bool(re.match(r"\s*(array|tensor)?\(?\[.*\.\.\.", text, re.DOTALL))


def is_accounting(value: str, decimal: str | None) -> bool:
    """True for a negative number in accounting notation, which uses parentheses."""
    number = value[1:-1].strip()
    return value[:1] + value[-1:] == "()" and (
        is_number(number.replace(",", ".") if decimal == "," else number)
        or any(re.fullmatch(pattern, number) for pattern in THOUSANDS.values())
    )


def number_hint(value: str, decimal: str | None = None, keyless: bool = True) -> str:
    """Returns a hint for text where a number is expected. `keyless` is true for a table without keys."""
    value = value.strip()
    if value.upper() in (*MISSING_WORDS, *MISSING_MARKS) or (
        re.fullmatch("#[A-Z/0]+[!?]", value)  # error values of Excel
    ):
        return "; a row with a missing value cannot be imported. Fill the value, or remove the row"
    if value.lower() in ("true", "false"):
        return "; write true as 1 and false as 0"
    if re.fullmatch(r"\(?[-+\d.,]+ ?%\)?", value):
        return "; write 5% as 0.05" + (", and (5) as -5" if "(" in value else "")
    if value.startswith("\u2212"):
        return "; the minus sign must be -, not the character \u2212 (U+2212)"
    if re.search("[$€£¥]", value) and re.fullmatch(r"[-+(]*[\s$€£¥]*[-+]?[\d.,]+[\s$€£¥]*\)?", value):
        return "; write numbers without the currency" + (", and (5) as -5" if "(" in value else "")
    if is_accounting(value, decimal):
        return (
            "; a number in parentheses is negative in accounting. Write (5) as -5; with pandas,"
            " df['NAME'] = df['NAME'].str.replace(r'^\\((.*)\\)$', r'-\\1', regex=True)"
        )
    if value.endswith("-") and is_number(value[:-1]):
        return "; write the minus sign first, 5- as -5"
    if is_shortened(value):
        return f"; it {SHORTENED}"
    if re.match(r"[\[{]|\(.*[,; ]", value) and decimal:
        return "; lists can be imported only from Parquet or JSON Lines. In CSV, each number needs its own column"
    if value.startswith("["):
        return f"; it {text_hint('NAME', value)}"
    if separator := separator_of_list(value):
        return (
            "; in CSV, each number of a list needs its own column. With pandas, use"
            f" df['NAME'].str.split({separator!r}, expand=True)"
        )
    return spelling_hint(value, decimal) or (
        "; choose the columns of numbers with --rows"
        + (", and the column of keys with --keys" if keyless else "")
    )


def separator_of_list(value: str) -> str | None:
    """Returns the separator of a list of numbers in one cell; None if it might group the digits of a number."""
    for separator in "|", ";", ",", " ":
        first, *others = (part.strip() for part in value.split(separator))
        least = 1 if separator in "|;" else 2
        grouped = all(re.fullmatch("[0-9]{3}(\\.[0-9]+)?", part) for part in others)
        if len(others) >= least and not grouped and all(map(is_number, (first, *others))):
            return separator
    return None


# ---------------------------------------------------------------- values of a column
def storage_of(column: pyarrow.Array) -> pyarrow.Array:
    return column.storage if isinstance(column.type, pyarrow.BaseExtensionType) else column


def storage_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    return kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind


def is_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def is_list(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def first_null(column: pyarrow.Array) -> int:
    return int(pyarrow.compute.index(column.is_null(), True).as_py())


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of numbers, of lists of numbers, or of tensors of one shape. read() returns an array
    [rows, *inner].
    """

    name: str
    dtype: Dtype
    width: int | None  # number of elements in a row; None for a column of numbers
    inner: tuple[int, ...]  # shape of a row
    origin: str = ""  # text about the first use of the column, if that is not in row 0

    def read(self, batch: pyarrow.RecordBatch, file: str, first: int) -> Array:
        column = storage_of(batch.column(self.name))
        place = f"{file}, column {self.name}"
        if column.null_count:
            row = first + first_null(column)
            raise RowRefused(f"{place}: row {row} has no value{self.origin}; {FILL}", row)
        if self.width is None:
            return self.numbers(column, place, first)
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != self.width).any():
            row = int(numpy.argmax(lengths != self.width))
            raise RowRefused(
                f"{place}: row {first + row} has {lengths[row]} elements; expected {self.width}, as"
                " in the first row",
                first + row,
            )
        values = column.flatten()
        if values.null_count:
            row, at = divmod(first_null(values), self.width)
            raise RowRefused(f"{place}: element {at} of row {first + row} has no value; {FILL}", first + row)
        return self.numbers(values, place, first).reshape(len(column), *self.inner)

    def numbers(self, values: pyarrow.Array, place: str, first: int) -> Array:
        array: Array = values.to_numpy(zero_copy_only=False)
        if array.dtype.kind in "iu" and self.dtype.is_float:
            inexact = (array > EXACT) | (array < -EXACT if array.dtype.kind == "i" else False)
            if inexact.any():
                at = int(numpy.argmax(inexact))
                row = first + at // (self.width or 1)
                raise RowRefused(f"{place}: row {row} has the integer {array[at]}; {INEXACT}", row)
        return array.astype(self.dtype.storage, copy=False)


def dtype_of_type(kind: pyarrow.DataType) -> Dtype | None:
    """Returns the dtype of a column of numbers or lists of numbers, or None for another type."""
    kind = storage_type(kind)
    name = str(kind.value_type if is_list(kind) else kind)
    return DTYPES.get(
        {"halffloat": "float16", "float": "float32", "double": "float64"}.get(name, name)
    )


def column_of(columns: Columns, name: str, keys: str | None) -> Column:
    """Returns the column `name`. The first row determines its width."""
    given = columns.schema.field(name).type
    kind = storage_type(given)
    dtype = dtype_of_type(kind)
    if dtype is None:
        hint = type_hint(name, kind) or list_hint(columns, name, kind)
        hint = hint or (OTHER_ROWS if is_list(kind) else "")
        raise Refused(
            f"{columns.place}, column {name}: the type is {kind}; expected numbers, or lists of"
            f" numbers{IS_KEY if name == keys else hint}"
        )
    if not is_list(kind):
        return Column(name, dtype, None, (), origin_of(columns, name))
    width = first_width(columns, name, kind)
    inner = shape_of_tensors(given, f"{columns.place}, column {name}") or (width,)
    return Column(name, dtype, width, inner, origin_of(columns, name))


def origin_of(columns: Columns, name: str) -> str:
    origin = columns.origins.get(name)
    return f"; {clear(name)} appears first in {origin}" if origin else ""


def list_hint(columns: Columns, name: str, kind: pyarrow.DataType) -> str:
    """Returns a hint for lists that were written as text."""
    if not is_text(kind):
        return ""
    for batch, _, _ in columns.batches([name], BATCH_KEYS):
        text = next(filter(None, batch.column(0).cast(pyarrow.string()).to_pylist()), "")
        if text.startswith("[") or is_shortened(text):
            return f"; {shown(text)} {text_hint(name, text)}"
        break
    return ""


def shape_of_tensors(kind: pyarrow.DataType, place: str) -> tuple[int, ...] | None:
    """Returns the shape of the tensors in a column of Arrow tensors, or None for another column."""
    if not isinstance(kind, pyarrow.FixedShapeTensorType):
        return None
    if list(kind.permutation or ()) not in ([], list(range(len(kind.shape)))):
        raise Refused(
            f"{place}: the dimensions of its tensors are permuted, {list(kind.permutation)}; expected"
            " tensors in row-major order"
        )
    return tuple(kind.shape)


def first_width(columns: Columns, name: str, kind: pyarrow.DataType) -> int:
    if pyarrow.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch, file, _ in columns.batches([name], 1):
        if batch.num_rows:
            value = storage_of(batch.column(name))[0]
            if not value.is_valid:
                raise Refused(
                    f"{file}, column {name}: row 0 has no value{origin_of(columns, name)}; {FILL}"
                )
            return len(value)
    raise Refused(
        f"{columns.place}, column {name}: there are no rows, so the length of the lists is unknown"
    )


# ---------------------------------------------------------------- keys
def are_usual_integers(column: pyarrow.Array) -> bool:
    """True if all texts are integers without leading zeros."""
    matches = pyarrow.compute.match_substring_regex(column, rf"\A({USUAL_INTEGER})\z")
    return bool(pyarrow.compute.all(matches, min_count=0).as_py())


def fit(column: pyarrow.Array, kind: str) -> bool:
    """True if the dtype `kind` can hold all the integers in the column of text."""
    target = pyarrow.type_for_alias(kind)
    return first_refused(column, lambda values: values.cast(target)) is None


def keys_of_column(columns: Columns, name: str, asked: str | None) -> Keys:
    place = f"{columns.place}, column {clear(name)}"
    kind = columns.schema.field(name).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if pyarrow.types.is_null(value) and columns.count():
        raise Refused(f"{place}: row 0 has no key")
    text = is_text(value) or is_binary(value) or is_uuid(value)
    if not text and not pyarrow.types.is_integer(value):
        raise Refused(
            f"{place}: keys are of type {kind}; expected integers or strings"
            + (PANDAS_FLOATS if pyarrow.types.is_floating(value) else "")
            + ("; convert dates to text with astype('string')" if pyarrow.types.is_temporal(value) else "")
            + ("; convert them to integers with astype('int64')" if pyarrow.types.is_decimal(value) else "")
        )
    given = asked or ("string" if text else kind_of(numpy.dtype(str(value)), place))
    target = pyarrow.large_string() if given == "string" else pyarrow.type_for_alias(given)
    found: list[str] = []

    def batches() -> Iterator[Array | Strings]:
        for batch, file, first in columns.batches([name], BATCH_KEYS):
            column = batch.column(0)
            if pyarrow.types.is_dictionary(kind):  # The values of a dictionary can be null.
                column = column.dictionary_decode()
            where = f"{file}, column {clear(name)}"
            if column.null_count:
                raise Refused(f"{where}: row {first + first_null(column)} has no key")
            given_keys = uuid_texts(column) if is_uuid(value) else column
            column = cast_keys(given_keys, target, where, first)
            if text and given != "string":
                padded = first_match(given_keys, PADDED_TEXT)
                if padded >= 0:
                    key = given_keys.cast(pyarrow.large_string())[padded].as_py()
                    note_padded(found, f"{where}: row {first + padded}", key)
            yield strings_of_column(column) if given == "string" else column.to_numpy()

    files = (FileRows(f"{file.place}, column {clear(name)}", file.rows) for file in columns.files())
    return Keys(
        given,
        batches,
        place,
        tuple(files),
        may_have_header=not columns.has_header,
        hint_if_one_lacks=no_header_hint(columns, name),
        asked=asked is not None,
        found=found,
    )


def no_header_hint(columns: Columns, name: str) -> str:
    if not columns.may_lack_header:
        return ""
    at = columns.schema.names.index(name)
    return f". If the first line is a row, with the key {shown(name)}, use --no-header --keys {at}"


def first_match(column: pyarrow.Array, pattern: str, matches: bool = True) -> int:
    """Returns the position of the first text that matches the pattern, or with `matches` False, that does not match; -1 if
    no text does.
    """
    texts = column.cast(pyarrow.large_string())
    found = pyarrow.compute.match_substring_regex(texts, rf"\A({pattern})\z")
    return int(pyarrow.compute.index(found, matches).as_py())


def is_uuid(kind: pyarrow.DataType) -> bool:
    return isinstance(kind, pyarrow.UuidType)


def uuid_texts(column: pyarrow.Array) -> pyarrow.Array:
    """Returns UUIDs as text in canonical form, such as 123e4567-e89b-12d3-a456-426614174000."""
    return pyarrow.array([str(key) for key in column.to_pylist()], pyarrow.large_string())


def cast_keys(
    column: pyarrow.Array, target: pyarrow.DataType, place: str, first: int
) -> pyarrow.Array:
    """Converts keys to integers or text. Refuses the first key that does not fit."""

    def cast(keys: pyarrow.Array) -> pyarrow.Array:
        if target != pyarrow.large_string() and not pyarrow.types.is_integer(keys.type):
            keys = keys.cast(pyarrow.large_string())
            if first_match(keys, INTEGER_TEXT, False) >= 0:
                raise pyarrow.ArrowInvalid  # Arrow would convert text such as 0x1f.
        return keys.cast(target)

    row = first_refused(column, cast)
    if row is None:
        return cast(column)
    key = column[row].as_py()
    if target == pyarrow.large_string():
        expected = "UTF-8 text; convert binary keys to text, for example to hexadecimal"
    else:
        expected = str(target)
        if isinstance(key, str) and is_float(key.encode()):
            expected += float_texts(key.encode())
    raise Refused(
        f"{place}: row {first + row} is {key if isinstance(key, int) else shown(key)}; expected"
        f" {expected}"
    )


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
    columns: Columns,
    rows: tuple[str, ...],
    keys: str | None,
    key_kind: str | None,
    converts: bool = False,
    other_keys: bool = False,
) -> Table:
    """Returns the table of the columns `rows`. The default is the only column of lists, or all columns of
    numbers except the keys.

    If `converts`, columns of different dtypes are read as float64 and converted later. `other_keys` is
    True if the keys are in another file.
    """
    names = columns.schema.names
    columns.keys, columns.has_keys = keys, keys is not None or other_keys
    check_chosen(columns, rows, keys)
    for name in filter(PANDAS_INDEX.fullmatch, names):
        columns.left_out.setdefault(name, index_note(name))
    if not rows:
        leave_reset_index_out(columns, keys)
    elif keys is None and not other_keys:
        note_identifiers(columns, [name for name in names if name not in rows], "left out")
    found = keys_of_column(columns, keys, key_kind) if keys is not None else None
    if not columns.count():
        columns.notes.append(f"{columns.place}: the file has no rows, so the table is empty")
    return table_of(
        columns, list(rows) or default_rows(columns, keys, other_keys), converts, keys, found
    )


def leave_reset_index_out(columns: Columns, keys: str | None) -> None:
    """Leaves out the first columns if they are an index that reset_index() of pandas turned into columns.
    Such a column has increasing values, like row numbers.
    """
    others = [name for name in columns.schema.names if name not in columns.left_out]
    for name in others[:-1]:
        if not RESET_INDEX.fullmatch(name) or name == keys or not goes_up(columns, name):
            return
        if all(other in (name, keys) or other in columns.left_out for other in others):
            return  # The column is the only one that can be the rows.
        columns.left_out[name] = index_note(name)


def goes_up(columns: Columns, name: str) -> bool:
    """True for a column of strictly increasing integers."""
    kind = columns.schema.field(name).type
    if not pyarrow.types.is_integer(kind) and not pyarrow.types.is_float64(kind):
        return False
    last = -math.inf
    for batch, _, _ in columns.batches([name], BATCH_KEYS):
        column = batch.column(0)
        values = column.to_numpy(zero_copy_only=False)
        if column.null_count or not numpy.isfinite(values).all() or (values % 1 != 0).any():
            return False
        if len(values) and (values[0] <= last or (values[1:] <= values[:-1]).any()):
            return False
        last = values[-1] if len(values) else last
    return True


def only_keys(columns: Columns, keys: str | None, key_kind: str | None) -> Keys:
    """Returns the keys of a table whose rows are in another file."""
    if keys is None:
        raise Refused(
            f"{columns.place}: name the column of keys with --keys; the columns are"
            f" {', '.join(map(clear, columns.schema.names))}"
            + (". If the first line is a key, use --no-header" if columns.may_lack_header else "")
        )
    check_chosen(columns, (), keys)
    found = keys_of_column(columns, keys, key_kind)
    return dataclasses.replace(found, notes=tuple(columns.notes))


def check_chosen(columns: Columns, rows: tuple[str, ...], keys: str | None) -> None:
    """Refuses names that are not columns of the input."""
    names = columns.schema.names
    for name in (*rows, *([keys] if keys is not None else [])):
        if name not in names:
            reason = columns.absent.get(name)
            raise Refused(
                f"{columns.place}: there is no column {clear(name)}; the columns are"
                f" {', '.join(map(clear, names))}"
                + (f". {reason}" if reason else columns.header_hint)
                + (rows_hint(name, names) if name in rows else keys_hint(name, keys, names))
            )


def rows_hint(name: str, names: list[str]) -> str:
    """Returns a hint if `name` is a part of a column's name that contains a comma."""
    whole = next((other for other in names if "," in other and name in split_list(other)), None)
    return f". To choose the column {whole!r}, use {rows_option([whole])}" if whole else ""


def keys_hint(name: str, keys: str | None, names: list[str]) -> str:
    """Returns a hint about what was probably meant by `name`, which is not a column."""
    if name != keys or not name:
        return ""
    if os.path.isfile(name):  # also False for a name that is too long
        return f". To read the keys from that file, use {option('--keys-from', name)}"
    if len(name.split(",")) > 1 and all(part in names for part in name.split(",")):
        return ". Keys must be one column; combine the columns into one in the file"
    if "" in names:
        return ". The first column has no name; to use it as keys, pass --keys ''"
    return ""


def in_one_dtype(columns: Columns, parts: list[Column], converts: bool) -> list[Column]:
    """Returns the columns in one dtype. If `converts`, columns of several dtypes, of integers or of bools
    become float64. Columns of several dtypes are refused otherwise.
    """
    other = next((part for part in parts if part.dtype != parts[0].dtype), None)
    if converts and (other or not parts[0].dtype.is_float):
        return [dataclasses.replace(part, dtype=DTYPES["float64"]) for part in parts]
    if other:
        raise Refused(
            f"{columns.place}: column {other.name} is {other.dtype.name}, but column"
            f" {parts[0].name} is {parts[0].dtype.name}. Choose columns of one dtype with --rows,"
            " or convert all of them with --dtype float32 or float64"
        )
    return parts


def table_of(
    columns: Columns,
    chosen: list[str],
    converts: bool,
    key_column: str | None,
    keys: Keys | None,
) -> Table:
    given = [column_of(columns, name, key_column) for name in chosen]
    for part in given:
        if part.width is not None and len(given) > 1:
            numbers = [other.name for other in given if other.width is None]
            raise Refused(
                f"{columns.place}: column {part.name} has lists; --rows takes one column of lists,"
                f" here {rows_option([part.name])}, or several columns of numbers"
                + (f", here {rows_option(numbers)}" if numbers else "")
            )
    parts = in_one_dtype(columns, given, converts)
    shape = (columns.count(), *(parts[0].inner if len(parts) == 1 else (len(parts),)))
    size = rows_per_batch(math.prod(shape[1:]) * parts[0].dtype.storage.itemsize)

    def batches() -> Iterator[Array]:
        checked = parts[0].dtype.name != "float64"  # Numbers in text are read as float64.
        for batch, file, first in columns.batches(chosen, size):
            try:
                arrays = [part.read(batch, file, first) for part in parts]
            except RowRefused as e:
                raise Refused(f"{e}{whereabouts(columns, e.row, file)}") from e
            if not checked and any((numpy.abs(array) >= EXACT).any() for array in arrays):
                columns.check_large(chosen)
                checked = True
            yield arrays[0] if len(arrays) == 1 else numpy.stack(arrays, axis=1)

    return Table(
        chosen[0] if len(parts) == 1 else "rows",
        parts[0].dtype,
        shape,
        batches,
        columns.place,
        keys,
        tuple(columns.notes),
        columns.files(),
        tuple(chosen) if parts[0].width is None else (),
        tuple(
            before.dtype != after.dtype and not before.dtype.is_float
            for before, after in zip(given, parts)
            for _ in range(before.width or 1)
        ),
    )


def default_rows(columns: Columns, keys: str | None, other_keys: bool) -> list[str]:
    fields = [
        field
        for field in columns.schema
        if field.name != keys and field.name not in columns.left_out
    ]
    if keys is None and not other_keys:
        columns.notes += columns.keyless_notes
    lists = [field.name for field in fields if is_list(storage_type(field.type))]
    if len(lists) > 1:
        raise Refused(
            f"{columns.place}: there are several columns of lists,"
            f" {', '.join(map(clear, lists))}"
            f"{''.join(origin_of(columns, name) for name in lists)}; --rows chooses one"
        )
    if not fields:
        raise Refused(f"{columns.place}: there is no column of rows")
    if lists:
        others = [name for name in columns.schema.names if name not in (*lists, keys)]
        if others:
            columns.notes.append(
                f"{columns.place}: the rows are the lists of column {lists[0]};"
                f" {columns_listed([*map(clear, others)], len(others))} left out"
                + ("" if keys is not None or other_keys else NO_KEYS)
            )
        return lists
    refuse_text(columns, fields, keys is None and not other_keys)
    columns.notes += [
        f"{columns.place}: {reason}" for name, reason in columns.left_out.items() if name != keys
    ]
    chosen = [field.name for field in fields]
    if len(chosen) > 1:
        note_identifiers(columns, chosen, "part of the rows", keys is None and not other_keys)
    return chosen


def note_identifiers(columns: Columns, names: list[str], what: str, keyless: bool = True) -> None:
    """Adds a note about the columns that probably hold keys."""
    found = [clear(name) for name in names if IDENTIFIER.fullmatch(name)]
    if found:
        columns.notes.append(
            f"{columns.place}: {columns_listed(found, len(found))} {what}"
            + (NO_KEYS if keyless else ". If it is not a value of the row, choose the other columns with --rows")
        )


def refuse_text(columns: Columns, fields: list[pyarrow.Field], keyless: bool) -> None:
    """Refuses columns that cannot be rows. The error shows a value of each, and proposes --rows and --keys."""
    identifiers = [field.name for field in fields if IDENTIFIER.fullmatch(field.name)]
    numbers = [
        field.name
        for field in fields
        if dtype_of_type(field.type) and field.name not in identifiers
    ]
    others = [field.name for field in fields if not dtype_of_type(field.type)]
    if not others:
        return
    found = [first_text(columns, name) for name in others]
    values = [f"{clear(name)} ({what})" for name, (what, *_) in zip(others, found)]
    hint = next((hint for _, hint, _ in found if hint), "")
    where = next((where for *_, where in found if where), "") if len(others) == 1 else ""
    rows = f", here {rows_option(numbers)}" if 0 < len(numbers) <= MOST_SHOWN else ""
    likely = next((names[0] for names in (identifiers, others) if len(names) == 1), None)
    keys = f", here {option('--keys', likely)}" if likely is not None and keyless and numbers else ""
    if columns.header_is_doubtful:  # The names in the header are then useless as advice.
        rows = keys = ""
        hint += columns.header_hint
    raise Refused(
        f"{columns.place}: {columns_listed(values, len(others))} not numeric{hint}{where}; choose the columns of"
        f" the rows with --rows{rows}{f', and the column of keys with --keys{keys}' if keyless else ''}"
    )


def columns_listed(items: list[str], count: int) -> str:
    """Returns the subject and the verb of a sentence about columns."""
    return (
        f"column{'s' if count > 1 else ''} {listed(items[:MOST_SHOWN])}"
        f"{f' and {count - MOST_SHOWN} more' if count > MOST_SHOWN else ''}"
        f" {'are' if count > 1 else 'is'}"
    )


def clear(name: str) -> str:
    """Formats a name for a sentence: quoted if it is empty or could be taken for several names."""
    return repr(name) if re.search(r"[\s,;|]|\A\Z", name) else name


def index_note(name: str) -> str:
    return (
        f"column {name} is the index of a pandas DataFrame and is not part of the rows; --keys or --rows"
        " can name it"
    )


def rows_option(names: list[str]) -> str:
    """Returns the option --rows with these names."""
    return option("--rows", join_list(names[:MOST_SHOWN])) + (",…" if len(names) > MOST_SHOWN else "")


def type_hint(name: str, kind: pyarrow.DataType) -> str:
    """Returns advice on converting a column of an unsupported type to numbers."""
    types, column = pyarrow.types, f"df[{name!r}]"
    if types.is_decimal(kind):
        return f"; convert decimal numbers to floats with {column} = {column}.astype('float64')"
    if types.is_timestamp(kind) or types.is_date(kind):
        return f"; convert times to integers with {column} = pandas.to_datetime({column}).astype('int64')"
    if types.is_duration(kind):
        return f"; convert durations to integers with {column} = {column}.astype('int64')"
    if types.is_struct(kind):
        return "; objects are not flattened. Make a column of each member that is a number"
    if types.is_dictionary(kind) and is_text(kind.value_type):
        return f"; convert categories of text to numbers with {column} = {column}.astype('float64')"
    if is_binary(kind):
        return (
            f"; if the bytes are float32, convert them to lists with {column} ="
            f" {column}.map(lambda x: numpy.frombuffer(x, '<f4'))"
        )
    if is_list(kind) and types.is_decimal(kind.value_type):
        return f"; convert decimal numbers to floats with {column} = [[float(x) for x in row] for row in {column}]"
    if is_list(kind) and is_list(kind.value_type):
        return f"; join the lists of each row with {column} = {column}.map(numpy.concatenate)"
    return ""


def whereabouts(columns: Columns, row: int, file: str) -> str:
    """Returns a sentence with the line of a row and its key, as far as they are known."""
    line = columns.line_of(row)
    parts = [f"starts in line {line}"] if line else []
    if columns.keys is not None and columns.keys in columns.schema.names:
        for batch, batch_file, first in columns.batches([columns.keys], BATCH_KEYS):
            if batch_file == file and first <= row < first + len(batch):
                key = storage_of(batch.column(0))[row - first].as_py()
                parts += [] if key is None else [f"has the key {shown(key) if isinstance(key, str) else key}"]
                break
    return f". Row {row} {' and '.join(parts)}" if parts else ""


def first_text(columns: Columns, name: str) -> tuple[str, str, str]:
    """Returns the first value of a column that is not a number, a hint about it, and where its row is."""
    kind = columns.schema.field(name).type
    if not is_text(kind):
        what = "objects" if pyarrow.types.is_struct(kind) else f"type {kind}"
        return what, type_hint(name, kind), ""
    for batch, file, first in columns.batches([name], BATCH_KEYS):
        column = batch.column(0).cast(pyarrow.string())
        row = first_refused(column, lambda texts: to_numbers(texts, columns.decimal))

        def place_of(row: int) -> str:
            return f"row {first + row}" + (f" of {file}" if columns.files() else "")

        if row is not None:
            value = column[row].as_py()
            hint = number_hint(value, columns.decimal)
            where = whereabouts(columns, first + row, file) if first + row or columns.keys is not None else ""
            return f"{place_of(row)}: {shown(value)}", "" if "--rows" in hint else hint, where
        blank = pyarrow.compute.and_(
            pyarrow.compute.not_equal(column, ""),
            pyarrow.compute.equal(pyarrow.compute.ascii_trim(column, " \t"), ""),
        )
        row = pyarrow.compute.index(blank, True).as_py()
        if row >= 0:
            where = whereabouts(columns, first + row, file)
            return f"{place_of(row)}: {shown(column[row].as_py())}", number_hint("NA"), where
    return "text", (
        "; numbers that are stored as text are not converted automatically. Use"
        f" df[{name!r}] = df[{name!r}].astype('float64')"
    ), ""
