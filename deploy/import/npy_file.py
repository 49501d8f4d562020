"""Reads .npy files of NumPy, which contain one array. A file is mapped, so it can be larger than
memory.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import numpy

from archives import OBJECTS, OF_DICT
from table import Array, Refused, Table, dtype_of, rows_per_batch
from text import option

NAME = "rows"  # name of the only tensor


def load(path: pathlib.Path) -> Array:
    try:
        array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, numpy.ndarray):
            raise ValueError  # The file is a zip archive.
    except Exception as e:  # NumPy parses the header as Python, so a damaged header can raise any exception.
        if isinstance(e, OSError) and e.errno:
            raise Refused(f"{path}: {os.strerror(e.errno)}") from e
        if "Python objects" in str(e):
            raise Refused(f"{path}: the array x has {OBJECTS}; {OF_DICT}, where d = x.item()") from e
        raise Refused(
            f"{path}: it is damaged, or not an array of numbers or strings that numpy.save wrote"
        ) from e
    return array


class Npy:
    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.names, self.mapped = path, [NAME], load(path)

    def array(self, name: str) -> Array:
        return numpy.asarray(self.mapped)

    def table(self, name: str) -> Table:
        place = str(self.path)
        if self.mapped.dtype.kind in "US":
            raise Refused(
                f"{place}: an array of strings is not a tensor; to use it as the keys of a table, import"
                f" the table with it: TABLE {option('--keys-from', place)}"
            )
        dtype = dtype_of(self.mapped.dtype.newbyteorder("="), place)
        shape = self.mapped.shape
        rows = self.mapped if shape else self.mapped.reshape(1)
        step = rows_per_batch(rows.nbytes // max(1, len(rows)))

        def batches() -> Iterator[Array]:
            for first in range(0, len(rows), step):
                yield numpy.ascontiguousarray(rows[first : first + step], dtype.storage)

        return Table(name, dtype, shape, batches, place)
