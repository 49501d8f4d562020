"""Safetensors files: the length of the header, the header as JSON, and the bytes of the tensors."""
from __future__ import annotations

import json
import struct
from typing import Any

from .arrays import Array, Tensor, to_array
from .errors import ProtocolError

CODES = {"bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
         "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
         "complex64": "C64"}
# Maximum size of a header in bytes. Parsed JSON takes many times its size in memory. The header of 16384 tensors, the
# maximum of a list, needs a fifth of this limit.
HEADER_LIMIT = 16 << 20
NAMES = {code: name for name, code in CODES.items()}


def pack(tensors: dict[str, Tensor], metadata: dict[str, str]) -> list[Any]:
    """Returns the file as buffers. The data of the tensors is not copied."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, tensor in tensors.items():
        end = at + len(tensor.data)
        header[name] = {"dtype": CODES[tensor.dtype], "shape": tensor.shape, "data_offsets": (at, end)}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text, *(tensor.data for tensor in tensors.values())]


def unpack(file: memoryview) -> tuple[dict[str, Array], dict[str, str]]:
    """Returns the tensors as arrays that share memory with the file, and the metadata of the file."""
    if len(file) < 8:
        raise ProtocolError(f"the reply is not a safetensors file: it has {len(file)} bytes; expected at least 8")
    begin = 8 + int.from_bytes(file[:8], "little")
    if begin > min(len(file), 8 + HEADER_LIMIT):
        raise ProtocolError(f"the header of the reply claims {begin - 8} bytes, but the reply has {len(file)}")
    try:
        header = json.loads(bytes(file[8:begin]))
        metadata = header.pop("__metadata__", {})
        return {name: entry_array(entry, file[begin:]) for name, entry in header.items()}, metadata
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"the header of the reply is not a valid safetensors header: {error}") from None


def entry_array(entry: Any, data: memoryview) -> Array:
    begin, end = entry["data_offsets"]
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end <= len(data):
        raise ProtocolError(f"a tensor of the reply has invalid offsets {begin}:{end}; its data has {len(data)} bytes")
    return to_array(NAMES.get(entry["dtype"]), entry["shape"], data[begin:end])
