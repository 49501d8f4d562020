"""Reads files of keys with the code of tensord-import, so that the command and the client read the same keys."""
from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np

from . import importer
from .arrays import Array

KINDS = ("int64", "uint64", "string")


def module(name: str) -> Any:
    """Returns a module of tensord-import. Its modules import one another by plain names, as in a folder that Python runs."""
    folder = importer.folder()
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def read(file: str, kind: Optional[str], rows: Optional[int]) -> tuple[Array, tuple[str, ...]]:
    """Reads the keys of `rows` rows. Returns them as integers or bytes, and the notes to show to the user."""
    keys = module("keys")
    try:
        found = keys.keys_of_file(Path(file), kind, rows, any_name=True)
        keys.survey(found, lambda size: None)
        values = list(keys.each(found))
    except module("table").Refused as error:
        raise ValueError(str(error)) from None
    return np.array(values, object if found.kind == "string" else found.kind), (*found.notes, *found.found)
