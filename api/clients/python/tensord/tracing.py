"""Traced functions: their tensors, the ops on them, and the steps that the ops record."""
from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Optional

from . import calls
from .arrays import Floats, Given, Input, Symbol, Tensor
from .calls import OpCall
from .indexing import indexed
from .inputs import common_float, refused, typed
from .ops import Ops
from .ranks import result_dtype, product, result_rank

LISTS = {"dynamic_partition": "num_partitions"}  # ops that return a list, and the attribute with its length
NAMED: dict[Any, Any] = {calls.found_rows: calls.Found, calls.selected: calls.Selected, calls.matches: calls.Matches}
WHOLE = {"device": "pass it to client.run", "timeout": "pass it to client.run",
         "output_dtype": "use tensord.steps.cast, or pass output_dtype to client.run for the results of the program"}


class Place(NamedTuple):
    """A place in a function: the file, the line, the name of the function, and the position of the instruction in its code."""
    file: str
    line: int
    function: str
    instruction: int

    def __str__(self) -> str:
        """Returns the place as Python's tracebacks show it."""
        text = linecache.getline(self.file, self.line).strip()
        return f'  File "{self.file}", line {self.line}, in {self.function}' + (f"\n    {text}" if text else "")


@dataclass(eq=False)
class Step:
    """A step of a program. `outputs` has the names of its results, or their numbers in a list, or None for an op with a single result."""
    op: str
    inputs: dict[str, Input]
    attributes: dict[str, Any]
    outputs: tuple[Any, ...]
    place: Place
    results: tuple[Traced, ...] = ()
    used: list[bool] = field(default_factory=list)  # for each result, True if the program uses it
    hint: str = ""  # advice if the step fails

    def __str__(self) -> str:
        """Returns the place of the step, for errors."""
        return f"{self.place}\n    {self.hint}" if self.hint else str(self.place)


@dataclass(eq=False)
class Trace:
    """The steps of one run of a function, in order."""
    function: str
    steps: list[Step] = field(default_factory=list)

    def add(self, call: OpCall) -> tuple[Traced, ...]:
        """Adds a step, and returns its results."""
        for name, value in call.inputs.items():
            if isinstance(value, Traced) and value._trace is not self:
                raise TypeError(f"{name}: a tensor of another run of a traced function ({value._trace.function}); pass it as an argument")
        step = Step(call.op, with_floats(call.inputs), call.attributes, output_names(call), place())
        step.results = tuple(Traced(self, f"the result of {call.op}", result_rank(call), result_dtype(call)) for _ in step.outputs)
        self.steps.append(step)
        return step.results


CURRENT: ContextVar[Optional[Trace]] = ContextVar("tensord_trace", default=None)


@contextmanager
def tracing(function: str) -> Iterator[Trace]:
    """Records the ops of tensord.steps in a new trace."""
    trace = Trace(function)
    token = CURRENT.set(trace)
    try:
        yield trace
    finally:
        CURRENT.reset(token)


def place() -> Place:
    """Returns the place of the innermost call that is not in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_lasti)


def output_names(call: OpCall) -> tuple[Any, ...]:
    if call.op in LISTS:
        return tuple(range(call.attributes[LISTS[call.op]]))
    found = NAMED.get(call.decode)
    return (None,) if found is None else tuple(found._fields)


def with_floats(inputs: dict[str, Given]) -> dict[str, Input]:
    """Gives floats that JSON cannot represent, such as infinities, the dtype of the arrays that they are used with, or float32."""
    name = next((value.name for value in inputs.values() if isinstance(value, Floats)), "")
    dtype = name and common_float((value.dtype for value in inputs.values() if isinstance(value, Tensor)), name)
    return {name: typed(value, dtype or "float32") if isinstance(value, Floats) else value for name, value in inputs.items()}


class Traced(Symbol):
    """A tensor in a traced function: an input, or the result of a step. It has no values, and its shape is not known. `rank` is known
    for inputs with a declaration or a value, and for results of many ops.

    Operators, x[...] and the functions of tensord.steps record steps."""

    __array_ufunc__ = None  # With this, NumPy leaves array * x to this class.
    __hash__ = None  # type: ignore[assignment]  # == compares elements.

    def __init__(self, trace: Trace, what: str, rank: Optional[int] = None, dtype: str = ""):
        self._trace, self._what, self._rank, self._dtype = trace, what, rank, dtype
        self._name: Optional[str] = None

    def __repr__(self) -> str:
        return f"<{self._what} in the traced function {self._trace.function}>"

    def __getattr__(self, name: str) -> NoReturn:
        op = next((op for op in (name, "reduce_" + name) if op in OPS), None)
        hint = f"; ops are functions: tensord.steps.{op}(x)" if op else ""
        raise AttributeError(f"{self._what} has no attribute {name!r}: a traced tensor has neither values nor a shape until the program runs{hint}")

    def __getitem__(self, index: Any) -> Any:
        return indexed(steps, self, index)

    def __bool__(self) -> NoReturn:
        self._refuse("a bool", "if, while, and, or, not and chained comparisons cannot depend on it; use tensord.steps.where, & and |")

    def __len__(self) -> NoReturn:
        self._refuse("a length", "its shape is not known until the program runs; give the parameter of the function a default, such as n=10")

    def __iter__(self) -> Iterator[Any]:
        self._refuse("an iterator", "index it with x[i], or pass [x] where a list of tensors is expected")

    def __contains__(self, _: object) -> NoReturn:
        self._refuse("elements for `in`", "use tensord.steps.reduce_any(x == y)")

    def __setitem__(self, *_: object) -> NoReturn:
        self._refuse("elements that can be set", "use tensord.steps.where or dynamic_stitch, which return a new tensor")

    def __index__(self) -> int:
        self._refuse("an integer", "an attribute, the bound of a slice and the index of a list cannot depend on values; for rows of a table by"
                                   " name, use tensord.steps.gather(name, x)")

    def _number(self) -> NoReturn:
        self._refuse("a number", "use tensord.steps.cast to convert it")

    __int__ = __float__ = __complex__ = __round__ = __trunc__ = _number

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse("values, so NumPy cannot compute with it", "use the ops of tensord.steps")

    def _refuse(self, lacks: str, way_out: str) -> NoReturn:
        raise TypeError(f"{self._what} is a tensor of a traced function and does not have {lacks}: {way_out}")


class Steps(Ops[Traced, list[Traced], Any, Any, Any]):
    """The ops in a traced function. They have the arguments of the client's methods, and return traced tensors. Each call records a step."""

    def run_op(self, call: OpCall, timeout: Optional[float]) -> Any:
        trace = CURRENT.get()
        if trace is None:
            raise TypeError(f"tensord.steps.{call.op} works only in a function with the decorator @tensord.program; elsewhere, use client.{call.op}")
        whole = [name for name in WHOLE if name in call.attributes or name == "timeout" and timeout is not None]
        if whole:
            raise refused(whole[0], "an argument of the whole program, not of a step", WHOLE[whole[0]])
        results = trace.add(call)
        if call.op in LISTS:
            return list(results)
        return NAMED[call.decode](*results) if call.decode in NAMED else results[0]


steps = Steps()
OPS = [name for name in vars(Ops) if not name.startswith("_") and name != "run_op"]
OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "floor_mod",
             "pow": "power", "and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
UNARY = {"neg": "negative", "abs": "abs", "invert": "logical_not"}


def matmul(x: Any, y: Any) -> Any:
    """Returns x @ y by NumPy's rules. A tensor whose rank is not known counts as a matrix, unless the equation also holds for a vector."""
    equation, rank, hint = product(x, y)
    made = steps.einsum(equation, x, y)
    made._rank, made._trace.steps[-1].hint = rank, hint
    return made


def define(name: str, function: Callable[..., Any], reverse: bool = False) -> None:
    def method(self: Traced, *other: Any) -> Any:
        return function(*other, self) if reverse else function(self, *other)
    setattr(Traced, f"__{name}__", method)


for _name, _op in {**OPERATORS, **COMPARISONS, **UNARY}.items():
    define(_name, getattr(steps, _op))
for _name, _op in OPERATORS.items():
    define("r" + _name, getattr(steps, _op), True)
define("matmul", matmul)
define("rmatmul", matmul, True)
