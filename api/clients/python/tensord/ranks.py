"""Ranks and dtypes of tensors in traced functions, as far as they are known before the program runs, and the product x @ y, whose steps
depend on ranks."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from .arguments import is_argument
from .arrays import Floats, Plain, Symbol, Tensor
from .calls import OpCall
from .inputs import is_text

ELEMENTWISE = frozenset((
    "add subtract multiply divide floor_divide floor_mod power maximum minimum equal not_equal less less_equal greater greater_equal logical_and"
    " logical_or logical_xor logical_not negative abs sign square exp log sqrt rsqrt reciprocal tanh sigmoid erf relu gelu floor ceil round is_nan"
    " is_finite where clip softmax log_softmax layer_norm l2_normalize cast slice transpose cumsum top_k concat").split())
BOOLEAN = frozenset("equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not is_nan is_finite reduce_any reduce_all".split())
MORE = {"expand_dims": 1, "stack": 1, "one_hot": 1, "argmax": -1, "argmin": -1}


def rank_of(value: Any) -> Optional[int]:
    """Returns the rank of a tensor, or of a value that can be one; None if the rank is not known."""
    if isinstance(value, Symbol):
        return value._rank
    if isinstance(value, Tensor):
        return len(value.shape)
    if isinstance(value, Plain):
        return rank_of(value.value)
    if isinstance(value, Mapping):
        return len(value["shape"]) if "shape" in value else rank_of(value.get("data"))
    if isinstance(value, Floats):
        return value.values.ndim
    if type(value) in (list, tuple):
        below = rank_of(value[0]) if value else 0
        return None if below is None else below + 1
    if isinstance(value, (bool, int, float, complex)):
        return 0
    rank = getattr(value, "ndim", None)
    return rank if isinstance(rank, int) else None


def result_rank(call: OpCall) -> Optional[int]:
    """Returns the rank of the results of an op, or None if it is not known."""
    ranks = [rank_of(value) for value in call.inputs.values()]
    known = [rank for rank in ranks if rank is not None]
    if call.op == "reshape":
        return size_of(call.attributes["shape"])
    if call.op == "einsum":
        arrow, result = str(call.attributes["equation"]).replace(" ", "").partition("->")[1:]
        return len(result) if arrow and "." not in result else None
    if not known or len(known) < len(ranks) or any(is_argument(call.attributes.get(name)) for name in ("axes", "keepdims", "batch_dims")):
        return None
    if call.op in ELEMENTWISE:
        return max(known)
    if call.op in MORE:
        return max(known) + MORE[call.op]
    if call.op == "gather" and not call.attributes.get("batch_dims"):
        return sum(known) - 1
    if call.op.startswith("reduce_") and call.attributes.get("keepdims"):
        return known[0]
    if call.op.startswith("reduce_") and "axes" not in call.attributes:
        return 0
    removed = size_of(call.attributes.get("axes")) if call.op.startswith("reduce_") or call.op == "squeeze" else None
    return None if removed is None else known[0] - removed


def size_of(attribute: Any) -> Optional[int]:
    return None if is_argument(attribute) or not isinstance(attribute, (list, tuple)) else len(attribute)


def index_dtype(value: Any) -> str:
    """Returns "bool" or "string" for a value that is an array or nested lists of bools or strings, otherwise ""."""
    if isinstance(value, str):  # the name of a table
        return ""
    if is_text(value):
        return "string"
    while type(value) in (list, tuple) and value:
        value = value[0]
    return "bool" if isinstance(value, (bool, np.bool_)) or isinstance(value, np.ndarray) and value.dtype == bool else ""


def result_dtype(call: OpCall) -> str:
    """Returns "bool" if the result of an op is known to be a mask, otherwise ""."""
    return "bool" if call.op in BOOLEAN or call.op == "cast" and call.attributes.get("dtype") == "bool" else ""


def product(x: Any, y: Any) -> tuple[str, Optional[int], str]:
    """Returns the equation of x @ y by NumPy's rules, its rank, and a hint for errors if a rank that is not known counts as a matrix."""
    left, right = rank_of(x), rank_of(y)
    if 0 in (left, right):
        raise TypeError("x @ y multiplies matrices and vectors, and one operand is a number; use *")
    if left == right == 1:
        return "j,j->", 0, ""
    if right == 1:  # The equation also holds for a vector x.
        return "...j,j->...", None if left is None else left - 1, ""
    unknown = [name for name, rank in (("x", left), ("y", right)) if rank is None]
    counted = f"{unknown[0]} counts as a matrix" if len(unknown) == 1 else "x and y count as matrices"
    hint = (f"In x @ y, {counted}, because the rank is not known before the program runs."
            " For vectors, use tensord.steps.einsum: ") if unknown else ""
    if left == 1:
        return "j,...jk->...k", None if right is None else right - 1, hint and hint + '("j,j->", x, y)'
    ways = ['("...j,j->...", x, y) for a vector y'] * (right is None) + ['("j,...jk->...k", x, y) for a vector x'] * (left is None)
    return "...ij,...jk->...ik", max(left, right) if left and right else None, hint and hint + ", ".join(ways)
