"""Writes tables with their keys, scales and offsets to one safetensors file. Each tensor is a region of the
file. The file is allocated before the first row is read, so a full disk is detected at once.
"""

import dataclasses
import errno
import os
import pathlib

import numpy

from encoding import Encoder
from folder import naming
from keys import Survey
from progress import Progress
from safetensors_file import Layout, Part, plan
from table import DTYPES, Array, Keys, Refused, Strings


@dataclasses.dataclass
class Output:
    """A table to write under a name."""

    name: str
    encoder: Encoder
    survey: Survey | None  # survey of the keys, or None without keys

    def parts(self) -> list[Part]:
        made = [
            Part(self.name + suffix, dtype, shape)
            for suffix, (dtype, shape) in self.encoder.parts().items()
        ]
        keys = self.encoder.table.keys
        if keys and self.survey and keys.kind == "string":
            made += [
                Part(self.name + ".keys.offsets", DTYPES["int64"], (self.survey.count + 1,)),
                Part(self.name + ".keys.bytes", DTYPES["uint8"], (self.survey.text_bytes,)),
            ]
        elif keys and self.survey:
            made.append(Part(self.name + ".keys", DTYPES[keys.kind], (self.survey.count,)))
        return made


class Regions:
    """The regions of a file, one for each tensor. Each region is written sequentially."""

    def __init__(
        self, fd: int, path: pathlib.Path, layout: Layout, parts: list[Part], progress: Progress
    ) -> None:
        self.fd, self.path, self.progress = fd, path, progress
        self.at = dict(layout.begin)
        self.end = {part.name: layout.begin[part.name] + part.bytes for part in parts}

    def write(self, name: str, data: Array | bytes, place: str) -> None:
        view = (
            memoryview(data)
            if isinstance(data, bytes)
            else numpy.ascontiguousarray(data).reshape(-1).view("u1").data
        )
        if len(view) > self.end[name] - self.at[name]:
            raise Refused(f"{place}: it has more rows than at the start of the import; do not change it during an import")
        self.progress.add(len(view))
        while len(view):
            with naming(self.path):
                count = os.pwrite(self.fd, view, self.at[name])
            self.at[name] += count
            view = view[count:]

    def check_full(self, name: str, place: str) -> None:
        if self.at[name] != self.end[name]:
            raise Refused(
                f"{place}: it ends {self.end[name] - self.at[name]} bytes before {name} is complete"
            )


def write_rows(regions: Regions, output: Output) -> None:
    table, first = output.encoder.table, 0
    for rows in table.batches():
        for suffix, array in output.encoder.encode(rows, first).items():
            regions.write(output.name + suffix, array, table.place)
        first += len(rows)


def write_keys(regions: Regions, name: str, keys: Keys) -> None:
    if keys.kind != "string":
        for batch in keys.batches():
            assert not isinstance(batch, Strings)
            regions.write(
                name + ".keys", batch.astype(DTYPES[keys.kind].storage, copy=False), keys.place
            )
        return
    at = 0
    regions.write(name + ".keys.offsets", numpy.zeros(1, "<i8"), keys.place)
    for batch in keys.batches():
        assert isinstance(batch, Strings)
        regions.write(name + ".keys.offsets", batch.offsets[1:] + at, keys.place)
        regions.write(name + ".keys.bytes", batch.data, keys.place)
        at += len(batch.data)


def write_file(path: pathlib.Path, outputs: list[Output], quiet: bool) -> int:
    """Writes and fsyncs a new file, and returns its size."""
    parts = [part for output in outputs for part in output.parts()]
    layout = plan(parts)
    progress = Progress(f"writing {path.name}", layout.size, quiet)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        allocate(fd, layout.size, path)
        with naming(path):
            os.pwrite(fd, layout.header, 0)
        regions = Regions(fd, path, layout, parts, progress)
        for output in outputs:
            write_rows(regions, output)
            if output.encoder.table.keys:
                write_keys(regions, output.name, output.encoder.table.keys)
            for part in output.parts():
                regions.check_full(part.name, output.encoder.table.place)
        with naming(path):
            os.fsync(fd)
        progress.end()
    except BaseException:
        progress.abandon()
        raise
    finally:
        os.close(fd)
    return layout.size


def allocate(fd: int, size: int, path: pathlib.Path) -> None:
    try:
        with naming(path):
            os.posix_fallocate(fd, 0, size)
    except OSError as e:
        if e.errno == errno.ENOSPC:
            raise Refused(
                f"{path.parent.parent}: not enough space on the disk; {size} bytes are needed"
            ) from e
        raise
