"""Exceptions: one class for each error code of the daemon, and classes for connection errors."""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

# Advice of the daemon that NumPy arrays cannot follow, and the advice that replaces it.
TO_BFLOAT16 = "the op cast with dtype = bfloat16"
BFLOAT16_HINT = ("; client.cast returns float32 instead of bfloat16. Pass tensord.bfloat16(x), or a table stored with"
                 " client.store(NAME).cast(x, 'bfloat16')")
WITH_KEYS = ("gather", "embedding_bag")  # ops that accept keys instead of indices
KEYS_HINT = "; a str is the name of a resident tensor. To find rows of a table by key, pass tensord.Keys([KEY])"


class TensordError(Exception):
    """Base class of all errors of this package. `request_id` identifies the request in the daemon's log."""

    request_id: Optional[str] = None


class ConnectionLost(TensordError, ConnectionError):
    """The daemon could not be reached, or the connection broke."""


class Timeout(TensordError, TimeoutError):
    """The call's timeout expired before the reply was complete."""


class ProtocolError(TensordError):
    """The reply is invalid: truncated, of the wrong size, or not HTTP."""


class ReplyTooLarge(ProtocolError):
    """The reply is longer than `max_reply`, or does not fit in memory."""


class ProblemError(TensordError):
    """An error reply of the daemon. Its members are attributes: `code`, `status`, `detail`, `request_id`, and the
    members specific to the code, such as `position`. An attribute is None if the reply lacks the member."""

    attribute: Optional[str]
    axis: Optional[int]
    bad_count: Optional[int]
    bound: Optional[int]
    device: Optional[str]
    did_you_mean: Optional[str]
    etag: Optional[str]
    extents: Optional[list[int]]
    index: Optional[int]
    input: Optional[str]
    key: Any
    label: Optional[str]
    limit: Optional[int]
    needed: Optional[int]
    offset: Optional[int]
    op: Optional[str]
    pointer: Optional[str]
    position: Optional[list[int]]
    positions: Optional[list[int]]
    resource: Optional[str]
    shapes: Any
    step: Optional[int]
    title: Optional[str]
    type: Optional[str]

    def __init__(self, problem: dict[str, Any], status: int = 0):
        self.detail = str(problem.get("detail", problem.get("title", f"status {status}")))
        self.is_of_rows = problem.get("code") == "TENSOR_NOT_FOUND" and problem.get("input") == "indices" and problem.get("op") in WITH_KEYS
        hint = BFLOAT16_HINT if TO_BFLOAT16 in self.detail else KEYS_HINT if self.is_of_rows else ""
        super().__init__(in_python(self.detail) + hint + str(problem.get("place", "")))
        self.problem = problem
        self.status = status
        self.code = str(problem.get("code", ""))
        request_id = problem.get("request_id")
        self.request_id = None if request_id is None else str(request_id)

    def __getattr__(self, name: str) -> Any:
        if name in ProblemError.__annotations__:
            return self.__dict__.get("problem", {}).get(name)
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.status)


IN_PYTHON = ((re.compile(r'"(\w+)(?:\.ref": |": \{"ref": )("[^"]*")\}?'), r"\1=\2"),
             (re.compile(r'\{"ref": ("[^"]*")\}'), r"tensord.Ref(\1)"),
             (re.compile(r'"(\w+)": \{"keys": (\[[^]]*\])\}'), r"\1=tensord.Keys(\2)"),
             (re.compile(r'\{"keys": (\[[^]]*\])\}'), r"tensord.Keys(\1)"),
             (re.compile(r'store a version, with its keys as \{"tensor": \[\.\.\.\], "keys": \[\.\.\.\]\}'), "put a version: tables[VERSION].put(x, keys=KEYS)"),
             (re.compile(r"with the tensor (\w+)\.keys$"), r"with \1=tensord.Keys(KEYS)"),
             (re.compile(r'\{"dtype": "(\w+)", "data": \[\.\.\.\]\}'), r"numpy.array(x, '\1')"))


def in_python(detail: str) -> str:
    """Rewrites the advice in an error from the syntax of a request to calls of this package."""
    for form, call in IN_PYTHON:
        detail = form.sub(call, detail)
    return detail


class MalformedRequest(ProblemError): ...
class IndexOutOfBounds(ProblemError, IndexError): ...
class ShapeMismatch(ProblemError): ...
class InvalidAxis(ProblemError): ...
class InvalidBatchDims(ProblemError): ...
class InvalidEquation(ProblemError): ...
class UnsupportedDtype(ProblemError): ...
class InvalidArgument(ProblemError): ...
class KeyNotFound(ProblemError, LookupError): ...
class DivisionByZero(ProblemError, ZeroDivisionError): ...
class UnknownOp(ProblemError): ...
class TensorNotFound(ProblemError, LookupError): ...
class NotFound(ProblemError): ...
class MethodNotAllowed(ProblemError): ...
class NotAcceptable(ProblemError): ...
class UnsupportedMediaType(ProblemError): ...
class PreconditionFailed(ProblemError): ...
class Conflict(ProblemError): ...
class PayloadTooLarge(ProblemError): ...
class RangeNotSatisfiable(ProblemError): ...
class ResourceLimit(ProblemError): ...
class Unauthenticated(ProblemError): ...
class Forbidden(ProblemError): ...
class RequestTimeout(ProblemError): ...
class ClientLimit(ProblemError): ...
class ConnectionLimit(ProblemError): ...
class QueueFull(ProblemError): ...
class MemoryExhausted(ProblemError): ...
class Draining(ProblemError): ...
class DataDirLocked(ProblemError): ...
class DeviceUnavailable(ProblemError): ...
class DeadlineExceeded(ProblemError): ...
class NotSupported(ProblemError): ...
class Internal(ProblemError): ...


@contextmanager
def about_keys() -> Iterator[None]:
    """Rewrites errors about the indices of an op as errors about the argument `keys` that the caller passed."""
    try:
        yield
    except ProblemError as error:
        if error.input == "indices" or error.input == "indices.keys":
            detail = re.sub(r"^indices\b", "keys", error.detail)
            detail = re.sub("(has no keys to find rows by; )give row numbers as indices", r"\1pass row numbers to table.iloc[...], or to lookup --rows", detail)
            raise type(error)({**error.problem, "detail": detail, "input": "keys"}, error.status) from None
        raise


@contextmanager
def about_steps(places: Sequence[object]) -> Iterator[None]:
    """Adds the place of the failed step to errors. str() of an element of `places` describes the place of that step."""
    try:
        yield
    except ProblemError as error:
        if type(error.step) is int and 0 <= error.step < len(places):
            raise type(error)({**error.problem, "place": f"\n{places[error.step]}"}, error.status) from None
        raise


def code_of(name: str) -> str:
    """Returns the error code for a class name: INDEX_OUT_OF_BOUNDS for IndexOutOfBounds."""
    return "".join("_" + c if c.isupper() else c for c in name).lstrip("_").upper()


CLASSES = {code_of(one.__name__): one for one in ProblemError.__subclasses__()}


def problem_error(problem: dict[str, Any], status: int) -> ProblemError:
    return CLASSES.get(str(problem.get("code")), ProblemError)(problem, status)
