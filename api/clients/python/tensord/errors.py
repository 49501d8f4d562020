"""Errors: one class for each code of the daemon's problems, and those of the connection itself."""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

# Advice of the daemon that cannot be followed with arrays of NumPy, and what can be done in its place.
TO_BFLOAT16 = "the op cast with dtype = bfloat16"
BFLOAT16_HINT = ("; client.cast returns float32 in place of bfloat16: pass tensord.bfloat16(x), or the table in which"
                 " client.store(NAME).cast(x, 'bfloat16') stores it")
WITH_KEYS = ("gather", "embedding_bag")  # ops that take keys in place of indices
KEYS_HINT = "; a str is the name of a resident tensor: rows of a table are found by key with tensord.Keys([KEY])"


class TensordError(Exception):
    """Base of all errors of this package; `request_id` finds the request in the daemon's log."""

    request_id: Optional[str] = None


class ConnectionLost(TensordError, ConnectionError):
    """The daemon could not be reached, or the connection broke."""


class Timeout(TensordError, TimeoutError):
    """The time of the call was over before its reply was complete."""


class ProtocolError(TensordError):
    """The reply is not what a daemon sends: truncated, of a wrong size, or not HTTP."""


class ReplyTooLarge(ProtocolError):
    """The reply is longer than `max_reply`, or than the memory."""


class ProblemError(TensordError):
    """An error reply.  Its members are attributes: `code`, `status`, `detail`, `request_id`, and those of
    the code, such as `position`; one that the reply does not have is None."""

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
    title: Optional[str]
    type: Optional[str]

    def __init__(self, problem: dict[str, Any], status: int = 0):
        self.detail = str(problem.get("detail", problem.get("title", f"status {status}")))
        self.is_of_rows = problem.get("code") == "TENSOR_NOT_FOUND" and problem.get("input") == "indices" and problem.get("op") in WITH_KEYS
        super().__init__(in_python(self.detail) + (BFLOAT16_HINT if TO_BFLOAT16 in self.detail else KEYS_HINT if self.is_of_rows else ""))
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
    """the advice of an error, which is written as a request has it, as this package is called"""
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
    """errors of a call whose argument `keys` stands for the indices of an op"""
    try:
        yield
    except ProblemError as error:
        if error.input == "indices" or error.input == "indices.keys":
            detail = re.sub(r"^indices\b", "keys", error.detail)
            detail = re.sub("(has no keys to find rows by; )give row numbers as indices", r"\1row numbers are for table.iloc[...], or lookup --rows", detail)
            raise type(error)({**error.problem, "detail": detail, "input": "keys"}, error.status) from None
        raise


def code_of(name: str) -> str:
    """INDEX_OUT_OF_BOUNDS for IndexOutOfBounds"""
    return "".join("_" + c if c.isupper() else c for c in name).lstrip("_").upper()


CLASSES = {code_of(one.__name__): one for one in ProblemError.__subclasses__()}


def problem_error(problem: dict[str, Any], status: int) -> ProblemError:
    return CLASSES.get(str(problem.get("code")), ProblemError)(problem, status)
