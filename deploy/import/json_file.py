"""Reads JSON: the headers of safetensors, the indexes of folders, vocabularies. Tables in JSON are not
read; json_hint says how they become a format that is.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from table import Refused

from text import open_text

HINT_BYTES = 16 << 20  # of the first line
# dtype=object: else a missing value makes floats of integers.
OF_RECORDS = (
    "pandas.DataFrame(json.load(open('FILE.json')), dtype=object).to_parquet('FILE.parquet') makes"
    " Parquet of a list of objects, or of an object of columns"
)
OF_LISTS = "numpy.save('FILE.npy', json.load(open('FILE.json'))) makes an array of a list of lists"
OF_VECTORS = (
    "its members are lists of numbers. With d = json.load(open('FILE.json')), if these are vectors,"
    " pandas.DataFrame({'key': list(d), 'vector': list(d.values())}).to_parquet('FILE.parquet') makes"
    " Parquet of them; if they are columns, pandas.DataFrame(d, dtype=object).to_parquet('FILE.parquet')"
)
BY_COLUMN = (
    "it is one object of columns, as df.to_json(FILE) of pandas writes it;"
    " df.reset_index().to_parquet('FILE.parquet') keeps all digits, and the index as a column"
)


def json_hint(path: pathlib.Path) -> str:
    """How a table in JSON can be imported, as its beginning looks."""
    with open_text(path) as file:
        line, second = file.readline(HINT_BYTES), file.readline(HINT_BYTES)
        rest = file.read(HINT_BYTES)
    try:
        first = json.loads(line)
        if isinstance(first, dict) and second.lstrip().startswith(b"{"):
            return "it has an object in each line, which is JSON Lines: rename it to FILE.jsonl"
    except (ValueError, RecursionError):
        pass
    begin = b"".join((line + second + rest).split(None, 2)[:2])  # without blanks between both
    if begin.startswith(b"[["):
        return OF_LISTS
    try:
        whole = json.loads(line + second + rest)
    except (ValueError, RecursionError):
        return OF_RECORDS
    return BY_COLUMN if is_by_column(whole) else OF_VECTORS if is_of_vectors(whole) else OF_RECORDS


def is_of_vectors(value: Any) -> bool:
    """True for an object of equally long lists of numbers, which may be columns as well."""
    if not isinstance(value, dict) or not value:
        return False
    vectors = list(value.values())
    numbers = [isinstance(one, list) and all(type(x) in (int, float) for x in one) for one in vectors]
    return all(numbers) and len({len(one) for one in vectors}) == 1


def is_by_column(value: Any) -> bool:
    """True for an object of objects with the same members: a table by columns, or by rows."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    members = [one.keys() for one in value.values()]
    return len(members) > 1 and bool(members[0]) and all(one == members[0] for one in members)


def parse(content: bytes, place: str) -> Any:
    """The document. Of two members of one name it is not clear which one counts: they are refused."""

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
        raise Refused(f"{place}: it is not JSON from line {e.lineno}, column {e.colno} on") from e
    except UnicodeDecodeError as e:
        raise Refused(f"{place}: it is not UTF-8 text from byte {e.start} on") from e
    except RecursionError as e:
        raise Refused(f"{place}: it is not JSON: its values are nested too deeply") from e
    except ValueError as e:  # a number of thousands of digits
        raise Refused(f"{place}: it has a number that is too long") from e
