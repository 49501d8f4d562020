"""Reads vocabularies of tokenizers, which give the row of each key. A vocabulary is an object {key: row},
or a tokenizer.json of the tokenizers library. The model in tokenizer.json has an object {key: row} or,
with Unigram, a list of [key, score] in the order of the rows.
"""

from __future__ import annotations

import json
from typing import Any

from json_file import parse
from table import Refused


def vocabulary(content: bytes, place: str) -> dict[str, Any]:
    """Returns the row of each key, including added tokens."""
    document = parse(content, place)
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict):
        rows, added = document, {}
    else:
        rows, added = model.get("vocab"), added_tokens(document)
        if isinstance(rows, list):
            rows = unigram(rows, place)
    if not isinstance(rows, dict):
        raise Refused(
            f"{place}: expected an object with the row number of each key, or a tokenizer"
            " with a vocabulary"
            + ("; write a list of keys as a .txt file with one key per line" * isinstance(document, list))
        )
    return {**rows, **added}


def added_tokens(tokenizer: dict[str, Any]) -> dict[str, Any]:
    return {
        token["content"]: token["id"]
        for token in tokenizer.get("added_tokens") or []
        if isinstance(token, dict) and isinstance(token.get("content"), str) and "id" in token
    }


def unigram(pieces: list[Any], place: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, piece in enumerate(pieces):
        if not (isinstance(piece, list) and len(piece) == 2 and isinstance(piece[0], str)):
            raise Refused(f"{place}: element {row} of the vocabulary is not [key, score]")
        if piece[0] in rows:
            raise Refused(
                f"{place}: rows {rows[piece[0]]} and {row} are both"
                f" {json.dumps(piece[0], ensure_ascii=False)}. A key names one row"
            )
        rows[piece[0]] = row
    return rows
