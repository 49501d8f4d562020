"""Reads JSON: the headers of safetensors, the indexes of folders, vocabularies. Tables in JSON are not
read; json_hint says how they become JSON Lines.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from table import Refused

from text import open_text

HINT_BYTES = 16 << 20  # of the first line
WHOLE_LIST = "a list of objects becomes JSON Lines by jq -c '.[]' FILE.json >FILE.jsonl"
BY_COLUMN = (
    "it is one object of columns, as df.to_json(FILE) of pandas writes it;"
    " df.to_json('FILE.jsonl', orient='records', lines=True) writes an object for each row"
)


def json_hint(path: pathlib.Path) -> str:
    """How a table in JSON can be imported, as its first lines look."""
    with open_text(path) as file:
        line, second = file.readline(HINT_BYTES), file.readline(HINT_BYTES)
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return WHOLE_LIST
    if isinstance(first, dict) and second.lstrip().startswith(b"{"):
        return "it has an object in each line, which is JSON Lines: rename it to FILE.jsonl"
    return BY_COLUMN if is_by_column(first) else WHOLE_LIST


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
