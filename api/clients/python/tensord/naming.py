"""Names of the results of steps: keys of the returned dict, variables of the function, or the op with a number.

A result that the function returns under a key has this key as its name in the program. A key that is not a valid name is an error,
because the results would have different names when the program is stored."""
from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Optional

from .tracing import Place, Step, Traced

VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
# Members of requests and parameters of the Open Inference Protocol, which the daemon reserves.
RESERVED = frozenset(("inputs", "outputs", "steps", "ttl_s", "priority", "timeout", "headers", "binary_data_output", "sequence_id", "sequence_start",
                      "sequence_end", "complex", "content_type", "device", "response", "timing", "store", "output_dtype"))
EXPECTED = "a letter or _, followed by at most 63 letters, digits or _"


def is_valid(name: object) -> bool:
    return isinstance(name, str) and VALID.match(name) is not None and name not in RESERVED


class Assignment(NamedTuple):
    """An assignment to variables, and its lines."""
    first: int
    last: int
    variables: tuple[str, ...]


@lru_cache(maxsize=64)
def assignments(text: str) -> list[Assignment]:
    """Returns the assignments in the text of a file, `x = ...` or `x, y = ...`."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return []
    found = []
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and not isinstance(node.value, ast.Tuple):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            if all(isinstance(part, ast.Name) for part in parts):
                found.append(Assignment(node.lineno, node.end_lineno or node.lineno, tuple(part.id for part in parts if isinstance(part, ast.Name))))
    return found


def assignment_at(place: Place) -> Optional[Assignment]:
    """Returns the innermost assignment around a place, if the source of the function is known."""
    around = (one for one in assignments("".join(linecache.getlines(place.file))) if one.first <= place.line <= one.last)
    return min(around, key=lambda one: one.last - one.first, default=None)


def variables_of(steps: Iterable[Step]) -> dict[int, tuple[str, ...]]:
    """Returns the variables that get the results of steps, by id(step). The last instruction of an assignment computes the assigned value."""
    last: dict[tuple[str, Assignment], int] = {}
    found = [(step, assignment) for step in steps if (assignment := assignment_at(step.place)) is not None]
    for step, assignment in found:
        key = (step.place.file, assignment)
        last[key] = max(step.place.instruction, last.get(key, -1))
    return {id(step): assignment.variables for step, assignment in found if step.place.instruction == last[step.place.file, assignment]}


def suggestions(step: Step, variables: tuple[str, ...]) -> list[str]:
    """Returns a name for each result of a step."""
    if len(variables) == len(step.results):
        return list(variables)
    if len(variables) == sum(step.used) == 1:
        return list(variables) * len(step.results)
    if len(step.results) == 1:
        return [step.op]
    base = variables[0] if len(variables) == 1 else step.op
    return [f"{base}_{output}" for output in step.outputs]


def result_keys(parameters: Iterable[str], found: Iterable[tuple[Optional[str], Traced]]) -> dict[str, Traced]:
    """Returns the results that have a key. Raises ValueError for a key that cannot be a name."""
    parameters, keys = set(parameters), dict[str, Traced]()
    for key, result in found:
        if key is None:
            continue
        if not is_valid(key):
            raise ValueError(f"the key {key!r} is {'reserved for requests' if key in RESERVED else 'not a name'}; expected {EXPECTED}")
        if key in parameters:
            raise ValueError(f"the key {key!r} is the name of a parameter; expected a new name")
        if keys.setdefault(key, result) is not result:
            raise ValueError(f"two results have the key {key!r}; expected a new name for each")
    return keys


def set_names(parameters: Iterable[str], keys: dict[str, Traced], steps: Iterable[Step]) -> None:
    """Names the results of the steps. `keys` are the results that the function returns by name. No result gets the name of a parameter."""
    taken: set[Optional[str]] = {*parameters, *keys}
    for key, result in keys.items():
        result._name = result._name or key

    def set_name(result: Traced, name: str) -> None:
        name = name[:56] if is_valid(name[:56]) else f"{name[:56]}_" if is_valid(name[:56] + "_") else "result"
        names = (name if n == 1 else f"{name}_{n}" for n in range(1, len(taken) + 2))
        result._name = next(one for one in names if one not in taken)
        taken.add(result._name)

    steps = list(steps)
    variables = variables_of(steps)
    for step in steps:
        for result, name, used in zip(step.results, suggestions(step, variables.get(id(step), ())), step.used):
            if used and result._name is None:
                set_name(result, name)


def return_place(function: Callable[..., Any]) -> Optional[Place]:
    """Returns the place of the only `return` of a function, or of its first line."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    lines = [code.co_firstlineno]
    for node in function_nodes("".join(linecache.getlines(code.co_filename))):
        if node.name == code.co_name and min([node.lineno, *(one.lineno for one in node.decorator_list)]) == code.co_firstlineno:
            returns = [one.lineno for one in own_nodes(node) if isinstance(one, ast.Return)]
            lines = returns if len(returns) == 1 else [node.lineno]
    return Place(code.co_filename, lines[0], code.co_name, 0)


def function_nodes(text: str) -> list[ast.FunctionDef]:
    try:
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    except SyntaxError:
        return []


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Returns the nodes in a function, except those in functions inside it."""
    for one in ast.iter_child_nodes(node):
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield one
            yield from own_nodes(one)
