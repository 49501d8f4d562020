"""Reads JSON: the headers of safetensors, the indexes of folders, vocabularies."""

import json
from typing import Any

from table import Refused


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
