"""Which reader an input has, and the tables of it that the command line chooses, with their keys.
"""

import dataclasses
import pathlib
import typing
from collections.abc import Iterator

from archives import Npz, StateDict
from keys import keys_of_array, keys_of_file
from safetensors_file import Safetensors
from table import BATCH_KEYS, Array, Keys, Refused, Strings, Table

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
STATE_DICT = (".pt", ".pth", ".bin")
KEY_SUFFIXES = (".keys", ".keys.bytes", ".keys.offsets")


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the command line chooses of an input."""

    tensors: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # the new name of each; none: all, as they are
    rows: tuple[str, ...] = ()
    keys: str | None = None
    keys_from: pathlib.Path | None = None
    key_kind: str | None = None
    delimiter: str | None = None
    quote: bool | None = None


class Tensors(typing.Protocol):
    """The readers of formats that hold tensors."""

    path: pathlib.Path
    names: list[str]

    def table(self, name: str) -> Table: ...

    def array(self, name: str) -> Array: ...


def has_suffix(path: pathlib.Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def stem_of(paths: list[pathlib.Path]) -> str:
    """The name of an input without its suffix."""
    name = paths[0].resolve().name
    for suffix in (*CSV, *PARQUET, *STATE_DICT, ".npz", ".safetensors"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def parquet_parts(paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """The files of a folder of parts, sorted by name; what is no folder is as given."""
    if len(paths) == 1 and paths[0].is_dir():
        return sorted(path for path in paths[0].iterdir() if has_suffix(path, PARQUET))
    return paths


def read_tables(paths: list[pathlib.Path], choice: Choice) -> list[Table]:
    for path in paths:
        if not path.exists():
            raise Refused(f"{path}: there is no such file")
    parts = parquet_parts(paths)
    if parts and all(has_suffix(path, PARQUET) for path in parts):
        return [read_columns(parts, choice)]
    if len(paths) > 1:
        raise Refused(
            f"{paths[1]}: several inputs are the parts of a Parquet table; expected one input of"
            " other formats"
        )
    if has_suffix(paths[0], CSV):
        return [read_columns(paths, choice)]
    return read_tensors(open_tensors(paths[0]), choice)


# ---------------------------------------------------------------- Parquet and CSV
def read_columns(paths: list[pathlib.Path], choice: Choice) -> Table:
    import arrow_files  # pyarrow, which no other format needs
    import columns
    import csv_file

    table = columns.read(
        csv_file.Csv(
            *(paths[0], choice.rows, choice.keys, choice.key_kind, choice.delimiter, choice.quote)
        )
        if has_suffix(paths[0], CSV)
        else arrow_files.Parquet(paths),
        choice.rows,
        choice.keys,
        choice.key_kind,
    )
    if choice.keys_from:
        table = dataclasses.replace(table, keys=keys_of_file(choice.keys_from))
    for name in choice.tensors:
        if name != table.name:
            raise Refused(
                f"{table.place}: there is no tensor {name}; the columns make the tensor"
                f" {table.name}"
            )
    return dataclasses.replace(table, name=choice.tensors.get(table.name, table.name))


# ---------------------------------------------------------------- tensors
def open_tensors(path: pathlib.Path) -> Tensors:
    if path.is_dir() or has_suffix(path, (".safetensors",)):
        return Safetensors(path)
    if has_suffix(path, (".npz",)):
        return Npz(path)
    if has_suffix(path, STATE_DICT):
        return StateDict(path)
    raise Refused(
        f"{path}: its suffix is that of no format; expected .parquet, .csv, .tsv, .npz, .pt, .pth,"
        " .bin, .safetensors or a folder"
    )


def read_tensors(reader: Tensors, choice: Choice) -> list[Table]:
    if choice.rows:
        raise Refused(
            f"{reader.path}: --rows chooses columns; the input has tensors, which --tensor chooses"
        )
    own_keys = {
        name
        for name in reader.names
        for suffix in KEY_SUFFIXES
        if name.removesuffix(suffix) in reader.names and name.endswith(suffix)
    }
    chosen = choice.tensors or {
        name: name for name in reader.names if name not in own_keys and name != choice.keys
    }
    if not chosen:
        raise Refused(f"{reader.path}: there are no tensors in it")
    for name in (*chosen, *([choice.keys] if choice.keys else [])):
        if name not in reader.names:
            raise Refused(
                f"{reader.path}: there is no tensor {name}; it has"
                f" {', '.join(sorted(reader.names)) or 'none'}"
            )
    if (choice.keys or choice.keys_from) and len(chosen) != 1:
        raise Refused(
            f"{reader.path}: the keys are for one tensor, but {len(chosen)} are taken: --tensor"
            " chooses one"
        )
    return [
        dataclasses.replace(reader.table(name), name=new, keys=keys_of_tensor(reader, name, choice))
        for name, new in chosen.items()
    ]


def keys_of_tensor(reader: Tensors, name: str, choice: Choice) -> Keys | None:
    """Those that the command line names, or the tensors that lie beside it as its keys."""
    if choice.keys_from:
        return keys_of_file(choice.keys_from)
    beside = choice.keys or name + ".keys"
    if beside in reader.names:
        return keys_of_array(reader.array(beside), f"{reader.path}, tensor {beside}")
    if {name + ".keys.bytes", name + ".keys.offsets"} <= set(reader.names):
        return joined_strings(
            reader.array(name + ".keys.bytes"),
            reader.array(name + ".keys.offsets"),
            f"{reader.path}, tensor {beside}",
        )
    return None


def joined_strings(data: Array, offsets: Array, place: str) -> Keys:
    if not (
        data.dtype == "u1"
        and offsets.dtype == "i8"
        and data.ndim == offsets.ndim == 1
        and len(offsets)
        and offsets[0] == 0
        and offsets[-1] == len(data)
        and (offsets[1:] >= offsets[:-1]).all()
    ):
        raise Refused(
            f"{place}: .bytes and .offsets are not those of strings: the offsets go up from 0 to"
            " the number of bytes"
        )

    def batches() -> Iterator[Strings]:
        for i in range(0, len(offsets) - 1, BATCH_KEYS):
            part = offsets[i : i + BATCH_KEYS + 1]
            yield Strings(part - part[0], data[part[0] : part[-1]].tobytes())

    return Keys("string", batches, place)
