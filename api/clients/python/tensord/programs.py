"""Programs: functions that are traced into the steps of one request."""
from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any, NamedTuple, Optional, overload

import numpy as np

from . import calls
from .arguments import Argument, Fixed, argument_json, is_argument
from .arrays import Input, Ref, Symbol, Tensor, to_json
from .calls import Call, attribute, json_members, present
from .errors import about_steps
from .http1 import Reply
from .naming import is_valid, result_keys, return_place, set_names
from .ranks import index_dtype, rank_of
from .specs import Spec, declaration, declared_json, input_json
from .stored_errors import about_stored_program
from .tracing import CURRENT, Place, Step, Trace, Traced, tracing

NAMED = "a parameter needs the name of an input: letters, digits and _, and no member of requests, such as device"
SHOWN = 160  # maximum number of characters of a step in an error


@dataclass
class Request:
    """A program with its inputs, the places of its steps (str() of a place is shown in errors), and a function that converts the reply."""
    program: dict[str, Any]
    places: Sequence[object]
    results: Callable[[Reply], Any]


def request(program: Any, args: tuple[Any, ...], inputs: dict[str, Any]) -> Request:
    """Returns the request that runs a traced function, or a program given as a dict."""
    if isinstance(program, Program):
        return program._request(program.signature.bind(*args, **inputs))
    if not isinstance(program, Mapping):
        raise TypeError(f"program: a {type(program).__name__}; pass a function with the decorator @tensord.program, the name of a stored program, or the JSON of a program as a dict")
    if args:
        raise TypeError("a program given as a dict takes its inputs by name")
    given = {**program.get("inputs", {}), **{name: input_json(value, name) for name, value in inputs.items()}}
    missing = [name for name, value in given.items() if isinstance(value, Mapping) and not value.keys() & {"data", "base64", "ref"}]
    if missing:
        raise TypeError(f"missing the input {missing[0]!r} of the program, {json.dumps(given[missing[0]])}")
    return Request({**program, "inputs": given}, step_texts(program), calls.arrays)


def stored_request(program: Any, fixed: dict[str, Any]) -> Request:
    """Returns the request that stores a traced function, or a program given as a dict. `fixed` has values for parameters of the function."""
    if isinstance(program, Program):
        return program._stored(fixed)
    if not isinstance(program, Mapping) or fixed:
        raise TypeError("program: pass a function with the decorator @tensord.program, with values of its parameters, or the JSON of a program as a dict")
    return Request(dict(program), step_texts(program), calls.arrays)


def call_of(program: Any, args: tuple[Any, ...], inputs: dict[str, Any], device: Optional[str],
            output_dtype: Any) -> tuple[Call[Any], AbstractContextManager[None]]:
    """Returns the call that runs a program, and a context that adds the place of the failed step to errors."""
    whole = present({"device": device, "output_dtype": output_dtype})
    if isinstance(program, str) and args:
        raise TypeError("a stored program takes its inputs and arguments by name")
    if isinstance(program, str):
        return calls.stored_program_call(program, inputs, whole), about_stored_program(program, inputs)
    made = request(program, args, inputs)
    return calls.program_call({**made.program, **whole}, made.results), about_steps(made.places)


def step_texts(program: Mapping[str, Any]) -> list[StepText]:
    return [StepText(*one) for one in enumerate(program.get("steps", []))]


class StepText(NamedTuple):
    """A step of a program given as a dict."""
    number: int
    step: Any

    def __str__(self) -> str:
        text = json.dumps(self.step)
        return f"  in step {self.number} of the program, {text if len(text) <= SHOWN else text[:SHOWN] + '…'}"


@overload
def program(function: Callable[..., Any], /) -> Program: ...


@overload
def program(**inputs: Spec) -> Callable[[Callable[..., Any]], Program]: ...


def program(function: Any = None, /, **inputs: Spec) -> Any:
    """Turns a function into a program: its ops run in the daemon, in one request.

        @tensord.program
        def best(query, ids, movies, k=10):
            scores = tensord.steps.einsum("nd,d->n", movies[ids], query)
            values, place = tensord.steps.top_k(scores, k)
            return {"who": ids[place], "best": values}

        client.run(best, query, ids, "movies", k=5)

    Parameters without a default are tensors: arrays, or tables by name. Parameters with a default, such as k, are ordinary Python
    values, which can be attributes of ops and decide what the function does. If the default is an array, the parameter is a tensor.

    @tensord.program(query=tensord.spec("float32", 64), ids=tensord.spec("int64", "n")) declares the dtypes and shapes of inputs.

    The function computes with the ops of tensord.steps, which have the arguments of the client's methods, and with operators and
    x[...]. It returns a tensor, or tuples, lists and dicts of tensors."""
    return Program(function) if function is not None else partial(Program, inputs=inputs)


class Program:
    """A function with the decorator @tensord.program. client.run(program, ...) runs it."""

    def __init__(self, function: Callable[..., Any], inputs: Optional[Mapping[str, Spec]] = None):
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise TypeError("@tensord.program takes a function that is not async: it runs in this process, and records what the daemon computes")
        self.function, self.signature = function, inspect.signature(function)
        self.tensors = [one.name for one in self.signature.parameters.values() if is_tensor(one)]
        self.specs = dict(inputs or {})
        for name, one in self.specs.items():
            if name not in self.tensors or not isinstance(one, Spec):
                raise TypeError(f"{name}: {one!r}; expected tensord.spec(...) for a parameter that is a tensor: {', '.join(self.tensors)}")
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<program {self._title}{self.signature}>"

    @property
    def _title(self) -> str:
        return str(getattr(self.function, "__name__", "function"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records the steps of this function in the traced function that calls it."""
        if CURRENT.get() is None:
            raise TypeError(f"{self._title} is a program; client.run({self._title}, ...) runs it")
        return self.function(*args, **kwargs)

    def to_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the program with these arguments as the body of POST /v1/programs/run.

        In "inputs", a tensor that is not passed is declared if it has a tensord.spec, and otherwise missing."""
        return self._request(self.signature.bind_partial(*args, **kwargs)).program

    def json(self, *args: Any, **kwargs: Any) -> str:
        """Returns to_dict(...) as JSON, with a line for each step. Each tensor must have a value or a tensord.spec."""
        made = self.to_dict(*args, **kwargs)
        missing = [name for name in self.tensors if name not in made["inputs"]]
        if missing:
            raise TypeError(f"{self._title}: the input {missing[0]} has neither a value nor a declaration, so the JSON would not be a program; pass {missing[0]},"
                            f" or add @tensord.program({missing[0]}=tensord.spec(...))")
        return program_text(made)

    def stored(self, **fixed: Any) -> dict[str, Any]:
        """Returns the program in the form that PUT /v1/programs/{name} takes, with declared inputs.

        Parameters with a default that are attributes of ops become arguments, which each call can set. All other parameters with a
        default are fixed: at the value in `fixed`, or at the default."""
        return self._stored(fixed).program

    def _stored(self, fixed: dict[str, Any]) -> Request:
        undeclared = [name for name in self.tensors if name not in self.specs]
        if undeclared:
            raise TypeError(f"{self._title}: a stored program declares its inputs; add @tensord.program({undeclared[0]}=tensord.spec(...))")
        unknown = [name for name in fixed if name not in self.signature.parameters or name in self.tensors]
        if unknown:
            raise TypeError(f"{unknown[0]} is not a parameter of {self._title} with a default")
        fixed = dict(fixed)
        while True:
            bound = self.signature.bind_partial(**fixed)
            for name, parameter in self.signature.parameters.items():
                if name not in self.tensors and name not in fixed and isinstance(parameter.default, (*calls.ATTRIBUTES, np.generic)):
                    bound.arguments[name] = Argument(name, attribute(name, parameter.default))
            try:
                return self._request(bound, stored=True)
            except Fixed as error:
                fixed[error.name] = self.signature.parameters[error.name].default

    def _request(self, bound: inspect.BoundArguments, stored: bool = False) -> Request:
        bound.apply_defaults()
        given = {name: bound.arguments[name] for name in self.tensors if name in bound.arguments}
        with tracing(self._title) as trace:
            inputs = {name: Traced(trace, f"the input {name}", *self._facts(given, name)) for name in self.tensors}
            bound.arguments.update(inputs)
            try:
                returned = self.function(*bound.args, **bound.kwargs)
            except RecursionError as error:
                raise self._endless(error) from None
        found = leaves(returned, trace)
        live = live_steps(trace, [one for _, one in found])
        self._refuse_unused(inputs, live)
        for name, one in inputs.items():
            one._name = name
        set_names(self.signature.parameters, self._keys(found, stored), live)
        names = list(dict.fromkeys(str(one._name) for _, one in found))
        body = {"inputs": self._inputs(given), "steps": [step_json(step) for step in live], "outputs": names}
        return Request(body, live, lambda reply: arranged(returned, calls.arrays(reply)))

    def _endless(self, error: RecursionError) -> TypeError:
        """Returns the error of a function that calls itself until Python stops it, with the line of its first call."""
        at = error.__traceback__
        while at is not None and at.tb_frame.f_code is not getattr(self.function, "__code__", None):
            at = at.tb_next
        place = "" if at is None else f"\n{Place(at.tb_frame.f_code.co_filename, at.tb_lineno, self._title, at.tb_lasti)}"
        return TypeError(f"{self._title} calls itself without end; a program is traced before its tensors have values, so only Python values, such as a parameter"
                         f" depth=3, can end the calls{place}")

    def _facts(self, given: dict[str, Any], name: str) -> tuple[Optional[int], str]:
        """Returns what is known of an input: its rank or None, and its dtype or ""."""
        one = self.specs.get(name)
        if one is not None:
            return len(one.shape), one.dtype
        return (rank_of(given[name]), index_dtype(given[name])) if name in given else (None, "")

    def _keys(self, found: list[tuple[Optional[str], Traced]], stored: bool) -> dict[str, Traced]:
        """Returns the results that have a key, which becomes their name. In a stored program, no result can have two keys."""
        try:
            keys = result_keys(self.signature.parameters, found)
            first = {id(one): key for key, one in reversed(keys.items())}
            twice = [key for key, one in keys.items() if first[id(one)] != key]
            if stored and twice:
                raise ValueError(f"the results {first[id(keys[twice[0]])]!r} and {twice[0]!r} are the same tensor, which a program returns only once")
        except ValueError as error:
            place = return_place(self.function)
            raise TypeError(f"{self._title}: {error}" + (f"\n{place}" if place else "")) from None
        return keys

    def _inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the inputs in JSON: values, or declarations."""
        sizes: dict[str, int] = {}
        made = {}
        for name in self.tensors:
            if name in given and name in self.specs:
                made[name] = declared_json(given[name], name, self.specs[name], sizes)
            elif name in given:
                made[name] = input_json(given[name], name)
            elif name in self.specs:
                made[name] = declaration(self.specs[name])
        return made

    def _refuse_unused(self, inputs: dict[str, Traced], live: list[Step]) -> None:
        used = {id(value) for step in live for value in step.inputs.values()}
        unused = [name for name, one in inputs.items() if id(one) not in used]
        if unused:
            raise TypeError(f"{self._title}: no result depends on the input {unused[0]}; remove this parameter, or give it a default if it is not a tensor")


def program_text(program: Mapping[str, Any]) -> str:
    """Returns a program as JSON, with a line for each step."""
    steps = ",\n".join("  " + json.dumps(step) for step in program["steps"])
    return f'{{"inputs": {json.dumps(program["inputs"])},\n "steps": [\n{steps}],\n "outputs": {json.dumps(program["outputs"])}}}\n'


def is_tensor(parameter: inspect.Parameter) -> bool:
    """True if the parameter is a tensor, and not a Python value."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"{parameter}: a program needs a parameter for each input")
    if not is_valid(parameter.name):
        raise TypeError(f"{parameter.name}: {NAMED}")
    default = parameter.default
    return default is parameter.empty or isinstance(default, (np.ndarray, Ref, Tensor)) or isinstance(getattr(default, "reference", None), Ref)


def leaves(returned: Any, trace: Trace, key: Optional[str] = None) -> list[tuple[Optional[str], Traced]]:
    """Returns the tensors that a function returned, each with its key: the keys and positions that lead to it, joined with _. Positions
    count only below a key."""
    def below(name: object, one: Any) -> list[tuple[Optional[str], Traced]]:
        return leaves(one, trace, None if name is None else str(name) if key is None else f"{key}_{name}")

    if isinstance(returned, Mapping):
        return [leaf for name, one in returned.items() for leaf in below(name, one)]
    if isinstance(returned, (tuple, list)):
        names = getattr(returned, "_fields", [None] * len(returned) if key is None else range(len(returned)))
        return [leaf for name, one in zip(names, returned) for leaf in below(name, one)]
    if not isinstance(returned, Traced):
        raise TypeError(f"{trace.function} returns {returned!r}; expected tensors that it has computed, or tuples, lists and dicts of them")
    if returned._trace is not trace or all(returned is not result for step in trace.steps for result in step.results):
        raise TypeError(f"{trace.function} returns {returned._what}; expected results of its own steps")
    return [(key, returned)]


def arranged(returned: Any, arrays: dict[str, Any]) -> Any:
    """Returns what the function returned, with arrays instead of tensors."""
    if isinstance(returned, Traced):
        return calls.pick(arrays, str(returned._name))
    if isinstance(returned, Mapping):
        return {name: arranged(one, arrays) for name, one in returned.items()}
    made = [arranged(one, arrays) for one in returned]
    return type(returned)(*made) if hasattr(returned, "_fields") else tuple(made) if isinstance(returned, tuple) else made


def live_steps(trace: Trace, results: list[Traced]) -> list[Step]:
    """Returns the steps on which the results depend."""
    if not results:
        raise TypeError(f"{trace.function} returns no tensor")
    used, live = {id(one) for one in results}, []
    for step in reversed(trace.steps):
        if any(id(result) in used for result in step.results):
            used.update(id(value) for value in step.inputs.values() if isinstance(value, Symbol))
            live.append(step)
        step.used = [id(result) in used for result in step.results]
    return live[::-1]


def step_json(step: Step) -> dict[str, Any]:
    attributes = {name: argument_json(value) if is_argument(value) else value for name, value in step.attributes.items()}
    return {"op": step.op, **json_members(step.inputs, reference), **attributes, "as": result_names(step)}


def reference(value: Input) -> Any:
    return f"${value._name}" if isinstance(value, Traced) else to_json(value)


def result_names(step: Step) -> Any:
    """Returns the names of the results that are used, in the form of the op's outputs."""
    names = [result._name if used else None for result, used in zip(step.results, step.used)]
    if step.outputs == (None,):
        return names[0]
    return names if step.outputs == tuple(range(len(names))) else {output: name for output, name in zip(step.outputs, names) if name is not None}
