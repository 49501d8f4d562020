"""Tensors in requests, and NumPy arrays made from replies."""
from __future__ import annotations

import base64
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .errors import ProtocolError

Array = NDArray[Any]

# NumPy's little-endian codes of the dtypes that tensord and NumPy share. bfloat16 is read as float32.
NUMPY = {"bool": "?", "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "u1", "uint16": "<u2",
         "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
         "complex128": "<c16"}
NAMES = {np.dtype(code).str: name for name, code in NUMPY.items()}  # keyed by dtype.str, because dtype.name takes as long as the rest of of_array
ITEM_BYTES = {**{name: np.dtype(code).itemsize for name, code in NUMPY.items()}, "bfloat16": 2}


class Ref(NamedTuple):
    """A reference to a resident tensor by name."""
    name: str


class Keys(NamedTuple):
    """Keys of rows, passed instead of row numbers."""
    values: Any


class Tensor(NamedTuple):
    """A tensor: dtype, shape and little-endian data in row-major order. Each string is a four-byte length and its bytes."""
    dtype: str
    shape: tuple[int, ...]
    data: Any


class Plain(NamedTuple):
    """Python numbers and strings whose dtype the daemon infers."""
    value: Any


class Floats(NamedTuple):
    """Python floats that cannot be sent until their dtype is known, because JSON allows NaN and infinities only in tensors
    with a dtype."""
    values: Array  # float64
    integer: int  # the integer among the values with the largest absolute value
    name: str  # name of the argument, for errors


class Symbol:
    """A tensor in a traced function, which has no values yet."""
    _rank: Optional[int] = None  # None: not known
    _dtype = ""  # the dtype if it is known, otherwise ""


Input = Union[Ref, Tensor, Plain, Symbol]
Given = Union[Input, Floats]


def raw(values: Array) -> memoryview:
    """Returns the bytes of a contiguous array without a copy."""
    return values.reshape(-1).view(np.uint8).data


def split_strings(strings: Tensor) -> tuple[Tensor, Tensor]:
    """Splits strings into offsets and bytes, two tensors that safetensors supports."""
    parts, at, data = [], 0, memoryview(strings.data)
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "little")
        parts.append(data[at + 4:at + 4 + length])
        at += 4 + length
    offsets = np.zeros(len(parts) + 1, "<i8")
    np.cumsum(np.array([len(part) for part in parts], "<i8"), out=offsets[1:])
    joined = b"".join(parts)
    return Tensor("int64", offsets.shape, raw(offsets)), Tensor("uint8", (len(joined),), joined)


def numel(shape: Any) -> int:
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError(f"the reply has a tensor of shape {shape!r}")
    count = 1
    for extent in shape:
        count *= extent
    return count


def to_array(dtype: Any, shape: Any, data: memoryview) -> Array:
    """Returns an array that shares memory with `data`. Only bfloat16 and strings are copied."""
    if dtype == "string":
        return to_strings(shape, data)
    count, item = numel(shape), ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item is None:
        raise ProtocolError(f"the reply has a tensor of dtype {dtype!r}")
    if count * item != len(data):
        raise ProtocolError(f"a {dtype} tensor of shape {list(shape)} has {len(data)} bytes in the reply; expected {count * item}")
    if dtype == "bfloat16":
        wide = np.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").reshape(shape)
    return np.frombuffer(data, NUMPY[dtype]).reshape(shape)


def to_strings(shape: Any, data: memoryview) -> Array:
    texts, at, count = [], 0, numel(shape)
    while at + 4 <= len(data):
        length = int.from_bytes(data[at:at + 4], "little")
        texts.append(bytes(data[at + 4:at + 4 + length]))
        at += 4 + length
    if at != len(data) or len(texts) != count:
        raise ProtocolError(f"the strings in the reply do not have the shape {shape!r}")
    return string_array(texts, shape)


def string_array(texts: list[bytes], shape: Any) -> Array:
    """Returns an array of str, or of bytes if a string is not UTF-8."""
    strings = np.empty(len(texts), dtype=object)
    try:
        strings[:] = [text.decode() for text in texts]
    except UnicodeDecodeError:
        strings[:] = texts
    return strings.reshape(shape)


def from_json(value: Any) -> Array:
    """Returns the array of a tensor in a JSON reply."""
    try:
        dtype, shape = value["dtype"], value["shape"]
        if "base64" in value:
            return to_array(dtype, shape, memoryview(base64.b64decode(value["base64"], validate=True)))
        numel(shape)
        return np.array(value["data"], dtype=object if dtype == "string" else NUMPY[dtype]).reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"the reply has an invalid tensor: {error}") from None


def to_json(value: Input) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, Plain):
        return value.value
    if isinstance(value, Symbol):
        raise TypeError("a tensor of a traced function has no values to send; in the function, call the ops of tensord.steps, not methods of a client or of a table")
    return {"dtype": value.dtype, "shape": list(value.shape), "base64": base64.b64encode(value.data).decode("ascii")}
