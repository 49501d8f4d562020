"""Reads JSON Lines. Each line has an object, whose members are the columns of a row. Numbers are read as
float64, because the file does not specify dtypes. Integer keys stay integers.
"""

import json
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow

from columns import MOST_COUNTED, Columns, check_exact, check_names, whereabouts
from json_file import BY_COLUMN, OF_RECORDS, is_by_column
from table import Refused

from text import SHOWN, TOO_LARGE, check_utf8, open_text, shown

LINE_BYTES = 64 << 20
BATCH_ROWS = 4096  # maximum size of a batch, because Python objects take much memory
FLOAT64_END = (1 << 1024) - (1 << 970)  # the first integer that is rounded to infinity
AS_TEXT = "; --key-dtype string converts all keys to text"
EXAMPLE = 'expected an object in one line, such as {"id": 7, "embedding": [0.5, 1.5]}'


class JsonLines(Columns):
    def __init__(self, path: pathlib.Path, keys: str | None, key_kind: str | None) -> None:
        super().__init__()
        self.path, self.place = path, str(path)
        self.key, self.key_kind = keys, key_kind
        self.typed_by: dict[str, int] = {}  # for each column, the row whose value determines the type
        types: dict[str, pyarrow.DataType] = {}
        key_types: set[type] = set()
        self.rows, largest = 0, 0
        for line, row in self.numbered():
            self.rows += 1
            for name, value in row.items():
                if self.rows > 1 and name not in types:
                    self.origins[name] = f"line {line}"
                if types.get(name) is None:
                    types[name] = type_of(value, name == keys)
                    self.typed_by[name] = self.rows - 1
            key = row.get(keys) if keys is not None else None
            key_types.add(type(key))
            if isinstance(key, int):
                largest = max(largest, key)
        if self.rows == 1 and is_by_column(row):
            raise Refused(f"{self.place}: {BY_COLUMN}")
        if keys is not None and types.get(keys) in (pyarrow.string(), pyarrow.int64()):
            if key_kind == "string" or (key_kind and str in key_types):
                types[keys] = pyarrow.string()  # Integers are converted to text.
            elif largest >= 1 << 63 and types[keys] == pyarrow.int64():
                types[keys] = pyarrow.uint64()
        check_names(list(types), self.place)
        if not types:
            raise Refused(f"{self.place}: the file has no rows; {EXAMPLE}")
        self.schema = pyarrow.schema(
            [(name, pyarrow.null() if kind is None else kind) for name, kind in types.items()]
        )

    def objects(self, read_float: Callable[[str], Any] = float) -> Iterator[dict[str, Any]]:
        for _, row in self.numbered(read_float):
            yield row

    def numbered(
        self, read_float: Callable[[str], Any] = float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number and the object of each line that is not empty."""
        with open_text(self.path) as file:
            number = 0
            while line := file.readline(LINE_BYTES):
                number += 1
                place = f"{self.place}, line {number}"
                if len(line) == LINE_BYTES:
                    raise Refused(f"{place}: it has {LINE_BYTES} bytes or more")
                if line.strip():
                    yield number, parse(check_utf8(line.rstrip(b"\r\n"), place), place, read_float)

    def line_of(self, row: int) -> int | None:
        lines = self.numbered() if row < MOST_COUNTED else ()
        return next((number for i, (number, _) in enumerate(lines) if i == row), None)

    def count(self) -> int:
        return self.rows

    def batches(
        self, columns: list[str], size: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, str, int]]:
        first = 0
        held: list[dict[str, Any]] = []
        for row in self.objects():
            held.append(row)
            if len(held) >= min(size, BATCH_ROWS):
                yield self.batch(held, columns, first), self.place, first
                first += len(held)
                held = []
        if held:
            yield self.batch(held, columns, first), self.place, first

    def check_large(self, columns: list[str]) -> None:
        for number, row in enumerate(self.objects(float_or_overflow)):
            for name in columns:
                value = row.get(name)
                for i, element in enumerate(value if isinstance(value, list) else [value]):
                    at = f"element {i} of " if isinstance(value, list) else ""
                    place = f"{self.place}, column {name}: {at}row {number}"
                    if isinstance(element, Overflow):
                        where = whereabouts(self, number, self.place)
                        raise Refused(f"{place} is {shown_as_json(element)}; {TOO_LARGE}{where}")
                    if is_integer(element):
                        check_exact(element, place)

    def batch(
        self, rows: list[dict[str, Any]], columns: list[str], first: int
    ) -> pyarrow.RecordBatch:
        arrays = []
        for name in columns:
            kind = self.schema.field(name).type
            by = self.typed_by.get(name, 0)
            like = f", as in row {by}"
            values = []
            for i, row in enumerate(rows):
                value = row.get(name)
                if is_integer(value) and name == self.key and self.key_kind:
                    value = str(value) if pyarrow.types.is_string(kind) else value
                if fault := fault_of(value, kind, like if by < first + i else ""):
                    hint = self.as_text_hint(name, value)
                    where = "" if name == self.key else whereabouts(self, first + i, self.place)
                    raise Refused(f"{self.place}, column {name}: row {first + i} is {fault}{hint}{where}")
                values.append(as_floats(value, kind))
            arrays.append(pyarrow.array(values, kind))
        return pyarrow.RecordBatch.from_arrays(arrays, columns)

    def as_text_hint(self, name: str, value: Any) -> str:
        """Returns a hint for a key that could be text."""
        could_be = is_integer(value) or (isinstance(value, str) and is_unicode(value))
        return AS_TEXT if name == self.key and self.key_kind is None and could_be else ""


class Overflow:
    """A number in text that is too large for float64."""

    def __init__(self, text: str) -> None:
        self.text = text


def float_or_overflow(text: str) -> float | Overflow:
    value = float(text)
    return Overflow(text) if math.isinf(value) else value


def parse(line: bytes, place: str, read_float: Callable[[str], Any]) -> dict[str, Any]:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        check_names([name for name, _ in pairs], place)
        return dict(pairs)

    try:
        value = json.loads(line, object_pairs_hook=members, parse_float=read_float)
    except json.JSONDecodeError as e:
        raise Refused(f"{place}: invalid JSON at column {e.colno}; {hint_of(line)}") from e
    except (ValueError, RecursionError) as e:
        raise Refused(f"{place}: it has a number that is too long, or too many levels") from e
    if not isinstance(value, dict):
        raise Refused(f"{place}: {shown(line)} is not an object; {hint_of(line)}")
    return value


def hint_of(line: bytes) -> str:
    return OF_RECORDS if re.match(rb"\s*\[\s*(\{|\Z)", line) else EXAMPLE


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def type_of(value: Any, is_key: bool) -> pyarrow.DataType | None:
    """Returns the type of a column with this value, or None if the value does not determine the type."""
    if value is None:
        return None
    if isinstance(value, str):
        return pyarrow.string()
    if is_integer(value) and is_key:
        return pyarrow.int64()
    if is_number(value):
        return pyarrow.float64()
    if isinstance(value, list):
        kinds = (type_of(element, False) for element in value)
        first = next((kind for kind in kinds if kind is not None), pyarrow.float64())
        return pyarrow.list_(first)
    return pyarrow.bool_() if isinstance(value, bool) else pyarrow.struct([])


def shown_as_json(value: Any) -> str:
    """Formats a value for an error as JSON, shortened if it is long."""
    text = value.text if isinstance(value, Overflow) else json.dumps(value, ensure_ascii=False)
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "")


def fault_of(value: Any, kind: pyarrow.DataType, like: str) -> str | None:
    """Returns text with a value that does not fit its column and the expected value, or None if it fits.
    `like` is text about the row that determined the type, if that is another row.
    """
    types = pyarrow.types
    if types.is_list(kind) and isinstance(value, list):
        if set(map(type, value)) == {float}:
            return None
        faults = (fault_of(element, kind.value_type, like) for element in value)
        return next(filter(None, faults), None)
    if types.is_string(kind):
        fits, expected = isinstance(value, str) and is_unicode(value), "text"
        if isinstance(value, str):
            expected, like = "Unicode text", ""
    elif types.is_integer(kind):
        low, high = (0, (1 << 64) - 1) if kind == pyarrow.uint64() else (-(1 << 63), (1 << 63) - 1)
        fits, expected = is_integer(value) and low <= value <= high, str(kind)
        if is_integer(value):
            like = ", because another key is above 2^63 - 1" if value < 0 <= low else ""
    elif types.is_floating(kind):
        if is_integer(value) and abs(value) >= FLOAT64_END:
            return f"{shown_as_json(value)}; {TOO_LARGE}"
        fits, expected = is_number(value), "a number"
    elif types.is_boolean(kind):
        fits, expected = isinstance(value, bool), "true or false"
    else:
        fits, expected = False, "a list of numbers"
    if value is None or fits:
        return None
    return f"{shown_as_json(value)}; expected {expected}{like}"


def as_floats(value: Any, kind: pyarrow.DataType) -> Any:
    """Converts integers to floats, because Arrow converts large integers to float64 only if that is exact."""
    if isinstance(value, list):
        return [float(element) if is_integer(element) else element for element in value]
    return float(value) if is_integer(value) and pyarrow.types.is_floating(kind) else value


def is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
