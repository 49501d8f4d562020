"""Calls: builds requests, and converts replies to values. This module does no I/O."""
from __future__ import annotations

import json
import operator
import warnings
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar, Union
from urllib.parse import quote, urlencode

import numpy as np

from . import safetensors
from .arguments import is_argument, refuse_arguments
from .arrays import NUMPY, Array, Floats, Given, Input, Keys, Plain, Ref, Symbol, Tensor, from_json, numel, split_strings, to_json
from .errors import ProtocolError
from .http1 import Reply
from .inputs import KEYS, as_input, as_operand, as_row_numbers, common_float, dtype_name, is_text, refused, typed, with_all_digits
from .progress import Progress, progress_of

T = TypeVar("T")
JSON, SAFETENSORS = "application/json", "application/vnd.safetensors"
ACCEPT = f"{SAFETENSORS}, {JSON};q=0.5"
Description = dict[str, Any]
ATTRIBUTES = (bool, int, float, str, list, tuple)  # classes of the values of attributes


class Untyped(NamedTuple):
    """The inputs and attributes of a call whose body cannot be built yet, and the tables whose dtypes determine it."""
    inputs: Mapping[str, Given]
    attributes: dict[str, Any]
    tables: list[str]


@dataclass
class Call(Generic[T]):
    method: str
    path: str
    decode: Callable[[Reply], T]
    body: list[Any] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    idempotent: bool = True
    progress: Optional[Progress] = None
    untyped: Optional[Untyped] = None  # set while `body` cannot be built
    otherwise: Optional[Call[T]] = None  # call to send instead if safetensors lacks the dtype of the reply


class OpCall(NamedTuple):
    """A call of an op: its name, the function that converts its reply, its inputs by their names in a safetensors file, and its attributes.
    `indices` names the inputs that are row numbers."""
    op: str
    decode: Callable[[Reply], Any]
    inputs: dict[str, Given]
    attributes: dict[str, Any]
    indices: tuple[str, ...]


class Found(NamedTuple):
    """Rows by key, and for each key True if it exists."""
    output: Array
    found: Array


class Selected(NamedTuple):
    """The selected elements of each row, and their positions."""
    values: Array
    indices: Array


class Matches(NamedTuple):
    """The best rows of each query: their scores, row numbers and, if the table has keys, keys.

    If fewer rows qualify, the remaining entries have the row number -1. str() is a table with a line for each row.
    """
    scores: Array
    indices: Array
    keys: Optional[Array] = None

    def _columns(self) -> list[str]:
        return ["query"] * (self.indices.ndim > 1) + ["key"] * (self.keys is not None) + ["row", "score"]

    def _lines(self) -> list[list[Any]]:
        lines = []
        for at in np.ndindex(self.indices.shape):
            if self.indices[at] >= 0:
                query = [at[0]] * (len(at) > 1)
                key = [] if self.keys is None else [self.keys[at]]
                lines.append([*query, *key, int(self.indices[at]), self.scores[at].item()])
        return lines

    def to_pandas(self) -> Any:
        """Returns a pandas DataFrame with a line for each row: query (unless there is a single query), key, row, score."""
        return import_module("pandas").DataFrame(self._lines(), columns=self._columns())

    def __str__(self) -> str:
        columns = self._columns()
        cells = [columns, *([*map(str, line[:-1]), f"{line[-1]:.6g}"] for line in self._lines())]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join("  ".join(cell.ljust(width) if name == "key" else cell.rjust(width)
                                   for cell, width, name in zip(line, widths, columns)).rstrip() for line in cells)


class Conditions(NamedTuple):
    """ETags that the tensor must have (if_match) or must not have (if_none_match). "*" matches any tensor."""
    if_match: Optional[str] = None
    if_none_match: Optional[str] = None

    def headers(self) -> dict[str, str]:
        return {name: value for name, value in (("If-Match", self.if_match), ("If-None-Match", self.if_none_match)) if value is not None}


# ---------------------------------------------------------------- requests
def given_input(inputs: dict[str, Given], name: str, value: Any, index: bool, argument: str, key: bool = False) -> None:
    """Adds the input `name`, converted from `value`. Errors call the input `argument`. Keys can be in JSON notation."""
    if index and isinstance(value, dict) and set(value) == {"keys"}:
        value = Keys(value["keys"])
    if isinstance(value, Keys) and not index:
        raise refused(argument, "tensord.Keys", "pass the rows with these keys: table[KEYS], or client.gather(table, tensord.Keys(KEYS))")
    if isinstance(value, Keys):
        inputs[name + ".keys"] = as_input(listed_key(value.values), argument)
    else:
        inputs[name] = as_row_numbers(value, argument) if index else as_operand(value, argument, key=key)


def flat_inputs(arguments: dict[str, Any], lists: tuple[str, ...] = (), indices: tuple[str, ...] = (),
                optional: tuple[str, ...] = (), keys: tuple[str, ...] = KEYS) -> dict[str, Given]:
    """Returns the inputs by their names in a safetensors file. The tensors of a list X are X.0, X.1, ..."""
    inputs: dict[str, Given] = {}
    for name, value in arguments.items():
        if name in lists:
            for at, one in enumerate(tensors(value, name)):
                given_input(inputs, f"{name}.{at}", one, name in indices, f"{name}[{at}]")
        elif value is not None or name not in optional:
            given_input(inputs, name, value, name in indices, name, name in keys)
    return inputs


def tensors(value: Any, name: str) -> Iterable[Any]:
    """Returns the tensors of an argument that is a list of tensors."""
    if value is None or isinstance(value, (str, bytes, dict, Set)) or getattr(value, "__iter__", None) is None:
        raise refused(name, "None" if value is None else f"a {type(value).__name__}", "pass a list of tensors")
    found: Iterable[Any] = value
    return found


def operands(given: tuple[Any, ...], inputs: Any, equation: Optional[str], name: str = "inputs") -> tuple[Any, str]:
    """Returns the inputs and the equation of einsum.

    Accepted forms: einsum("ij,j->i", a, b), einsum("ij,j->i", [a, b]) and einsum([a, b], equation="ij,j->i")."""
    named = equation is not None
    if equation is None:
        if not given or not isinstance(given[0], str):
            raise refused("equation", "None", 'pass it first, as in einsum("ij,j->i", a, b)')
        equation, given = given[0], given[1:]
    if given and inputs is not None:
        raise refused(name, "given twice", "pass them by position or by name")
    if inputs is None:
        # After an equation with one operand, a list is the operand, as in NumPy. Otherwise the list contains all operands,
        # as in PyTorch.
        listed = len(given) == 1 and (named or "," in equation and isinstance(given[0], (list, tuple)))
        inputs = given[0] if listed else given
    return inputs, equation


def listed_key(keys: Any) -> Any:
    """Wraps a str in a list, because a str for keys is one key and not the name of a resident tensor."""
    return [keys] if isinstance(keys, str) else keys


def one_or_more_keys(keys: Any) -> Keys:
    """Returns keys as an input without dimensions for a str, and as a vector for a list."""
    return Keys(as_input(np.array(keys, dtype=object) if isinstance(keys, (str, bytes)) else keys, "keys"))


def rows_or_keys(value: Any) -> Any:
    """Returns keys for a str, bytes or a list of them, and any other value unchanged."""
    return Keys(listed_key(value)) if is_text(value) and not isinstance(value, Keys) else value


def query_values(queries: Any) -> Any:
    """Converts queries, so that Python floats are float32 whatever the dtype of the table."""
    return queries if queries is None else typed(made, "float32") if isinstance(made := as_operand(queries, "queries", key=False), Floats) else made


def looked_up(keys: Any, queries: Any) -> tuple[Any, Any]:
    """Returns the keys of the rows, or None if only the keys to look up are passed, and the keys to look up."""
    return (keys, queries) if queries is not None else (None, as_input(listed_key(keys), "keys"))


def attribute_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def binary_body(inputs: dict[str, Input], attributes: dict[str, Any]) -> list[Any]:
    tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
    metadata = {name + ".ref": value.name for name, value in inputs.items() if isinstance(value, Ref)}
    metadata.update((name, attribute_text(value)) for name, value in attributes.items())
    return safetensors.pack(tensors, metadata)


def json_members(inputs: Mapping[str, Input], convert: Callable[[Input], Any] = to_json) -> dict[str, Any]:
    """Returns the inputs as members of a JSON request. `convert` converts each of them to JSON."""
    members: dict[str, Any] = {}
    for name, value in inputs.items():
        base, _, last = name.rpartition(".")
        if last.isdigit():
            members.setdefault(base, []).append(convert(value))
        elif last == "keys" and base:
            members[base] = {"keys": convert(value)}
        else:
            members[name] = convert(value)
    return members


def json_text(value: Any) -> bytes:
    return json.dumps(value).encode()


def encode(inputs: dict[str, Input], attributes: dict[str, Any]) -> tuple[list[Any], str]:
    """Encodes a body as safetensors, or as JSON if safetensors does not support an input: strings, complex128, or values
    without a dtype. Returns the body and its content type."""
    binary = all(isinstance(value, Ref) or isinstance(value, Tensor) and value.dtype in safetensors.CODES
                 for value in inputs.values())
    return (binary_body(inputs, attributes), SAFETENSORS) if binary else ([json_text({**attributes, **json_members(inputs)})], JSON)


def data_tables(inputs: Mapping[str, Given], indices: tuple[str, ...]) -> list[str]:
    """Returns the resident tensors, without duplicates, whose dtype can determine the dtype of Python floats."""
    others = {*indices, "keys", "queries"}
    return list(dict.fromkeys(value.name for name, value in inputs.items() if isinstance(value, Ref) and name.partition(".")[0] not in others))


def with_body(call: Call[T], inputs: Mapping[str, Given], attributes: dict[str, Any], indices: tuple[str, ...] = (),
              table: Optional[str] = None) -> Call[T]:
    """Sets the body of a call, or `untyped` if the dtype of a table must be known first because Python floats take it.

    `table` is the table that the call changes, if any."""
    floats, dtype = [value for value in inputs.values() if isinstance(value, Floats)], None
    if floats:
        dtype = common_float(map(known_dtype, inputs.values()), floats[0].name)
        tables = data_tables({**inputs, **({} if table is None else {"table": Ref(table)})}, indices)
        if dtype is None and tables:
            call.untyped = Untyped(inputs, attributes, tables)
            return call
    call.body, kind = encode(with_dtype(inputs, dtype or "float32"), attributes)
    call.headers["Content-Type"] = kind
    return call


def known_dtype(value: Given) -> Any:
    """Returns the dtype of an input, also of one in the API's JSON form; None if the input does not specify a dtype."""
    if isinstance(value, Plain):
        return value.value.get("dtype") if isinstance(value.value, dict) else None
    return value.dtype if isinstance(value, Tensor) else None


def with_dtype(inputs: Mapping[str, Given], dtype: str) -> dict[str, Input]:
    return {name: typed(value, dtype) if isinstance(value, Floats) else value for name, value in inputs.items()}


def completed(call: Call[T], untyped: Untyped, tables: list[Description]) -> Call[T]:
    """Returns the call with its body, built with the descriptions of the tables in `untyped`."""
    name = next(value.name for value in untyped.inputs.values() if isinstance(value, Floats))
    dtype = common_float((member(info, "dtype", str) for info in tables), name)
    made = replace(call, headers=dict(call.headers), untyped=None)
    return with_body(made, with_dtype(untyped.inputs, dtype or "float32"), untyped.attributes)


def present(attributes: dict[str, Any]) -> dict[str, Any]:
    out = {name: value for name, value in attributes.items() if value is not None}
    out.update((name, dtype_name(out[name])) for name in ("dtype", "output_dtype") if name in out)
    return {name: attribute(name, value) for name, value in out.items()}


def attribute(name: str, value: Any) -> Any:
    """Converts NumPy numbers and arrays in an attribute to Python values."""
    if is_argument(value):
        return value
    value = value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, Symbol):
        raise refused(name, "a tensor of a traced function, but an attribute cannot depend on values",
                      f"pass a number, or give the parameter of the function a default, such as {name}=10")
    if not isinstance(value, ATTRIBUTES):
        raise refused(name, f"a {type(value).__name__}", "pass a number, a bool, a str or a list of integers")
    if isinstance(value, (list, tuple)):
        refuse_arguments(value)
    return value


def op_call(op: str, decode: Callable[[Reply], Any], arguments: dict[str, Any], attributes: dict[str, Any],
            lists: tuple[str, ...] = (), indices: tuple[str, ...] = (), optional: tuple[str, ...] = (),
            keys: tuple[str, ...] = KEYS) -> OpCall:
    inputs, given = flat_inputs(arguments, lists, indices, optional, keys), present(attributes)
    if len(inputs) == 1 and given.get("dtype") in ("float64", "complex128"):
        inputs = {name: with_all_digits(value, name) for name, value in inputs.items()}
    return OpCall(op, decode, inputs, given, indices)


def op_request(given: OpCall) -> Call[Any]:
    call: Call[Any] = Call("POST", "/v1/" + given.op, given.decode, headers={"Accept": ACCEPT})
    return with_body(call, given.inputs, {**given.attributes, "response": "base64"}, given.indices)


def program_call(body: dict[str, Any], decode: Callable[[Reply], T]) -> Call[T]:
    return Call("POST", "/v1/programs/run", decode, [json_text({**body, "response": "base64"})], {"Accept": ACCEPT, "Content-Type": JSON})


def program_path(name: str, **query: Any) -> str:
    return resource_path("/v1/programs", name, **query)


def stored_program_call(name: str, given: dict[str, Any], whole: dict[str, Any]) -> Call[dict[str, Array]]:
    """Runs a stored program. Python numbers, bools and str are arguments of the program, and other values are inputs.

    `whole` has attributes of the whole call, such as device."""
    attributes = {**present({key: value for key, value in given.items() if isinstance(value, (bool, int, float, str))}), **whole}
    inputs = {key: as_input(value, key) for key, value in given.items() if key not in attributes}
    body, kind = encode(inputs, {**attributes, "response": "base64"})
    return Call("POST", program_path(name), arrays, body, {"Accept": ACCEPT, "Content-Type": kind})


def tensor_path(name: str, *parts: str, **query: Any) -> str:
    return resource_path("/v1/tensors", name, *parts, **query)


def resource_path(base: str, name: str, *parts: str, **query: Any) -> str:
    path = "/".join([base, quote(name, safe=":@"), *parts])
    given = {key: attribute_text(value) for key, value in query.items() if value not in (None, False)}
    return path + ("?" + urlencode(given) if given else "")


def put_inputs(value: Any, argument: str, keys: Any) -> dict[str, Input]:
    """Returns the tensor and its keys as inputs. String keys become two tensors, offsets and bytes, so that the body stays binary."""
    inputs, names = {"tensor": as_input(value, argument)}, None if keys is None else as_input(keys, "keys")
    if isinstance(names, Tensor) and names.dtype == "string" and len(names.shape) == 1 and is_binary(inputs["tensor"]):
        offsets, text = split_strings(names)
        return {**inputs, "keys.offsets": offsets, "keys.bytes": text}
    return inputs if names is None else {**inputs, "keys": names}


def is_binary(value: Input) -> bool:
    return isinstance(value, Tensor) and value.dtype in safetensors.CODES


def put_call(path: str, value: Any, keys: Any, conditions: Conditions, progress: Union[bool, Progress, None],
             argument: str = "value") -> Call[Description]:
    inputs = put_inputs(value, argument, keys)
    if all(map(is_binary, inputs.values())):
        body, kind = binary_body(inputs, {}), SAFETENSORS
    else:
        whole = {name: to_json(one) for name, one in inputs.items()}
        body, kind = [json_text(whole if keys is not None else whole["tensor"])], JSON
    return Call("PUT", path, put_description, body, {"Content-Type": kind, **conditions.headers()}, repeatable(path, conditions),
                progress_of(progress))


def put_description(reply: Reply) -> Description:
    made = description(reply)
    if dropped := made.get("dropped_keys"):
        warnings.warn(f"{made['name']}: the put dropped the table's {dropped} keys because it had none; to set new keys, use put(value, keys=...)")
    return made


def may_be_keys(which: Any, keys: Optional[str]) -> bool:
    """True if `which`, which is not text, could mean keys of the table. A slice never means string keys."""
    if isinstance(which, slice):
        return keys not in (None, "string") and which != slice(None)
    return keys is not None


def repeatable(path: str, conditions: Conditions) -> bool:
    """True if sending the change twice has the same result as once.

    The second time a condition would fail, and a version that exists would be a conflict."""
    return not conditions.headers() and "@" not in path


def change_call(path: str, table: str, arguments: dict[str, Any], attributes: dict[str, Any], conditions: Conditions,
                idempotent: bool) -> Call[Description]:
    call = Call("POST", path, description, headers=conditions.headers(), idempotent=idempotent and repeatable(path, conditions))
    indices = ("indices",)
    return with_body(call, flat_inputs(arguments, indices=indices), present(attributes), indices, table)


def stored(call: Call[Any], name: str, outputs: Optional[Iterable[str]], ttl_s: Optional[int], conditions: Conditions) -> Call[Any]:
    """Returns the call with its outputs, or those in `outputs`, stored as `name`.

    The call is not idempotent: if `name` is also an input, running the op twice gives a different result."""
    given = {"store": name, "outputs": None if outputs is None else ",".join(listed_key(outputs)), "store.ttl_s": ttl_s}
    query = urlencode({key: value for key, value in given.items() if value is not None}, safe=":@,")
    return replace(call, path=f"{call.path}?{query}", decode=descriptions, idempotent=False,
                   headers={**call.headers, "Accept": JSON, **conditions.headers()})


def json_call(method: str, path: str, value: Any = None, conditions: Conditions = Conditions()) -> Call[Description]:
    body = [] if value is None else [json_text(value)]
    headers = {**({"Content-Type": JSON} if body else {}), **conditions.headers()}
    return Call(method, path, description, body, headers, method == "GET")


def list_call(path: str, member: str) -> Call[list[Description]]:
    return Call("GET", path, lambda reply: listed(reply, member))


def tensors_call(prefix: str) -> Call[list[Description]]:
    return list_call("/v1/tensors" + (f"?prefix={quote(prefix)}" if prefix else ""), "tensors")


def alias_call() -> Call[dict[str, str]]:
    return Call("GET", "/v1/aliases", lambda reply: dict(mapping(description(reply), "aliases")))


def plan_call(equation: str, shapes: Any, dtype: Any) -> Call[Description]:
    asked = {**present({"equation": equation, "dtype": dtype}), "shapes": [extents(shape) for shape in tensors(shapes, "shapes")]}
    return replace(json_call("POST", "/v1/einsum/plan", asked), idempotent=True)


def extents(shape: Any) -> list[int]:
    try:
        return [operator.index(extent) for extent in shape]
    except TypeError:
        raise refused("shapes", f"one shape is {shape!r}", "pass a list of integers for each tensor") from None


def read_call(path: str) -> Call[Array]:
    return Call("GET", path, only, [], {"Accept": SAFETENSORS}, otherwise=Call("GET", path + "?response=base64", only))


# ---------------------------------------------------------------- descriptions of tables
def shape_of(info: Description) -> tuple[int, ...]:
    shape = member(info, "shape", list)
    numel(shape)
    return tuple(shape)


def dtype_of(info: Description) -> Union[np.dtype[Any], str]:
    dtype = member(info, "dtype", str)
    return np.dtype(NUMPY[dtype]) if dtype in NUMPY else str(dtype)


def rows_of(info: Description) -> int:
    shape = shape_of(info)
    if not shape:
        raise TypeError(f"{info.get('name')} is a scalar and has no rows")
    return shape[0]


# ---------------------------------------------------------------- replies
def is_json(reply: Reply) -> bool:
    return reply.headers.get("content-type", "").partition(";")[0].strip() in (JSON, "application/problem+json")


def document(reply: Reply) -> dict[str, Any]:
    try:
        value = json.loads(bytes(reply.body))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the reply is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolError("the reply is not a JSON object")
    return value


def description(reply: Reply) -> Description:
    return document(reply) if reply.status != 204 else {}


def member(value: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(value.get(name), kind):
        raise ProtocolError(f"the reply has no {kind.__name__} '{name}'")
    return value[name]


def mapping(value: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = member(value, name, dict)
    return found


def listed(reply: Reply, name: str) -> list[Description]:
    found: list[Description] = member(document(reply), name, list)
    return found


def descriptions(reply: Reply) -> Any:
    """Returns the descriptions of stored outputs: one description, a list, or a dict by output name."""
    value = document(reply)
    if isinstance(value.get("outputs"), list):
        return value["outputs"]
    return mapping(value, "outputs" if "outputs" in value else "output")


def text(reply: Reply) -> str:
    return bytes(reply.body).decode("utf-8", "replace")


def arrays(reply: Reply) -> dict[str, Array]:
    """Returns the outputs by their names in a safetensors file."""
    if not is_json(reply):
        return safetensors.unpack(reply.body)[0]
    value = document(reply)
    outputs = value.get("outputs", {"output": value.get("output")})
    if isinstance(outputs, list):
        return {f"outputs.{at}": from_json(one) for at, one in enumerate(outputs)}
    if not isinstance(outputs, dict):
        raise ProtocolError("the reply has no outputs")
    return {name: from_json(one) for name, one in outputs.items()}


def pick(found: dict[str, Array], name: str) -> Array:
    if name not in found:
        raise ProtocolError(f"the reply has no tensor {name}; it has {', '.join(found) or 'none'}")
    return found[name]


def one(reply: Reply) -> Array:
    return pick(arrays(reply), "output")


def many(reply: Reply) -> list[Array]:
    found = arrays(reply)
    return [pick(found, f"outputs.{at}") for at in range(len(found))]


def found_rows(reply: Reply) -> Found:
    found = arrays(reply)
    return Found(pick(found, "output"), pick(found, "found"))


def selected(reply: Reply) -> Selected:
    found = arrays(reply)
    return Selected(pick(found, "values"), pick(found, "indices"))


def matches(reply: Reply) -> Matches:
    found = arrays(reply)
    return Matches(pick(found, "scores"), pick(found, "indices"), found.get("keys"))


def only(reply: Reply) -> Array:
    return from_json(document(reply)) if is_json(reply) else pick(safetensors.unpack(reply.body)[0], "tensor")
