"""Files of NumPy with one array, .npy. They are mapped, not read, so that they may be larger than
memory.
"""

import pathlib
from collections.abc import Iterator

import numpy

from table import Array, Refused, Table, dtype_of, rows_per_batch

NAME = "rows"  # of the only tensor


class Npy:
    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.names = path, [NAME]
        try:
            self.mapped: Array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as e:
            raise Refused(
                f"{path}: it is damaged, or not an array of numbers that numpy.save wrote"
            ) from e

    def array(self, name: str) -> Array:
        return numpy.asarray(self.mapped)

    def table(self, name: str) -> Table:
        place = str(self.path)
        dtype = dtype_of(self.mapped.dtype.newbyteorder("="), place)
        shape = self.mapped.shape
        rows = self.mapped if shape else self.mapped.reshape(1)
        step = rows_per_batch(rows.nbytes // max(1, len(rows)))

        def batches() -> Iterator[Array]:
            for first in range(0, len(rows), step):
                yield numpy.ascontiguousarray(rows[first : first + step], dtype.storage)

        return Table(name, dtype, shape, batches, place)
