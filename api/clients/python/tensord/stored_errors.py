"""Errors of stored programs, with the step that failed and advice in Python."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .arrays import Ref
from .errors import ProblemError

UNKNOWN = re.compile(r'has no (?:member|metadata entry) "')
OTHER_DTYPE = re.compile(r"\w+ has dtype (\w+); expected (\w+)")


@contextmanager
def about_stored_program(name: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Adds the failed step to errors of a stored program, and advice to errors about the values in `given`."""
    try:
        yield
    except ProblemError as error:
        place = ""
        if type(error.step) is int:
            result = error.problem.get("as")
            place = f"\n  in step {error.step} ({f'{result}, ' if isinstance(result, str) else ''}{error.op}) of the program {name}"
        detail = with_advice(error, given) if error.step is None else error.detail
        raise type(error)({**error.problem, "detail": detail, "place": place}, error.status) from None


def with_advice(error: ProblemError, given: Mapping[str, Any]) -> str:
    """Returns the detail of an error. If it is about a value in `given`, the detail has advice in Python."""
    name = error.input or error.attribute
    if name is None or name not in given:
        return error.detail
    value, dtypes = given[name], OTHER_DTYPE.match(error.detail)
    if UNKNOWN.search(error.detail):
        return (f"{error.detail}. If {name} is a parameter of the function, its value was fixed when the program was stored, because it is not an attribute of"
                f" an op; to let each call choose it, declare it as a tensor, {name}=tensord.spec(...), and store the program again")
    if error.code == "MALFORMED_REQUEST" and isinstance(value, str):
        return f"{name} is an input of the program, but a str is an argument; for the resident tensor {value!r}, pass tensord.Ref({value!r})"
    if error.code == "MALFORMED_REQUEST" and isinstance(value, (bool, int, float)):
        return f"{name} is an input of the program, but a Python number is an argument; pass an array with the dtype of the input, numpy.array({value!r}, DTYPE)"
    if dtypes and "string" not in dtypes.groups() and not isinstance(getattr(value, "reference", value), Ref):
        return f"{dtypes[0]}; pass numpy.asarray(x, {dtypes[2]!r})"
    return error.detail
