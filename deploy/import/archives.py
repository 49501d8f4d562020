"""NPZ files and the state dicts of PyTorch: zip archives. Nothing in them is executed: of the
pickle of a state dict only the calls that describe tensors are taken.
"""

import collections
import contextlib
import dataclasses
import io
import lzma
import math
import pathlib
import pickle
import struct
import typing
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import numpy.lib.format

from table import (
    DTYPES,
    Array,
    Dtype,
    Refused,
    Table,
    dtype_of,
    read_exactly,
    read_rows,
    table_of_array,
)

PICKLE_BYTES = 256 << 20
FORMAT: Any = numpy.lib.format  # its functions have types in some versions only


@contextlib.contextmanager
def archive_errors(place: str) -> Iterator[None]:
    """What is damaged, encrypted or compressed in an unknown way is refused."""
    try:
        yield
    except Refused:
        raise
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
        *(RuntimeError, ValueError, OverflowError, MemoryError, struct.error),
    ) as e:
        raise Refused(f"{place}: the archive cannot be read: {e}") from e


# ---------------------------------------------------------------- NPZ
class Npz:
    """The arrays of an .npz file. Those in C order are read in batches."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with archive_errors(str(path)):
            self.archive = zipfile.ZipFile(path)
        self.names = [
            name.removesuffix(".npy") for name in self.archive.namelist() if name.endswith(".npy")
        ]

    def open(self, name: str) -> tuple[typing.IO[bytes], tuple[int, ...], bool, "numpy.dtype[Any]"]:
        """The stream of an array after its header, its shape, whether it is in Fortran order, its
        dtype.
        """
        place = f"{self.path}, array {name}"
        with archive_errors(place):
            stream = self.archive.open(name + ".npy")
            version = FORMAT.read_magic(stream)
            if version == (1, 0):
                shape, fortran, dtype = FORMAT.read_array_header_1_0(stream)
            elif version == (2, 0):
                shape, fortran, dtype = FORMAT.read_array_header_2_0(stream)
            else:
                raise Refused(
                    f"{place}: the format is {version[0]}.{version[1]}; expected 1.0 or 2.0"
                )
        if dtype.hasobject:
            raise Refused(f"{place}: it has objects of Python, which are not read")
        return stream, shape, fortran, dtype

    def array(self, name: str) -> Array:
        """All of an array, for keys."""
        stream, shape, fortran, dtype = self.open(name)
        place = f"{self.path}, array {name}"
        with stream, archive_errors(place):
            data = read_exactly(stream, math.prod(shape) * dtype.itemsize, place)
        return numpy.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")

    def table(self, name: str) -> Table:
        place = f"{self.path}, array {name}"
        stream, shape, fortran, dtype = self.open(name)
        stream.close()
        if fortran and len(shape) > 1:
            return dataclasses.replace(table_of_array(name, self.array(name), place), name=name)
        known = dtype_of(dtype.newbyteorder("="), place)

        def batches() -> Iterator[Array]:
            with self.open(name)[0] as rows, archive_errors(place):
                for batch in read_rows(rows, shape, dtype, place):
                    yield batch.astype(known.storage, copy=False)

        return Table(name, known, shape, batches, place)


# ---------------------------------------------------------------- PyTorch
@dataclasses.dataclass(frozen=True)
class Storage:
    """A persistent id of the pickle: where the data of tensors is."""

    dtype: Dtype
    key: str
    numel: int


@dataclasses.dataclass(frozen=True)
class StorageKind:
    """torch.FloatStorage and its like."""

    dtype: Dtype


@dataclasses.dataclass(frozen=True)
class Tensor:
    storage: Storage
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
}


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def rebuild_tensor(
    storage: object, offset: object, shape: object, strides: object, *_: object
) -> Tensor:
    """torch._utils._rebuild_tensor_v2: refuses all that would read beyond the storage."""
    if not (
        isinstance(storage, Storage)
        and is_count(offset)
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
        and len(shape) == len(strides) <= 32
        and all(map(is_count, (*shape, *strides)))
    ):
        raise Refused("a tensor is described wrongly")
    tensor = Tensor(storage, typing.cast(int, offset), shape, strides)
    last = tensor.offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    if math.prod(shape) and last >= storage.numel:
        raise Refused(f"a tensor of shape {list(shape)} has elements after the end of its storage")
    return tensor


def rebuild_parameter(tensor: object, *_: object) -> object:
    return tensor


class Reader(pickle.Unpickler):
    """Knows no classes but those of tensors: another one, which might run a program, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return StorageKind(DTYPES[STORAGES[name]])
        known: dict[tuple[str, str], Callable[..., object]] = {
            ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
            ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
            ("collections", "OrderedDict"): collections.OrderedDict,
        }
        if (module, name) not in known:
            raise Refused(
                f"it has an object of {module}.{name}; expected the tensors of a state dict alone, "
                "as torch.save(model.state_dict(), FILE) writes them"
            )
        return known[module, name]

    def persistent_load(self, pid: Any) -> Storage:
        if not (
            isinstance(pid, tuple)
            and len(pid) == 5
            and pid[0] == "storage"
            and isinstance(pid[1], StorageKind)
            and isinstance(pid[2], str)
            and is_count(pid[4])
        ):
            raise Refused("a storage is described wrongly")
        return Storage(pid[1].dtype, pid[2], pid[4])


class StateDict:
    """The tensors of a file that torch.save wrote, nested dicts joined by dots."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with archive_errors(str(path)):
            self.archive = zipfile.ZipFile(path)
        pickles = [
            name
            for name in self.archive.namelist()
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if len(pickles) != 1:
            raise Refused(
                f"{path}: it has no data.pkl: expected a file of torch.save of PyTorch 1.6 or newer"
            )
        self.prefix = pickles[0].removesuffix("data.pkl")
        if self.archive.getinfo(pickles[0]).file_size > PICKLE_BYTES:
            raise Refused(f"{path}: data.pkl has more than {PICKLE_BYTES} bytes")
        self.tensors: dict[str, Tensor] = {}
        self.collect("", self.load(pickles[0]), 0)
        self.names = list(self.tensors)

    def load(self, name: str) -> object:
        order = self.prefix + "byteorder"
        with archive_errors(str(self.path)):
            if order in self.archive.namelist() and self.archive.read(order) != b"little":
                raise Refused(f"{self.path}: its data is big-endian")
            content = self.archive.read(name)
        try:
            return Reader(io.BytesIO(content), encoding="utf-8").load()
        except Refused as e:
            raise Refused(f"{self.path}: {e}") from e
        except (
            Exception
        ) as e:  # the module pickle documents that a damaged pickle raises any of many
            raise Refused(f"{self.path}: data.pkl cannot be read: {e}") from e

    def collect(self, prefix: str, value: object, depth: int) -> None:
        if isinstance(value, Tensor):
            self.tensors[prefix.rstrip(".") or "tensor"] = value
        elif isinstance(value, dict) and depth < 32:
            for name, inner in value.items():
                self.collect(f"{prefix}{name}.", inner, depth + 1)

    def table(self, name: str) -> Table:
        tensor, place = self.tensors[name], f"{self.path}, tensor {name}"
        storage, member = tensor.storage, f"{self.prefix}data/{tensor.storage.key}"
        size = storage.dtype.storage.itemsize
        if (
            member not in self.archive.namelist()
            or self.archive.getinfo(member).file_size < storage.numel * size
        ):
            raise Refused(f"{place}: {member} lacks {storage.numel * size} bytes of data")
        if not tensor.is_contiguous:
            return dataclasses.replace(
                table_of_array(name, self.strided(tensor, member, place), place),
                dtype=storage.dtype,
            )

        def batches() -> Iterator[Array]:
            with archive_errors(place), self.archive.open(member) as stream:
                stream.seek(tensor.offset * size)
                yield from read_rows(stream, tensor.shape, storage.dtype.storage, place)

        return Table(name, storage.dtype, tensor.shape, batches, place)

    def array(self, name: str) -> Array:
        return self.table(name).array()

    def strided(self, tensor: Tensor, member: str, place: str) -> Array:
        """A transposed tensor, or a part of one; its storage is read as a whole."""
        if math.prod(tensor.shape) > tensor.storage.numel:
            raise Refused(f"{place}: it is expanded: its elements lie at the same place")
        storage = tensor.storage.dtype.storage
        with archive_errors(place), self.archive.open(member) as stream:
            elements = numpy.frombuffer(
                read_exactly(stream, tensor.storage.numel * storage.itemsize, place), storage
            )
        return numpy.lib.stride_tricks.as_strided(
            elements[tensor.offset :],
            tensor.shape,
            [stride * storage.itemsize for stride in tensor.strides],
            writeable=False,
        )
