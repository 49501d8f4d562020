"""Declared inputs of programs: their dtypes and shapes, and the check of values against them."""
from __future__ import annotations

from typing import Any, NamedTuple, Union

from .arrays import ITEM_BYTES, Floats, Keys, Plain, Ref, Symbol, Tensor, to_json
from .inputs import as_input, as_operand, built, dtype_name, refused, typed


class Spec(NamedTuple):
    """The dtype and the shape of an input. A name in the shape stands for a size that each call chooses, the same wherever the name occurs."""
    dtype: str
    shape: tuple[Union[int, str], ...]


def spec(dtype: Any, *shape: Union[int, str]) -> Spec:
    """Declares an input of a program: @tensord.program(query=tensord.spec("float32", 64), ids=tensord.spec("int64", "n"))."""
    name = dtype_name(dtype)
    if name not in (*ITEM_BYTES, "string"):
        raise TypeError(f"dtype: {name!r}; expected one of {', '.join([*ITEM_BYTES, 'string'])}")
    for size in shape:
        if not (isinstance(size, str) and size.isidentifier() and size.isascii() or type(size) is int and size >= 0):
            raise TypeError(f"shape: {size!r}; expected sizes, and names such as 'n' for sizes that the values decide")
    return Spec(name, shape)


def declaration(given: Spec) -> dict[str, Any]:
    return {"dtype": given.dtype, "shape": list(given.shape)}


def declared_json(value: Any, name: str, given: Spec, sizes: dict[str, int]) -> Any:
    """Returns a value of a declared input in JSON. Python numbers take the declared dtype.

    `sizes` has the named sizes so far. The values of all inputs must agree on them."""
    made = as_operand(value, name)
    if isinstance(made, (Ref, Symbol)):
        return to_json(made)
    made = typed(made, given.dtype) if isinstance(made, Floats) else made
    if isinstance(made, Tensor) and made.dtype != given.dtype:
        raise refused(name, f"an array of {made.dtype}; the program declares {given.dtype}", f"pass numpy.asarray(x, {given.dtype!r})")
    found = made.value if isinstance(made, Plain) else to_json(made)
    if not isinstance(found, dict):
        found = {"dtype": given.dtype, "shape": list(built(found, None, name).shape), "data": found}
    check_shape(tuple(found["shape"]), name, given, sizes)
    return found


def check_shape(shape: tuple[int, ...], name: str, given: Spec, sizes: dict[str, int]) -> None:
    expected = tuple(sizes.setdefault(size, extent) if isinstance(size, str) else size for size, extent in zip(given.shape, shape))
    if len(shape) != len(given.shape) or expected != shape:
        known = ", ".join(f"{size} = {sizes[size]}" for size in given.shape if isinstance(size, str) and size in sizes)
        raise refused(name, f"the shape {list(shape)}", f"the program declares {list(given.shape)}" + (f", where {known}" if known else ""))


def input_json(value: Any, name: str) -> Any:
    """Returns an input of a program in JSON."""
    if isinstance(value, Keys):
        raise refused(name, "tensord.Keys", "pass the keys as an array, and find their rows with the op find or lookup")
    return to_json(as_input(value, name))
