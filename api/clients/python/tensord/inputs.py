"""Converts arguments to tensors: NumPy arrays, torch tensors, Python values, and references to resident tensors.

All arguments pass through as_input. It refuses a value that would lose something, such as a mask, labels or digits. The
error names the argument, the value that was passed, and what to pass instead.
"""
from __future__ import annotations

import array
import datetime
import math
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Optional

import numpy as np

from .arrays import ITEM_BYTES, NAMES, NUMPY, Array, Floats, Given, Input, Plain, Ref, Symbol, Tensor, raw, to_array

TOO_WIDE = "pass integers that all fit int64, or all fit uint64; identifiers can also be strings"
ONE_LENGTH = "make all lists of a level the same length"
BAGS = "; for bags of different lengths, pass one list, and the start of each bag in offsets"
MISSING = "pass float('nan') for a missing value, or fill it"
# Classes of elements, the value that fills a missing element beside them, and their name in messages. Beside numbers, NaN
# can also stand for a missing element.
FILLS = ((str, "''", "strings"), (bytes, "b''", "bytes"), ((bool, np.bool_), "False", "bools"),
         ((int, float, np.integer, np.floating), "0", "numbers"))
MISSING_KEY = "leave it out, or pass a key or a row number instead"
# Libraries whose objects have labels, units or a layout besides their elements, and expressions that extract the elements.
ELEMENTS = {"pandas": ("x.to_numpy()",), "polars": ("x.to_numpy()",), "pyarrow": ("x.to_numpy(zero_copy_only=False)", "x.as_py()"), "xarray": ("x.to_numpy()",),
            "scipy": ("x.toarray()",), "sparse": ("x.todense()",), "pint": ("x.magnitude",), "astropy": ("x.value",)}
MISSING_VALUES = ("NoneType", "NAType", "NaTType", "NullScalar")  # classes of missing values in Python, pandas and pyarrow
OBJECTS = {bool: "bool", int: "int64", float: "float64"}  # the dtype for Python objects of each class
FLOATS = ("float16", "bfloat16", "float32", "float64")
KEYS = ("keys", "queries")  # names of arguments that are keys
IDENTIFIERS = (*KEYS, "indices", "numbers")
# Kinds of elements. Each row is the classes of a kind, and the first class stands for the kind.
KINDS = ((bool, np.bool_), (int, np.integer), (float, np.floating), (complex, np.complexfloating), (str,), (bytes,))


def refused(name: str, given: str, way_out: str) -> TypeError:
    return TypeError(f"{name}: {given}; {way_out}")


def as_input(value: Any, name: str, index: bool = False) -> Input:
    """Converts an argument to an input. A str is the name of a resident tensor; a list or a NumPy array is a tensor, also
    of strings.

    `name` is the name of the argument, for errors. With `index`, Python integers become int64, so they are sent in binary
    and not as JSON text.
    """
    made = as_operand(value, name, index)
    return typed(made, "float32") if isinstance(made, Floats) else made


def as_operand(value: Any, name: str, index: bool = False, key: Optional[bool] = None) -> Given:
    """Converts an argument like as_input, but keeps Python floats untyped: other inputs can determine their dtype. `key` is
    True for keys; if it is None, the name decides."""
    made = of_any(value, name, index)
    if name in KEYS if key is None else key:
        refuse_float_keys(made, name)
    return made


def refuse_float_keys(made: Given, name: str) -> None:
    is_array = isinstance(made, Tensor) and made.dtype in (*FLOATS, "complex64", "complex128")
    if isinstance(made, Floats) and np.isnan(made.values).any():
        raise refused(name, "floats with a NaN", f"NaN cannot be a key: {MISSING_KEY}")
    if is_array or isinstance(made, Floats) or isinstance(made, Plain) and any(isinstance(one, float) for one in elements(made.value)):
        raise refused(name, f"an array of {made.dtype}" if isinstance(made, Tensor) else "floats",
                      "keys must be int64, uint64 or strings. If all keys are integers, pass numpy.asarray(x, 'int64')")


def of_any(value: Any, name: str, index: bool) -> Given:
    if isinstance(value, str):
        return Ref(value)
    if isinstance(value, (Ref, Tensor, Plain, Symbol)):
        return value
    if isinstance(value, dict) and [*value] == ["ref"] and isinstance(value["ref"], str):
        return Ref(value["ref"])  # the notation of the daemon's errors
    if type(value) is np.ndarray:
        return of_array(value, name)
    reference = getattr(value, "reference", None)
    if isinstance(reference, Ref):  # `value` is a table
        return reference
    refuse_labelled(value, name)
    if isinstance(value, (np.ndarray, np.generic)):
        return of_array(np.asanyarray(value), name)
    if is_torch(value) and hasattr(value, "detach"):
        return of_torch(value, name)
    foreign = of_foreign(value, name)
    return of_python(value, name, index) if foreign is None else of_array(foreign, name)


def bfloat16(x: Any) -> Tensor:
    """Converts numbers to bfloat16 for a request: table.upsert(keys, tensord.bfloat16(rows)).

    NumPy does not have bfloat16, so client.cast returns float32 instead. The numbers are rounded as the op cast does.
    """
    given = as_input(x, "x")
    if isinstance(given, Symbol):
        raise refused("x", "a tensor of a traced function", "tensord.steps.cast(x, 'bfloat16') converts it")
    if isinstance(given, Ref):
        raise refused("x", "a resident tensor", "client.store(NAME).cast(x, 'bfloat16') stores it in bfloat16 as the table NAME")
    if isinstance(given, Tensor) and given.dtype == "bfloat16":
        return given
    values = built(given.value, None, "x") if isinstance(given, Plain) else to_array(given.dtype, given.shape, memoryview(given.data))
    if values.dtype.kind not in "biuf":
        raise refused("x", f"an array of {given.dtype if isinstance(given, Tensor) else values.dtype.name}", "pass real numbers")
    return Tensor("bfloat16", values.shape, raw(upper_halves(values)))


def upper_halves(values: Array) -> Array:
    """Returns the bits of the values in bfloat16: float32 rounded to nearest, ties to even. NaN stays NaN."""
    with np.errstate(over="ignore"):  # An overflow gives an infinity, as in the op cast.
        bits = values.astype("<f4", order="C").reshape(-1).view("<u4")
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, bits >> 16 | 0x40, (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype("<u2")


def as_row_numbers(value: Any, name: str) -> Input:
    """Converts row numbers like as_input. Strings are refused, because the caller probably means keys."""
    made = as_input(value, name, True)
    if isinstance(made, Tensor) and made.dtype == "string":
        raise refused(name, "strings, where integers are expected", "pass tensord.Keys(x) to find rows by key")
    return made


def libraries(value: Any) -> list[str]:
    """Returns the libraries that define the class of the value and its base classes."""
    return [base.__module__.partition(".")[0] for base in type(value).__mro__]


def refuse_labelled(value: Any, name: str, beside: Iterable[Any] = ()) -> None:
    """Raises TypeError if the value has labels, units or a layout. `beside` has the elements of the list with the value."""
    for library in libraries(value):
        if library in ELEMENTS:
            if type(value).__name__ in MISSING_VALUES:
                raise refused(name, f"{a(type(value))} of {library}", missing_hint(name, beside))
            ways = [way for way in ELEMENTS[library] if hasattr(value, way[2:].partition("(")[0])]
            raise refused(name, f"{a(type(value))} of {library}, whose labels, units or layout cannot be sent",
                          f"pass its elements, {ways[0]}" if ways else "pass its elements as a NumPy array, or as nested lists of numbers or strings")


# ---------------------------------------------------------------- torch and other libraries
def is_torch(value: Any) -> bool:
    return "torch" in libraries(value)


def of_torch(value: Any, name: str) -> Tensor:
    """Converts a torch tensor. A contiguous CPU tensor shares its memory; other tensors are copied."""
    torch = sys.modules["torch"]  # The module is loaded, because `value` is an object of torch.
    if value.requires_grad:
        raise refused(name, "a tensor that requires grad, but a request carries no gradient", "call x.detach() first")
    if value.layout != torch.strided:
        raise refused(name, f"a tensor of the layout {value.layout}", "call x.to_dense() first")
    if value.is_quantized:
        raise refused(name, "a quantized tensor", "call x.dequantize() first")
    value = value.cpu().resolve_conj().resolve_neg().contiguous()
    if value.dtype == torch.bfloat16:
        return Tensor("bfloat16", tuple(value.shape), raw(value.view(torch.int16).numpy()))
    try:
        array = value.numpy()
    except TypeError:  # NumPy has neither float8 nor complex32.
        way = "x.to(torch.complex64)" if "complex" in str(value.dtype) else "x.float()"
        raise refused(name, f"a tensor of {value.dtype}, a dtype that tensord does not have", f"call {way} first") from None
    return of_array(array, name)


def of_foreign(value: Any, name: str) -> Optional[Array]:
    """Converts an object of another library, such as jax or array.array, to an array; None if that is not possible.

    The array shares the object's memory if this is contiguous and on the CPU."""
    try:
        return converted(value)
    except Exception as error:  # The library's own code can raise any exception.
        raise refused(name, f"{a(type(value))}, which NumPy cannot convert: {error}", "pass a NumPy array of its elements") from error


def converted(value: Any) -> Optional[Array]:
    if isinstance(value, type):  # A class has the attributes of its objects, but is not an array.
        return None
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        found: Array = np.asanyarray(value)  # asanyarray keeps a masked array masked
        return found
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(memoryview(value)) if isinstance(value, (bytearray, memoryview, array.array)) else None


# ---------------------------------------------------------------- arrays of NumPy
def of_array(values: Array, name: str) -> Tensor:
    masked = int(np.sum(np.ma.getmaskarray(values))) if isinstance(values, np.ma.MaskedArray) and not values.dtype.names else 0
    if masked:
        raise refused(name, f"a masked array, {masked} of {values.size} elements are masked",
                      "pass the elements that are not masked, x.compressed(), and count only these in related arguments such as offsets" if name in IDENTIFIERS else
                      "call x.filled(VALUE) first, with a value for masked elements")
    if values.dtype.kind in "USOT":
        return of_strings(values, name)
    dtype = NAMES.get(values.dtype.str) or values.dtype.name
    if dtype not in ITEM_BYTES:
        missing = int(np.sum(np.isnat(values))) if values.dtype.kind in "mM" else 0
        way = f"leave out or fill the {missing} NaT elements, and " if missing else ""
        raise refused(name, f"an array of {dtype}, a dtype that tensord does not have", way + sendable(values.dtype))
    if values.dtype.str[0] == ">":
        values = values.astype(NUMPY[dtype])
    return Tensor(dtype, values.shape, raw(np.asarray(values, order="C")))


def sendable(dtype: np.dtype[Any]) -> str:
    """Returns advice on how to send an array of this dtype."""
    if dtype.names:
        return f"pass its fields one by one: x[{dtype.names[0]!r}]"
    nearest = ({"g": "float64", "G": "complex128"}.get(dtype.char) or {"m": "int64", "M": "int64"}.get(dtype.kind)
               or {"int": "int8", "uint": "uint8"}.get(dtype.name.rstrip("0123456789"), "float32"))  # ml_dtypes has int4
    if dtype.kind != "V" or dtype.type is not np.void:
        return f"call x.astype({nearest!r}) first"
    bfloat16_of_file = ", or x.view(ml_dtypes.bfloat16) if numpy.save wrote bfloat16" if dtype.itemsize == 2 else ""
    return f"call x.view('uint8') first{bfloat16_of_file}"


def of_strings(values: Array, name: str) -> Tensor:
    texts = values.reshape(-1).tolist()
    kinds = set(map(type, texts))
    if kinds & {list, tuple, np.ndarray}:
        refuse_nested(texts, kinds, name)
    refuse_missing(texts, name)
    if not (all(issubclass(kind, str) for kind in kinds) or all(issubclass(kind, bytes) for kind in kinds)):
        raise refused(name, f"an array of objects of the types {words(kind.__name__ for kind in kinds)}",
                      f"call x.astype({OBJECTS[kinds.pop()]!r})" if len(kinds) == 1 and kinds <= OBJECTS.keys() else
                      "strings must be all str or all bytes; for numbers, call x.astype(...) with their dtype")
    try:
        encoded = [text if isinstance(text, bytes) else text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise refused(name, f"the string {error.object!r} is not Unicode text: {error.reason}", "pass bytes") from None
    return Tensor("string", values.shape, b"".join(part for text in encoded for part in (struct.pack("<I", len(text)), text)))


def is_missing(value: Any) -> bool:
    return type(value).__name__ in MISSING_VALUES or isinstance(value, float) and value != value


def refuse_missing(found: list[Any], name: str) -> None:
    """Raises TypeError if all present elements are of one kind and others are missing, as in pandas."""
    present = [one for one in found if not is_missing(one)]
    if len(present) == len(found) or set(map(type, found)) <= {int, float}:  # Among numbers, NaN is a number.
        return
    for kind, fill, what in FILLS if present else FILLS[-1:]:
        if all(isinstance(one, kind) for one in present):
            raise refused(name, f"{what}, {len(found) - len(present)} of them missing",
                          MISSING_KEY if name in IDENTIFIERS else f"fill them first, with x.fillna({fill}) in pandas")


def one_length(name: str) -> str:
    """Returns advice for lists of different lengths."""
    return ONE_LENGTH + (BAGS if name in IDENTIFIERS else "")


def refuse_nested(found: list[Any], kinds: set[type], name: str) -> None:
    """Raises TypeError for an array of objects that are lists or arrays, such as a pandas column of embeddings."""
    if kinds <= {list, tuple, np.ndarray} and len({one.shape if isinstance(one, np.ndarray) else (len(one),) for one in found}) == 1:
        raise refused(name, "an array of objects that are lists or arrays", "pass numpy.stack(x)")
    raise refused(name, "lists of different lengths" if kinds <= {list, tuple, np.ndarray} else "lists beside other objects", one_length(name))


# ---------------------------------------------------------------- values of Python
def of_python(value: Any, name: str, index: bool) -> Given:
    if value is None:
        raise refused(name, "None", "pass a tensor, or the name of a resident one")
    if hasattr(value, "_fields"):
        raise refused(name, f"a {type(value).__name__}, which contains several tensors", f"pass one of them: x.{value._fields[0]}")
    if isinstance(value, range):
        value = list(value)
    found = elements(value)
    types = set(map(type, found))
    if any(issubclass(one, np.ndarray) for one in types):
        types = types_in_arrays(found, name)
    kinds = {kind_of(one, value, found, name) for one in types}
    if len(kinds) > 1 and not kinds <= {int, float, complex}:
        raise refused(name, f"a list with {words(kind.__name__ for kind in kinds)}", "make all elements the same kind")
    if kinds & {str, bytes}:
        return of_strings(built(value, object, name), name)
    if complex in kinds or any(issubclass(one, np.generic) for one in types):
        return of_array(of_typed(value, found, kinds, name), name)
    integers = [one for one in found if isinstance(one, int)] if float in kinds else []
    if kinds == {int}:
        refuse_wide(found, name)
    elif integers:
        refuse_inexact(integers, np.dtype("f8"), name)
    if index and kinds <= {int} and max(found, default=0) < 2 ** 63:
        return of_array(built(value, "<i8", name), name)
    largest = max(integers, key=abs, default=0)
    if float in kinds and (abs(largest) > 2 ** exact_bits(np.dtype("f4")) or not all(map(math.isfinite, found))):
        return Floats(built(value, "<f8", name), largest, name)
    return Plain(value)


def elements(value: Any) -> list[Any]:
    """Returns the elements of nested lists in order."""
    if not isinstance(value, (list, tuple)):
        return [value]
    if not any(issubclass(one, (list, tuple)) for one in set(map(type, value))):
        return list(value)
    return [element for one in value for element in elements(one)]


def types_in_arrays(found: list[Any], name: str) -> set[type]:
    """Returns the types of the elements; for an element that is an array, the type of its elements."""
    for one in found:
        if isinstance(one, np.ndarray):
            refuse_labelled(one, name)
            of_array(one, name)
    return {one.dtype.type if isinstance(one, np.ndarray) else type(one) for one in found}


def kind_of(kind: type, value: Any, found: list[Any], name: str) -> type:
    """Returns the kind of a type of elements: bool, int, float, complex, str or bytes. Any other NumPy type is a kind by itself."""
    for members in KINDS:
        if issubclass(kind, members) and not issubclass(kind, np.timedelta64):  # NumPy's timedelta64 is a subclass of integer.
            return members[0]
    if issubclass(kind, np.generic):
        return kind
    example = next(one for one in found if type(one) is kind)
    refuse_labelled(example, name, found)
    way_out = missing_hint(name, found) if example is None else way_out_of(example, example is not value, name)
    raise refused(name, a(kind) if example is value else f"a list with {a(kind)}", way_out)


def a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'aeiouAEIO' else 'a'} {kind.__name__}"


def missing_hint(name: str, beside: Iterable[Any]) -> str:
    """Returns advice for None beside other elements. NaN stands for a missing number, but not for a missing key, row number,
    string or bool."""
    if name in IDENTIFIERS:
        return MISSING_KEY
    fills = (fill for kind, fill, _ in FILLS[:3] if any(isinstance(one, kind) for one in beside))
    return next((f"fill it, for example with {fill}" for fill in fills), MISSING)


def way_out_of(value: Any, in_list: bool, name: str) -> str:
    """Returns what to pass instead of a value that is neither a number nor a string."""
    if isinstance(value, Symbol):
        return "pass tensord.steps.stack(x)"
    if is_torch(value):
        return "pass torch.stack(x)"
    if hasattr(value, "__array__") and not isinstance(value, type):
        return "pass numpy.array(x)"
    way = replacement(value)
    if isinstance(value, Mapping) and "data" not in value and name in KEYS:
        return "pass its keys in the order of the rows: list(x), or sorted(x, key=x.get) for a vocabulary that maps keys to rows"
    if not way:
        return "pass a NumPy array, or nested lists of numbers or strings"
    return f"pass {way}" + (" for each such element x" if in_list else "")


def replacement(value: Any) -> str:
    """Returns an expression for the elements of x, or an empty string."""
    if isinstance(value, datetime.datetime):
        return "numpy.datetime64(x, 'us').astype('int64')"
    if isinstance(value, datetime.date):
        return "x.toordinal()"
    if isinstance(value, datetime.timedelta):
        return "x // datetime.timedelta(microseconds=1)"
    if isinstance(value, Mapping):
        return "numpy.array(x['data'], x.get('dtype'))" if "data" in value else "list(x.values())"
    if isinstance(value, type):
        return ""
    return "list(x)" if isinstance(value, Iterable) else "float(x)" if hasattr(value, "__float__") else ""


def of_typed(value: Any, found: list[Any], kinds: set[type], name: str) -> Array:
    """Returns the array that NumPy makes from a list of NumPy values or complex numbers."""
    made = built(value, None, name)
    if kinds == {int} and made.dtype.kind in "fO":
        raise refused(name, f"a list of integers that fit only {made.dtype.name} in NumPy", TOO_WIDE)
    if int in kinds and len(kinds) > 1:
        integers = [int(edge(one, initial=0)) for one in found for edge in (np.min, np.max) if np.asarray(one).dtype.kind in "iuO"]
        refuse_inexact(integers, made.dtype if made.dtype.kind in "fc" else np.dtype("f8"), name)
    return made


def refuse_wide(found: list[Any], name: str) -> None:
    """Raises TypeError if no dtype can hold all the Python integers."""
    low, high = min(found), max(found)
    if low < -2 ** 63 or high >= 2 ** 64 or low < 0 and high >= 2 ** 63:
        raise refused(name, f"the integer {low}" if low == high else f"integers from {low} to {high}", TOO_WIDE)


def exact_bits(dtype: np.dtype[Any]) -> int:
    """Returns n such that the dtype represents all integers up to 2**n exactly."""
    return int(np.finfo(dtype).nmant) + 1


def refuse_inexact(integers: list[int], dtype: np.dtype[Any], name: str) -> None:
    """Raises TypeError if an integer beside floats is too large to convert to this float dtype exactly."""
    bits, wide = exact_bits(dtype), exact_bits(np.dtype("f8"))
    largest = max(integers, key=abs, default=0)
    if abs(largest) > 2 ** bits:
        raise refused(name, f"the integer {largest} in a list with floats, which becomes {dtype.name}; {dtype.name} is exact only up to 2**{bits}",
                      f"pass numpy.array(x, 'float64'), or beside {dtype.name} inputs numpy.array(x, {dtype.name!r}), which rounds it"
                      if bits < wide and abs(largest) <= 2 ** wide else f"pass numpy.array(x, {dtype.name!r}), which rounds it")


def typed(given: Floats, dtype: str) -> Input:
    """Converts the floats to this dtype. A value that would lose more than rounding is refused."""
    if dtype == "bfloat16":  # NumPy does not have bfloat16, so the daemon rounds.
        return Plain({"dtype": dtype, "shape": list(given.values.shape), "data": with_names(given.values.tolist())})
    with np.errstate(over="ignore"):
        made = given.values.astype(NUMPY[dtype])
    lost = given.values[np.isinf(made) & np.isfinite(given.values)]
    if lost.size:
        raise refused(given.name, f"{lost[0]} does not fit {dtype}", "pass numpy.array(x, 'float64')")
    refuse_inexact([given.integer], np.promote_types(NUMPY[dtype], "f4"), given.name)
    return of_array(made, given.name)


def with_all_digits(given: Given, name: str) -> Given:
    """Converts Python floats to float64, so that they keep all digits until the op converts them."""
    if isinstance(given, Floats):
        return typed(given, "float64")
    if isinstance(given, Plain) and not isinstance(given.value, dict) and any(isinstance(one, float) for one in elements(given.value)):
        return of_array(built(given.value, "f8", name), name)
    return given


def with_names(value: Any) -> Any:
    """Replaces NaN and infinities in nested lists with their names in JSON."""
    if isinstance(value, list):
        return [with_names(one) for one in value]
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def common_float(dtypes: Iterable[Any], name: str) -> Optional[str]:
    """Returns the dtype of Python floats beside inputs of these dtypes, or None if no input is a float."""
    found = {one for one in dtypes if one in FLOATS}
    if len(found) > 1:
        raise refused(name, f"floats beside inputs of {words(found)}, so their dtype is ambiguous", "pass numpy.array(x, 'float64'), or another dtype")
    return found.pop() if found else None


def built(value: Any, dtype: Any, name: str) -> Array:
    try:
        return np.array(value, dtype)
    except ValueError as error:
        raise refused(name, "lists of different lengths", one_length(name)) from error


def words(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def is_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes)) or isinstance(value, np.ndarray) and value.dtype.kind in "USOT"


def dtype_name(dtype: Any) -> str:
    """Returns the name of a dtype: float32 for np.float32, np.dtype("float32"), torch.float32 and "float32"."""
    if isinstance(dtype, str):
        return dtype
    return str(dtype).rpartition(".")[2] if is_torch(dtype) else np.dtype(dtype).name
