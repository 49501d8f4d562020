"""Reads the state dicts of PyTorch. A state dict is a pickle that describes tensors, and the storages with
their data. Both are in a zip archive or, before PyTorch 1.6, one after the other in the file. Nothing in
a pickle is executed; only calls that describe tensors are interpreted.
"""

import collections
import contextlib
import dataclasses
import io
import math
import pathlib
import pickle
import struct
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from archives import archive_errors, open_archive
from table import (
    DTYPES,
    Array,
    Dtype,
    Refused,
    Table,
    Unreadable,
    read_exactly,
    read_rows,
    table_of_array,
)

PICKLE_BYTES = 256 << 20
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # LEGACY_MAGIC as a pickle
MOST_DEPTH = 32


# ---------------------------------------------------------------- contents of a pickle
@dataclasses.dataclass(frozen=True)
class StorageKind:
    """A storage class such as torch.FloatStorage."""

    name: str

    @property
    def dtype(self) -> Dtype | None:
        return DTYPES.get(STORAGES.get(self.name, ""))

    @property
    def itemsize(self) -> int:
        return self.dtype.storage.itemsize if self.dtype else FOREIGN_STORAGES[self.name]


@dataclasses.dataclass(frozen=True)
class Storage:
    """A persistent id in the pickle, which names the storage with the data of tensors."""

    kind: StorageKind
    key: str
    begin: int  # first element, if this is a view of a storage
    numel: int


@dataclasses.dataclass(frozen=True)
class TorchDtype:
    """A dtype such as torch.float32."""

    name: str


@dataclasses.dataclass(frozen=True)
class Tensor:
    dtype: Dtype
    key: str  # key of the storage
    numel: int  # number of elements in the storage, from its start
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True


class Inert:
    """Stands for an object of a class that is known to contain no tensors. Nothing of the object is kept."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass

    def __setitem__(self, _: object, __: object) -> None:
        pass

    def append(self, _: object) -> None:
        pass

    def extend(self, _: object) -> None:
        pass

    def add(self, _: object) -> None:
        pass

    def update(self, _: object) -> None:
        pass


class Foreign(Inert):
    """Stands for a tensor or an array that has no equivalent in tensord."""

    what = "it"

    def __init__(self, *_: object, **__: object) -> None:
        pass


class Sparse(Foreign):
    what = "a sparse tensor; convert it with x.to_dense()"


class Quantized(Foreign):
    what = "a quantized tensor; convert it to floats with x.dequantize()"


class NumpyArray(Foreign):
    what = "a NumPy array, not a tensor; convert it with torch.from_numpy(x)"


class OtherDtype(Foreign):
    def __init__(self, name: str) -> None:
        self.what = f"of dtype {name}; expected one of {', '.join(DTYPES)}"


STORAGES = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "UntypedStorage": "uint8",
}
FOREIGN_STORAGES = {  # size of an element in bytes
    "ComplexDoubleStorage": 16,
    "QInt8Storage": 1,
    "QUInt8Storage": 1,
    "QInt32Storage": 4,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
}
FOREIGN_DTYPES = (
    *("complex32", "complex128", "cfloat", "cdouble", "half", "float", "double", "short", "int"),
    *("long", "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "uint1", "uint2", "uint3"),
    *("uint4", "uint5", "uint6", "uint7", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def describe(
    dtype: Dtype, storage: Storage, numel: int, offset: object, shape: object, strides: object
) -> Tensor:
    """Returns the tensor with this description. Refuses tensors that extend beyond the storage, which has
    `numel` elements of the dtype.
    """
    if not (
        is_count(offset)
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
        and len(shape) == len(strides) <= 64
        and all(map(is_count, (*shape, *strides)))
    ):
        raise Refused("the description of a tensor is invalid")
    first = typing.cast(int, offset)
    last = first + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    if math.prod(shape) and last >= numel:
        raise Refused(f"a tensor of shape {list(shape)} has elements after the end of its storage")
    begin = storage.begin
    return Tensor(dtype, storage.key, begin + numel, begin + first, shape, strides)


def rebuild_tensor(
    storage: object, offset: object, shape: object, strides: object, *_: object
) -> Tensor | Foreign:
    """Interprets torch._utils._rebuild_tensor and _rebuild_tensor_v2."""
    if not isinstance(storage, Storage):
        raise Refused("the description of a tensor is invalid")
    dtype = storage.kind.dtype
    if not dtype:
        return OtherDtype(storage.kind.name.removesuffix("Storage"))
    return describe(dtype, storage, storage.numel, offset, shape, strides)


def rebuild_typed_tensor(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    _grad: object,
    _hooks: object,
    dtype: object,
    *_: object,
) -> Tensor | Foreign:
    """Interprets torch._utils._rebuild_tensor_v3, where the storage has bytes and the tensor has a dtype."""
    if not (
        isinstance(storage, Storage)
        and storage.kind.dtype == DTYPES["uint8"]
        and storage.begin == 0
        and isinstance(dtype, TorchDtype)
    ):
        raise Refused("the description of a tensor is invalid")
    known = DTYPES.get(dtype.name)
    if not known:
        return OtherDtype(dtype.name)
    return describe(known, storage, storage.numel // known.storage.itemsize, offset, shape, strides)


def empty_dict(*_: object) -> dict[object, object]:
    """Interprets collections.defaultdict, which can contain tensors."""
    return {}


def rebuild_parameter(tensor: object, *_: object) -> object:
    return tensor


def rebuild_from_type(rebuild: object, _type: object, arguments: object, *_: object) -> object:
    """Interprets torch._tensor._rebuild_from_type_v2: a tensor with attributes, or of a derived class."""
    if rebuild not in TENSOR_CALLS.values() or not isinstance(arguments, tuple):
        raise Refused("the description of a tensor is invalid")
    return typing.cast(Callable[..., object], rebuild)(*arguments)


TENSOR_CALLS: dict[tuple[str, str], Callable[..., object]] = {
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_typed_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter,
    ("torch._utils", "_rebuild_sparse_tensor"): Sparse,
    ("torch._utils", "_rebuild_sparse_csr_tensor"): Sparse,
    ("torch._utils", "_rebuild_qtensor"): Quantized,
}
BUILTINS = (
    *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"),
    *("range", "set", "slice", "str", "tuple"),
)
KNOWN: dict[tuple[str, str], Callable[..., object]] = {
    **TENSOR_CALLS,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): empty_dict,
    **{
        (module, name): Inert
        for module, names in {
            # Classes of settings and counters that training programs save beside the tensors.
            "argparse": ("Namespace",),
            "builtins": BUILTINS,
            "__builtin__": BUILTINS,
            "collections": ("Counter", "deque"),
            "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
            "decimal": ("Decimal",),
            "fractions": ("Fraction",),
            "pathlib": ("Path", "PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath"),
            "types": ("SimpleNamespace",),
            "uuid": ("UUID",),
            "_codecs": ("encode",),  # older pickles encode the bytes of a scalar with this function
            "numpy": ("dtype", "ndarray"),
            "numpy.core.multiarray": ("scalar",),
            "numpy._core.multiarray": ("scalar",),
            "torch": (
                *("Generator", "Size", "Tensor", "device", "sparse_coo", "sparse_csr", "strided"),
                *("per_channel_affine", "per_channel_affine_float_qparams", "per_tensor_affine"),
            ),
            "torch.nn.parameter": ("Buffer", "Parameter"),
            "torch.serialization": ("_get_layout",),
        }.items()
        for name in names
    },
    ("numpy.core.multiarray", "_reconstruct"): NumpyArray,
    ("numpy._core.multiarray", "_reconstruct"): NumpyArray,
    ("numpy._core.numeric", "_frombuffer"): NumpyArray,
    ("numpy.core.numeric", "_frombuffer"): NumpyArray,
}


class Reader(pickle.Unpickler):
    """An unpickler that knows only the classes of tensors, and harmless classes whose objects are dropped.
    Any other class could run a program, and is refused.
    """

    def __init__(self, stream: typing.IO[bytes]) -> None:
        super().__init__(stream, encoding="utf-8")
        self.sizes: dict[str, int] = {}  # size in bytes of an element of each storage

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and name in (*STORAGES, *FOREIGN_STORAGES):
            return StorageKind(name)
        if module == "torch" and name in (*DTYPES, *FOREIGN_DTYPES):
            return TorchDtype(name)
        if (module, name) not in KNOWN:
            raise Refused(
                f"it has an object of {module}.{name}; expected only the tensors of a state dict, "
                "as torch.save(model.state_dict(), FILE) writes them"
            )
        return KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Storage:
        if not (
            isinstance(pid, tuple)
            and len(pid) in (5, 6)
            and pid[0] == "storage"
            and isinstance(pid[1], StorageKind)
            and isinstance(pid[2], str)
            and is_count(pid[4])
        ):
            raise Refused("the description of a storage is invalid")
        self.sizes[pid[2]] = pid[1].itemsize
        view = pid[5] if len(pid) == 6 else None
        if view is None:
            return Storage(pid[1], pid[2], 0, pid[4])
        if not (
            isinstance(view, tuple)
            and len(view) == 3
            and is_count(view[1])
            and is_count(view[2])
            and view[1] + view[2] <= pid[4]
        ):
            raise Refused("the description of a storage is invalid")
        return Storage(pid[1], pid[2], view[1], view[2])


def load_pickle(stream: typing.IO[bytes], place: str) -> tuple[Any, dict[str, int]]:
    """Returns the contents of the next pickle, and the element size in bytes of each storage that it names."""
    reader = Reader(stream)
    try:
        return reader.load(), reader.sizes
    except Refused as e:
        raise Refused(f"{place}: {e}") from e
    except Exception as e:  # According to the documentation of pickle, a damaged pickle can raise any exception.
        raise Refused(f"{place}: the pickle is damaged") from e


# ---------------------------------------------------------------- data of storages
class ZipStorages:
    """A file written by PyTorch 1.6 or newer."""

    def __init__(self, path: pathlib.Path) -> None:
        self.archive = open_archive(path)
        pickles = [
            name
            for name in self.archive.namelist()
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if len(pickles) != 1:
            raise Refused(f"{path}: it is a zip archive without data.pkl; expected a file of torch.save")
        self.prefix = pickles[0].removesuffix("data.pkl")
        if self.archive.getinfo(pickles[0]).file_size > PICKLE_BYTES:
            raise Refused(f"{path}: data.pkl has more than {PICKLE_BYTES} bytes")
        order = self.prefix + "byteorder"
        with archive_errors(str(path)):
            if order in self.archive.namelist() and self.archive.read(order) != b"little":
                raise Refused(f"{path}: its data is big-endian")
            content = self.archive.read(pickles[0])
        self.document, _ = load_pickle(io.BytesIO(content), f"{path}, data.pkl")

    def bytes_of(self, key: str) -> int:
        member = f"{self.prefix}data/{key}"
        return self.archive.getinfo(member).file_size if member in self.archive.namelist() else 0

    def open(self, key: str) -> contextlib.AbstractContextManager[typing.IO[bytes]]:
        return self.archive.open(f"{self.prefix}data/{key}")


class LegacyStorages:
    """A file written by PyTorch before 1.6, or by torch.save(..., _use_new_zipfile_serialization=False).
    It has five pickles, then the number of elements and the data of each storage.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path, place = path, str(path)
        self.places: dict[str, tuple[int, int]] = {}  # position and size in bytes of each storage
        with path.open("rb") as file:
            magic, protocol, system = (load_pickle(file, place)[0] for _ in range(3))
            if magic != LEGACY_MAGIC or protocol != LEGACY_PROTOCOL or not isinstance(system, dict):
                raise Refused(f"{path}: it is a pickle, but not a file of torch.save")
            if system.get("little_endian") is not True:
                raise Refused(f"{path}: its data is big-endian")
            self.document, sizes = load_pickle(file, place)
            keys, _ = load_pickle(file, place)
            if not isinstance(keys, list) or not all(key in sizes for key in keys):
                raise Refused(f"{path}: the list of its storages is damaged")
            for key in keys:
                numel = struct.unpack("<Q", read_exactly(file, 8, place))[0]
                begin, size = file.tell(), numel * sizes[key]
                if size > path.stat().st_size - begin:
                    raise Refused(f"{path}: it ends within storage {key}")
                self.places[key] = begin, size
                file.seek(size, io.SEEK_CUR)

    def bytes_of(self, key: str) -> int:
        return self.places.get(key, (0, 0))[1]

    @contextlib.contextmanager
    def open(self, key: str) -> Iterator[typing.IO[bytes]]:
        with self.path.open("rb") as file:
            file.seek(self.places[key][0])
            yield file


def open_storages(path: pathlib.Path) -> ZipStorages | LegacyStorages:
    with path.open("rb") as file:
        start = file.read(len(LEGACY_START))
    if start.startswith(b"PK"):
        return ZipStorages(path)
    if start == LEGACY_START:
        return LegacyStorages(path)
    what = "a pickle" if start[:1] == b"\x80" else "neither a zip archive nor a pickle"
    raise Refused(
        f"{path}: it is {what}, not a file of torch.save; expected the tensors of a state dict, as"
        " torch.save(model.state_dict(), FILE) writes them"
    )


class StateDict:
    """The tensors of a file that torch.save wrote. Names in nested dicts and positions in lists are joined
    with dots.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.storages = open_storages(path)
        self.tensors: dict[str, Tensor | Foreign] = {}
        self.collect("", self.storages.document, 0)
        self.names = list(self.tensors)

    def collect(self, prefix: str, value: object, depth: int) -> None:
        if isinstance(value, (Tensor, Foreign)):
            full = prefix.removesuffix(".") or "tensor"
            if full in self.tensors:
                raise Refused(f"{self.path}: two tensors are named {full}")
            self.tensors[full] = value
        elif isinstance(value, (dict, list, tuple)):
            if depth == MOST_DEPTH:
                raise Refused(f"{self.path}: its dicts are nested deeper than {MOST_DEPTH}")
            for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
                self.collect(f"{prefix}{name}.", inner, depth + 1)

    def table(self, name: str) -> Table:
        tensor, place = self.tensors[name], f"{self.path}, tensor {name}"
        if isinstance(tensor, Foreign):
            raise Unreadable(f"{place}: it is {tensor.what}")
        size = tensor.dtype.storage.itemsize
        if self.storages.bytes_of(tensor.key) < tensor.numel * size:
            raise Refused(
                f"{place}: storage {tensor.key} lacks {tensor.numel * size} bytes of data"
            )
        if not tensor.is_contiguous:
            return dataclasses.replace(
                table_of_array(name, self.strided(tensor, place), place), dtype=tensor.dtype
            )

        def batches() -> Iterator[Array]:
            with archive_errors(place), self.storages.open(tensor.key) as stream:
                stream.seek(tensor.offset * size, io.SEEK_CUR)
                yield from read_rows(stream, tensor.shape, tensor.dtype.storage, place)

        return Table(name, tensor.dtype, tensor.shape, batches, place)

    def array(self, name: str) -> Array:
        return self.table(name).array()

    def strided(self, tensor: Tensor, place: str) -> Array:
        """Reads a tensor that is not contiguous, such as a transposed tensor. The whole storage is read."""
        if math.prod(tensor.shape) > tensor.numel:
            raise Refused(f"{place}: it is an expanded tensor, whose elements share memory; convert it with x.contiguous()")
        storage = tensor.dtype.storage
        with archive_errors(place), self.storages.open(tensor.key) as stream:
            elements = numpy.frombuffer(
                read_exactly(stream, tensor.numel * storage.itemsize, place), storage
            )
        return numpy.lib.stride_tricks.as_strided(
            elements[tensor.offset :],
            tensor.shape,
            [stride * storage.itemsize for stride in tensor.strides],
            writeable=False,
        )
