"""Reads JSON: headers of safetensors files, indexes of folders, and vocabularies. Tables in JSON are
not read; json_hint tells how to convert them to a supported format.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from table import Refused

from text import open_text

HINT_BYTES = 16 << 20  # maximum size of a line that json_hint reads
# Without dtype=object, pandas converts a column of integers with a missing value to floats.
OF_RECORDS = (
    "pandas.DataFrame(json.load(open('FILE.json')), dtype=object).to_parquet('FILE.parquet')"
    " converts a list of objects, or an object of columns, to Parquet"
)
OF_LISTS = "numpy.save('FILE.npy', json.load(open('FILE.json'))) converts a list of lists to an array"
OF_VECTORS = (
    "its members are lists of numbers. With d = json.load(open('FILE.json')), if these are vectors,"
    " pandas.DataFrame({'key': list(d), 'vector': list(d.values())}).to_parquet('FILE.parquet') converts"
    " them to Parquet; if they are columns, pandas.DataFrame(d, dtype=object).to_parquet('FILE.parquet')"
)
BY_COLUMN = (
    "it is one object of columns, as df.to_json(FILE) of pandas writes it. Use"
    " df.reset_index().to_parquet('FILE.parquet'), which keeps all digits, and the index as a column"
)


def json_hint(path: pathlib.Path) -> str:
    """Returns advice on importing a table in JSON, judged by the start of the file."""
    with open_text(path) as file:
        line, second = file.readline(HINT_BYTES), file.readline(HINT_BYTES)
        rest = file.read(HINT_BYTES)
    try:
        first = json.loads(line)
        if isinstance(first, dict) and second.lstrip().startswith(b"{"):
            return "it has an object in each line, which is JSON Lines. Rename it to FILE.jsonl"
    except (ValueError, RecursionError):
        pass
    begin = b"".join((line + second + rest).split(None, 2)[:2])  # the first two words, without the blanks between them
    if begin.startswith(b"[["):
        return OF_LISTS
    try:
        whole = json.loads(line + second + rest)
    except (ValueError, RecursionError):
        return OF_RECORDS
    return BY_COLUMN if is_by_column(whole) else OF_VECTORS if is_of_vectors(whole) else OF_RECORDS


def is_of_vectors(value: Any) -> bool:
    """True for an object of lists of numbers of equal length. The lists can be vectors or columns."""
    if not isinstance(value, dict) or not value:
        return False
    vectors = list(value.values())
    numbers = [isinstance(one, list) and all(type(x) in (int, float) for x in one) for one in vectors]
    return all(numbers) and len({len(one) for one in vectors}) == 1


def is_by_column(value: Any) -> bool:
    """True for an object of objects with the same members: a table by columns or by rows."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    members = [one.keys() for one in value.values()]
    return len(members) > 1 and bool(members[0]) and all(one == members[0] for one in members)


def parse(content: bytes, place: str) -> Any:
    """Parses a document. Two members with the same name are refused, because it is unclear which value applies."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    raise Refused(f"{place}: an object has two members {name!r}")
                seen.add(name)
        return found

    try:
        return json.loads(content.decode(), object_pairs_hook=members)
    except json.JSONDecodeError as e:
        raise Refused(f"{place}: invalid JSON at line {e.lineno}, column {e.colno}") from e
    except UnicodeDecodeError as e:
        raise Refused(f"{place}: invalid UTF-8 at byte {e.start}") from e
    except RecursionError as e:
        raise Refused(f"{place}: its JSON values are nested too deeply") from e
    except ValueError as e:  # A number has thousands of digits.
        raise Refused(f"{place}: it has a number that is too long") from e
