"""Reads zip archives, and the arrays of .npz files."""

import contextlib
import dataclasses
import lzma
import math
import pathlib
import struct
import typing
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy
import numpy.lib.format

from table import (
    Array,
    Refused,
    Table,
    Unreadable,
    dtype_of,
    read_exactly,
    read_rows,
    table_of_array,
)

OF_DICT = (
    "a dict d of vectors by pandas.DataFrame({'key': list(d), 'vector': list(d.values())})"
    ".to_parquet('FILE.parquet')"
)
OBJECTS = (
    "Python objects, which cannot be imported. Convert rows with numpy.stack(x), numbers with"
    " x.astype('float32'), and keys with x.astype('int64') or x.astype(str)"
)
FORMAT: Any = numpy.lib.format  # Any, because the functions of numpy.lib.format have types only in some versions


@contextlib.contextmanager
def archive_errors(place: str) -> Iterator[None]:
    """Converts the exceptions of damaged, encrypted or unsupported archives to a Refused with one sentence."""
    try:
        yield
    except Refused:
        raise
    except NotImplementedError as e:
        raise Refused(f"{place}: its compression method is not supported") from e
    except RuntimeError as e:
        raise Refused(f"{place}: it is encrypted") from e
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as e:
        raise Refused(
            f"{place}: the archive is damaged: the file ends too early, or was changed"
        ) from e
    except OSError as e:
        raise Refused(f"{place}: the archive cannot be read: {e.strerror or 'damaged'}") from e
    except (ValueError, OverflowError, SyntaxError, MemoryError, struct.error) as e:
        raise Refused(f"{place}: its header is damaged") from e


def open_archive(path: pathlib.Path) -> zipfile.ZipFile:
    with path.open("rb") as file:
        start = file.read(2)
    if start != b"PK":
        raise Refused(f"{path}: it is not a zip archive, although its suffix says so")
    with archive_errors(str(path)):
        return zipfile.ZipFile(path)


# ---------------------------------------------------------------- NPZ
class Npz:
    """The arrays of an .npz file. Arrays in C order are read in batches."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.archive = open_archive(path)
        self.names = [
            name.removesuffix(".npy") for name in self.archive.namelist() if name.endswith(".npy")
        ]

    def open(self, name: str) -> tuple[typing.IO[bytes], tuple[int, ...], bool, "numpy.dtype[Any]"]:
        """Opens an array. Returns the stream after the header, the shape, True if the array is in Fortran order, and the dtype."""
        place = f"{self.path}, array {name}"
        with archive_errors(place):
            stream = self.archive.open(name + ".npy")
            version = FORMAT.read_magic(stream)
            if version == (1, 0):
                shape, fortran, dtype = FORMAT.read_array_header_1_0(stream)
            elif version in ((2, 0), (3, 0)):  # The versions differ only in the encoding of field names.
                shape, fortran, dtype = FORMAT.read_array_header_2_0(stream)
            else:
                raise Refused(
                    f"{place}: the format is {version[0]}.{version[1]}; expected 1.0, 2.0 or 3.0"
                )
        if dtype.hasobject:
            raise Unreadable(f"{place}: the array x has {OBJECTS}")
        return stream, shape, fortran, dtype

    def is_text(self, name: str) -> bool:
        """True for a vector of strings."""
        try:
            stream, shape, _, dtype = self.open(name)
        except Unreadable:
            return False
        stream.close()
        return len(shape) == 1 and dtype.kind in "US"

    def array(self, name: str) -> Array:
        """Reads a whole array, for keys."""
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
