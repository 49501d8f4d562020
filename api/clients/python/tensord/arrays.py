"""Arguments as tensors: NumPy arrays, torch tensors, Python values, references to resident tensors."""
from __future__ import annotations

import array
import base64
import struct
import sys
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .errors import ProtocolError

Array = NDArray[Any]

# The dtypes of tensord that NumPy has, in little-endian order; bfloat16 is read as float32.
NUMPY = {"bool": "?", "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "u1", "uint16": "<u2",
         "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
         "complex128": "<c16"}
NAMES = {np.dtype(code).str: name for name, code in NUMPY.items()}  # dtype.name takes as long as the rest of of_array
ITEM_BYTES = {**{name: np.dtype(code).itemsize for name, code in NUMPY.items()}, "bfloat16": 2}


class Ref(NamedTuple):
    """a resident tensor, by name"""
    name: str


class Keys(NamedTuple):
    """keys in place of row numbers"""
    values: Any


class Tensor(NamedTuple):
    """dtype, shape and little-endian bytes in row-major order; strings are a length of four bytes and their bytes each"""
    dtype: str
    shape: tuple[int, ...]
    data: Any


class Plain(NamedTuple):
    """numbers and strings of Python, whose dtype the daemon infers"""
    value: Any


Input = Union[Ref, Tensor, Plain]


def is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def of_torch(value: Any) -> Tensor:
    """on the memory of a tensor of the CPU that is contiguous; a copy of others"""
    torch = sys.modules["torch"]  # it is there, since value is of it
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if value.dtype == torch.bfloat16:
        return Tensor("bfloat16", tuple(value.shape), raw(value.view(torch.int16).numpy()))
    return of_array(value.numpy())


def raw(values: Array) -> memoryview:
    """the bytes of a contiguous array, without a copy"""
    return values.reshape(-1).view(np.uint8).data


def of_strings(values: Array) -> Tensor:
    parts = []
    for value in values.reshape(-1).tolist():
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"an array of objects may have str and bytes; it has {type(value).__name__}")
        text = value.encode() if isinstance(value, str) else value
        parts += [struct.pack("<I", len(text)), text]
    return Tensor("string", values.shape, b"".join(parts))


def of_array(values: Array) -> Tensor:
    name = NAMES.get(values.dtype.str) or values.dtype.name
    if values.dtype.kind in "USOT":
        return of_strings(values)
    if name not in ITEM_BYTES:
        raise TypeError(f"tensord has no dtype {name}")
    if name in NUMPY and values.dtype.byteorder == ">":
        values = values.astype(NUMPY[name])
    return Tensor(name, values.shape, raw(np.asarray(values, order="C")))


def split_strings(strings: Tensor) -> tuple[Tensor, Tensor]:
    """offsets and bytes of strings, which safetensors can have"""
    parts, at, data = [], 0, memoryview(strings.data)
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "little")
        parts.append(data[at + 4:at + 4 + length])
        at += 4 + length
    offsets = np.zeros(len(parts) + 1, "<i8")
    np.cumsum(np.array([len(part) for part in parts], "<i8"), out=offsets[1:])
    joined = b"".join(parts)
    return of_array(offsets), Tensor("uint8", (len(joined),), joined)


def is_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes))


def as_input(value: Any) -> Input:
    """a str is the name of a resident tensor; an array, also of strings, is np.array(...) or a list"""
    if isinstance(value, str):
        return Ref(value)
    if isinstance(value, (Ref, Tensor, Plain)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return of_array(np.asarray(value))
    if is_torch(value):
        return of_torch(value)
    reference = getattr(value, "reference", None)
    if isinstance(reference, Ref):  # a table
        return reference
    foreign = of_foreign(value)
    if foreign is not None:
        return of_array(foreign)
    if is_text(value):
        return of_strings(np.array(value, dtype=object))
    return of_array(np.array(value, dtype="<f4")) if has_infinite(value) else Plain(value)


def of_foreign(value: Any) -> Optional[Array]:
    """the array of another library's object, on its memory if that is contiguous and of the CPU: jax, pandas, array.array, ..."""
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(memoryview(value)) if isinstance(value, (bytearray, memoryview, array.array)) else None


def plain_number(value: Any) -> Any:
    """of NumPy among the numbers of a list, for json.dumps"""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a tensor may have numbers and strings; it has {type(value).__name__}")


def has_infinite(value: Any) -> bool:
    """NaN or an infinity among floats of Python, which JSON does not have"""
    array = np.asarray(value)
    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def as_index(value: Any) -> Input:
    """as_input, but numbers of Python are int64, so that they need no text"""
    found = as_input(value)
    return of_array(np.array(found.value, dtype="<i8")) if isinstance(found, Plain) and integers(value) else found


def integers(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind == "i" or array.size == 0


def numel(shape: Any) -> int:
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError(f"the reply has a tensor of shape {shape!r}")
    count = 1
    for extent in shape:
        count *= extent
    return count


def to_array(dtype: Any, shape: Any, data: memoryview) -> Array:
    """the array on these bytes; a copy for bfloat16 and strings only"""
    if dtype == "string":
        return to_strings(shape, data)
    count, item = numel(shape), ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item is None:
        raise ProtocolError(f"the reply has a tensor of dtype {dtype!r}")
    if count * item != len(data):
        raise ProtocolError(f"a tensor {dtype} {list(shape)} has {len(data)} bytes in the reply; expected {count * item}")
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
    """of str, or of bytes if one of them is not UTF-8"""
    strings = np.empty(len(texts), dtype=object)
    try:
        strings[:] = [text.decode() for text in texts]
    except UnicodeDecodeError:
        strings[:] = texts
    return strings.reshape(shape)


def from_json(value: Any) -> Array:
    """the array of a tensor in a JSON reply"""
    try:
        dtype, shape = value["dtype"], value["shape"]
        if "base64" in value:
            return to_array(dtype, shape, memoryview(base64.b64decode(value["base64"], validate=True)))
        numel(shape)
        return np.array(value["data"], dtype=object if dtype == "string" else NUMPY[dtype]).reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"the reply has no tensor in this place: {error}") from None


def to_json(value: Input) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, Plain):
        return value.value
    return {"dtype": value.dtype, "shape": list(value.shape), "base64": base64.b64encode(value.data).decode("ascii")}


def dtype_name(dtype: Any) -> str:
    """float32 for np.float32, np.dtype("float32"), torch.float32 and "float32" """
    if isinstance(dtype, str):
        return dtype
    return str(dtype).rpartition(".")[2] if is_torch(dtype) else np.dtype(dtype).name
