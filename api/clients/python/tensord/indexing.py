"""Indexing of traced tensors: x[...] as steps."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .arrays import Keys, Symbol
from .inputs import is_text
from .ranks import index_dtype

END = 2 ** 63 - 1  # a bound of a slice beyond any tensor; slices clamp their bounds
SEVERAL = "use tensord.steps.gather_nd for several arrays"
MASK = ("use tensord.steps.dynamic_partition(x, tensord.steps.cast(mask, 'int32'), 2)[1] for the selected rows, or tensord.steps.where(mask, x, 0) to keep"
        " the shape")
KEYS = "for rows by key, use tensord.steps.gather(table, tensord.Keys(x))"


def indexed(steps: Any, x: Any, index: Any) -> Any:
    """Returns x[index] by NumPy's rules, as steps recorded by `steps`. The index has integers, slices, ..., None, and at most one array.

    Dimensions before ... are counted from the start, and dimensions after it from the end, because the rank is not known."""
    if isinstance(index, Keys):
        raise TypeError(f"an index is tensord.Keys; {KEYS}")
    before, after = halves(index)
    parts = [*enumerate(p for p in before if p is not None), *enumerate((p for p in after if p is not None), -sum(p is not None for p in after))]
    numbers = [(axis, operator.index(part)) for axis, part in parts if is_integer(part)]
    arrays = [(axis, part) for axis, part in parts if not isinstance(part, slice) and not is_integer(part)]
    if len(arrays) > 1 or arrays and (numbers or any(part is None for part in (*before, *after))):
        raise TypeError("an index has an array beside integers, None or other arrays; index in several steps, such as x[:, ids][0], or " + SEVERAL)
    x = sliced(steps, x, [(axis, part) for axis, part in parts if isinstance(part, slice) and not is_whole(part)])
    for axis, array in arrays:
        x = steps.gather(x, checked(array), axis or None)
    for axis, number in ordered(numbers):
        x = picked(steps, x, axis, number)
    return with_new_dimensions(steps, x, before, after)


def halves(index: Any) -> tuple[list[Any], list[Any]]:
    """Returns the parts of an index before and after the ellipsis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    at = [number for number, part in enumerate(parts) if part is Ellipsis]
    if len(at) > 1:
        raise TypeError("an index can have only one ellipsis (...)")
    return (parts[:at[0]], parts[at[0] + 1:]) if at else (parts, [])


def is_integer(part: Any) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def is_whole(part: slice) -> bool:
    return part.start is None and part.stop is None and part.step is None


def checked(array: Any) -> Any:
    dtype = array._dtype if isinstance(array, Symbol) else "string" if is_text(array) else index_dtype(array)
    if dtype == "string":
        raise TypeError(f"an index is {'strings' if isinstance(array, Symbol) else repr(array)}; {KEYS}")
    if dtype == "bool" and isinstance(array, Symbol):
        raise TypeError(f"an index is a mask, and the number of rows that it selects is not known before the program runs; {MASK}")
    if dtype == "bool":
        raise TypeError(f"an index is the mask {array!r}; numpy.flatnonzero(mask) gives the row numbers")
    if isinstance(array, Symbol):
        return array
    if np.asarray(array).dtype.kind not in "iu":
        raise TypeError(f"an index is {array!r}; expected integers, slices, ..., None or row numbers")
    return array


def ordered(numbers: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the numbers in an order in which removing a dimension does not change the other axes."""
    return sorted((one for one in numbers if one[0] >= 0), reverse=True) + sorted(one for one in numbers if one[0] < 0)


def picked(steps: Any, x: Any, axis: int, number: int) -> Any:
    """Returns the elements at one position along an axis, which is removed."""
    if number >= 0:
        return steps.gather(x, number, axis or None)
    return steps.squeeze(sliced(steps, x, [(axis, slice(number, number + 1 or None))]), [axis])


def sliced(steps: Any, x: Any, slices: list[tuple[int, slice]]) -> Any:
    if not slices:
        return x
    bounds = [bounds_of(one) for _, one in slices]
    starts, stops, strides = ([bound[i] for bound in bounds] for i in range(3))
    return steps.slice(x, starts, stops, steps=None if set(strides) == {1} else strides, axes=[axis for axis, _ in slices])


def bounds_of(one: slice) -> tuple[int, int, int]:
    stride = 1 if one.step is None else operator.index(one.step)
    first, last = (0, END) if stride > 0 else (END, -END)
    return (first if one.start is None else operator.index(one.start), last if one.stop is None else operator.index(one.stop), stride)


def with_new_dimensions(steps: Any, x: Any, before: list[Any], after: list[Any]) -> Any:
    """Adds the dimensions for which the index has None."""
    kept = [part for part in before if not is_integer(part)]
    for axis, part in enumerate(kept):
        x = steps.expand_dims(x, axis) if part is None else x
    kept = [part for part in after if not is_integer(part)]
    for axis, part in enumerate(reversed(kept), 1):
        x = steps.expand_dims(x, -axis) if part is None else x
    return x
