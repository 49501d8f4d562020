"""Chooses the reader of an input, its tables and their keys, according to the command line."""

import dataclasses
import os
import pathlib
import re
import shlex
import typing
from collections.abc import Iterator, Sequence

import word_vectors
from archives import OF_DICT, Npz
from binary_vectors import refuse_binary_vectors
from folders import INDEX, Indexed, open_folder
from json_file import json_hint
from keys import as_kind, keys_of_array, keys_of_file
from npy_file import Npy
from safetensors_file import Safetensors
from state_dict import StateDict
from table import (
    BATCH_KEYS,
    COLUMN_FILES,
    CSV,
    JSON_LINES,
    MOST_DIMENSIONS,
    Array,
    Keys,
    Refused,
    Strings,
    Table,
    Unreadable,
)

from text import CsvFormat, join_list, option, refuse_pointer

if typing.TYPE_CHECKING:
    import columns

WORD_VECTORS = (".txt", ".vec", ".txt.gz", ".vec.gz")
NUMBERS_AS_TEXT = (*CSV, *JSON_LINES, *WORD_VECTORS)
STATE_DICT = (".pt", ".pth", ".bin")
JSON = (".json", ".json.gz")
# Formats that cannot be imported, and how to write their contents in a format that can be imported.
OTHER_FORMATS = {
    (".xlsx", ".xls", ".ods"): "pandas.read_excel(FILE, dtype=str).to_csv('FILE.csv', index=False) converts it to CSV",
    (".pkl", ".pickle"): "in the program that wrote it, write a DataFrame with df.to_parquet('FILE.parquet'),"
    f" an array with numpy.save('FILE.npy', x), and {OF_DICT}",
    (".h5", ".hdf5", ".hdf"): "numpy.save('FILE.npy', h5py.File(FILE)['NAME'][:]) converts it to an array",
}
KEY_SUFFIXES = (".keys", ".keys.bytes", ".keys.offsets")


@dataclasses.dataclass(frozen=True)
class KeyFile:
    """The file with the keys, and the name of the column of keys if the file has columns."""

    path: pathlib.Path
    column: str | None


@dataclasses.dataclass(frozen=True)
class Choice:
    """The choices of the command line about an input."""

    # Chosen tensors with their new names. If empty, all tensors are imported under their own names.
    tensors: dict[str, str] = dataclasses.field(
        default_factory=dict
    )
    rows: tuple[str, ...] = ()
    keys: str | None = None
    keys_from: KeyFile | None = None
    key_kind: str | None = None
    csv: CsvFormat = CsvFormat()
    converts: bool = False  # True if --dtype converts, so the dtypes of columns can differ
    order: str | None = None  # value of --order, which applies to several files


class Tensors(typing.Protocol):
    """The interface of readers for formats that contain tensors."""

    path: pathlib.Path
    names: list[str]

    def table(self, name: str) -> Table: ...

    def array(self, name: str) -> Array: ...


def has_suffix(path: pathlib.Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def stem_of(paths: list[pathlib.Path]) -> str:
    """Returns the name of an input without its suffix."""
    name = paths[0].resolve().name
    name = name.removesuffix(INDEX)
    for suffix in (*NUMBERS_AS_TEXT, *COLUMN_FILES, *STATE_DICT, ".npy", ".npz", ".safetensors"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def parts_of(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of columns in a folder and its subfolders, sorted by name. Returns no files if the
    folder holds a model. Names that start with _ or . are not data, as in Hive and Spark.
    """
    if has_model(folder):
        return []
    return [path for path in data_files(folder) if has_suffix(path, COLUMN_FILES)]


def has_model(folder: pathlib.Path) -> bool:
    return any(has_suffix(path, (".safetensors", *STATE_DICT)) for path in folder.iterdir())


def data_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )


def other_files(folder: pathlib.Path, parts: list[pathlib.Path]) -> tuple[str, ...]:
    """Returns a note about the files of a folder that are not parts of its table."""
    others = [
        str(path.relative_to(folder)) for path in data_files(folder) if path not in set(parts)
    ]
    if not others:
        return ()
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return (
        f"{folder}: {others[0]}{more} {'are' if more else 'is'} left out; expected {', '.join(map('*{}'.format, COLUMN_FILES))}",
    )


def by_number(path: pathlib.Path) -> list[list[tuple[str, int]]]:
    """Returns a sort key that compares names as text, but numbers in names by value: part.2 before part.10."""
    return [
        [
            ("0", int(piece)) if "0" <= piece[0] <= "9" else (piece, 0)
            for piece in re.findall("[0-9]+|[^0-9]", part)
        ]
        for part in path.parts
    ]


def in_order(
    paths: list[pathlib.Path], root: pathlib.Path | None, choice: Choice
) -> tuple[list[pathlib.Path], tuple[str, ...]]:
    """Returns the files of a table in the order of their rows, with notes about the order.

    --order determines the order. By default, the files of the folder `root`, which are passed sorted by
    name, are sorted by the numbers in their names, and other files stay in the given order. Keys from
    another file are refused for a folder in which the two orders differ, because pandas reads a folder
    in the order of names.
    """
    numbered = sorted(paths, key=by_number)
    if choice.order:
        return numbered if choice.order == "number" else sorted(paths), ()
    if numbered == paths or paths != sorted(paths):
        return paths, ()
    first, by_text = next((a, b) for a, b in zip(numbered, paths) if a != b)
    if not root:
        note = (
            f"{paths[0]}: the files are joined in the order given, {by_text} before {first};"
            " --order number joins them by the numbers in their names, and --order text hides this note"
        )
        return paths, () if choice.keys is not None else (note,)
    inner = first.relative_to(root)
    if choice.keys_from:
        raise Refused(
            f"{root}: the order of its files is ambiguous: {by_text.relative_to(root)} is before"
            f" {inner} by text, as pandas reads a folder, and after it by number, as Dask does."
            " Choose the order of the keys with --order text or --order number"
        )
    note = (
        f"{root}: the files are joined by the numbers in their names, {inner} before"
        f" {by_text.relative_to(root)}, as Dask reads a folder; for the order of pandas, by text,"
        " use --order text. --order number hides this note"
    )
    return numbered, () if choice.keys is not None else (note,)


def check_paths(paths: list[pathlib.Path], choice: Choice) -> None:
    """Refuses inputs that do not exist."""
    for path in (*paths, *([choice.keys_from.path] if choice.keys_from else [])):
        if not path.exists():
            raise Refused(f"{path}: the file does not exist")
        check_file(path)


def read_tables(paths: list[pathlib.Path], choice: Choice) -> list[Table]:
    root = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    parts = parts_of(root) if root else paths
    if parts and all(has_suffix(path, COLUMN_FILES) for path in parts):
        return [read_columns(parts, root, choice)]
    if choice.order:
        raise Refused(f"{paths[0]}: --order is for several Parquet or Arrow files, or a folder of them")
    if len(paths) > 1:
        raise Refused(
            f"{paths[1]}: several inputs must be Parquet or Arrow files that form one table;"
            " expected one input of other formats"
            f"{join_hint(paths, [*map(shlex.quote, map(str, paths))], choice)}"
        )
    if root and not parts and not has_model(root):
        refuse_folder_of_lines(root, choice)
    if has_suffix(paths[0], (*CSV, *JSON_LINES)):
        return [read_columns(paths, None, choice)]
    if has_suffix(paths[0], WORD_VECTORS):
        return [own_keys(word_vectors.read(paths[0]), choice)]
    return read_tensors(open_tensors(paths[0]), choice)


def refuse_folder_of_lines(folder: pathlib.Path, choice: Choice) -> None:
    """Refuses a folder of CSV or JSON Lines files. The error has a command that joins the files."""
    paths = data_files(folder)
    for suffix in (*CSV, *JSON_LINES):
        if found := [path for path in paths if has_suffix(path, (suffix,))]:
            files = f"{shlex.quote(str(folder))}/*{suffix}"
            raise Refused(
                f"{folder}: a folder of {suffix} files is not a table; expected one"
                f" file{join_hint(found, [files], choice)}"
            )


def have_header(paths: list[pathlib.Path]) -> bool:
    """True if all files start with the same line, which then has the names of the columns."""
    first = set()
    for path in paths:
        with path.open("rb") as file:
            first.add(file.readline(1 << 20).rstrip(b"\r\n"))
    return len(first) == 1


def join_hint(paths: list[pathlib.Path], words: list[str], choice: Choice) -> str:
    """Returns a hint with a shell command that joins the files. `words` are the files, quoted for a shell."""
    files = " ".join(words)
    if all(has_suffix(path, (".csv", ".tsv")) for path in paths):
        header = choice.csv.header
        if header is False or (header is None and not have_header(paths)):
            return (
                f"; if all have the same columns in the same order, join them with awk 1 {files} >NEW{paths[0].suffix}"
                " and import that file with --no-header. Their first lines differ, so these are rows."
                " If they are names, the columns differ"
            )
        return (
            f"; if all have the same columns in the same order, join them with awk 'FNR > 1 || NR == 1' {files}"
            f" >NEW{paths[0].suffix}, which keeps one line of column names"
        )
    if all(has_suffix(path, (".jsonl", ".ndjson")) for path in paths):
        return f"; join them with awk 1 {files} >NEW.jsonl"
    if all(has_suffix(path, (".csv.gz", ".tsv.gz", ".jsonl.gz", ".ndjson.gz")) for path in paths):
        return "; decompress them with gunzip, and join the files"
    if all(has_suffix(path, (".npy",)) for path in paths):
        return (
            "; join the rows of arrays with numpy.save('NEW.npy', numpy.concatenate([numpy.load(f) for f in FILES]));"
            f" for a file of keys, use {option('--keys-from', str(paths[1]))}"
        )
    return ""


def check_file(path: pathlib.Path) -> None:
    if path.is_dir():
        return
    if not path.is_file():
        raise Refused(
            f"{path}: this is a pipe or a device; expected a file, because inputs are read several times"
        )
    refuse_pointer(path)
    refuse_binary_vectors(path)


# ---------------------------------------------------------------- files of columns
def read_columns(paths: list[pathlib.Path], root: pathlib.Path | None, choice: Choice) -> Table:
    import columns  # Imported here because only columns need pyarrow.

    paths, notes = in_order(paths, root, choice)
    source = open_columns(paths, root, choice)
    if (
        choice.keys_from
        and choice.keys_from.column in source.schema.names
        and choice.keys_from.path.is_file()
    ):
        raise Refused(
            f"{source.place}: it has its own column {choice.keys_from.column}, and the keys of"
            f" {choice.keys_from.path} would name its rows only by position. To use the input's own keys,"
            " omit --keys-from; otherwise rename the column"
        )
    table = columns.read(
        source,
        choice.rows,
        choice.keys,
        choice.key_kind,
        choice.converts,
        choice.keys_from is not None,
    )
    if root:
        notes += other_files(root, paths)
    table = dataclasses.replace(table, notes=(*table.notes, *notes))
    return named(with_keys_from(table, choice), choice, source.schema.names)


def open_columns(
    paths: list[pathlib.Path], root: pathlib.Path | None, choice: Choice
) -> "columns.Columns":
    import arrow_files
    import csv_file
    import json_lines

    if has_suffix(paths[0], JSON_LINES):
        return json_lines.JsonLines(paths[0], choice.keys, choice.key_kind)
    if has_suffix(paths[0], CSV):
        return csv_file.Csv(
            paths[0], choice.rows, choice.keys, choice.key_kind, choice.csv
        )
    return arrow_files.ArrowFiles(paths, root, choice.converts, choice.keys)


def own_keys(table: Table, choice: Choice) -> Table:
    """Returns a table of word vectors, whose keys are the words or come from --keys-from."""
    if choice.rows or choice.keys is not None:
        raise Refused(
            f"{table.place}: it has no columns, so --rows and --keys do not apply; the words are the keys"
        )
    if table.keys:
        table = dataclasses.replace(table, keys=as_kind(table.keys, choice.key_kind))
    return named(with_keys_from(table, choice), choice)


def with_keys_from(table: Table, choice: Choice) -> Table:
    if not choice.keys_from:
        return table
    notes = table.notes
    if table.keys:
        notes += (f"{table.place}: its words are left out; the keys come from {choice.keys_from.path}",)
    return dataclasses.replace(
        table, keys=read_key_file(choice.keys_from, choice, table), notes=notes
    )


def read_key_file(file: KeyFile, choice: Choice, table: Table) -> Keys:
    """Returns the keys of this table, read from a file of keys or from a column of another file."""
    if file.path.is_dir():
        raise Refused(f"{file.path}: this is a folder; expected one file of keys")
    if not has_suffix(file.path, (*CSV, *JSON_LINES, *COLUMN_FILES)):
        if file.column is not None:
            raise Refused(
                f"{file.path}: it has no columns, but --keys names a column of the file in --keys-from."
                " Omit --keys"
            )
        return keys_of_file(file.path, choice.key_kind, table.shape[0] if table.shape else None)
    import columns

    own = dataclasses.replace(choice, rows=(), keys=file.column)
    return columns.only_keys(open_columns([file.path], None, own), file.column, choice.key_kind)


def named(table: Table, choice: Choice, columns: Sequence[str] = ()) -> Table:
    """Returns the only table of an input, renamed as --tensor asks."""
    for name in choice.tensors:
        if name in columns and name != table.name:
            raise Refused(
                f"{table.place}: {name} is a column, but --tensor chooses tensors. To import only this column,"
                f" use {option('--rows', join_list([name]))}"
            )
        if name != table.name:
            raise Refused(
                f"{table.place}: there is no tensor {name}; the tensor is {table.name}. To rename it, use"
                f" {option('--tensor', f'{table.name}={name}')}"
            )
    return dataclasses.replace(table, name=choice.tensors.get(table.name, table.name))


# ---------------------------------------------------------------- tensors
def open_tensors(path: pathlib.Path) -> Tensors:
    if path.is_dir():
        return open_folder(path)
    if has_suffix(path, (INDEX,)):
        return Indexed(path)
    if has_suffix(path, (".safetensors",)):
        return Safetensors(path)
    if has_suffix(path, (".npy",)):
        return Npy(path)
    if has_suffix(path, (".npz",)):
        return Npz(path)
    if has_suffix(path, STATE_DICT):
        return StateDict(path)
    hints = {JSON: json_hint(path)} if has_suffix(path, JSON) else OTHER_FORMATS
    for suffixes, hint in hints.items():
        if has_suffix(path, suffixes):
            raise Refused(f"{path}: files of this format cannot be imported; {hint}")
    raise Refused(
        f"{path}: the format of the file is unknown; expected a name that ends with .parquet, .feather,"
        " .arrow, .csv, .tsv, .jsonl, .txt, .vec, .npy, .npz, .pt, .pth, .bin or .safetensors, or a folder."
        " Text can be compressed by gzip, as .csv.gz; unpack other archives first"
    )


def read_tensors(reader: Tensors, choice: Choice) -> list[Table]:
    if choice.rows:
        raise Refused(
            f"{reader.path}: --rows chooses columns, but the input has tensors; use --tensor"
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
        raise Refused(f"{reader.path}: the file has no tensors")
    for name in (*chosen, *([choice.keys] if choice.keys is not None else [])):
        if name not in reader.names:
            raise Refused(
                f"{reader.path}: there is no tensor {name or repr(name)}; the tensors are"
                f" {', '.join(sorted(reader.names)) or 'none'}{tensor_hint(name, reader, choice)}"
            )
    if (choice.keys is not None or choice.keys_from) and len(chosen) != 1:
        raise Refused(
            f"{reader.path}: the keys are for one tensor, but {len(chosen)} are imported; choose one with --tensor"
        )
    tables, left_out = [], []
    for name, new in chosen.items():
        try:
            table = readable(reader.table(name))
        except Unreadable as e:
            if choice.tensors:
                raise
            left_out.append(f"{e}{strings_hint(reader, name, choice)}")
        else:
            keys = keys_of_tensor(reader, table, choice)
            tables.append(dataclasses.replace(table, name=new, keys=keys))
    if not tables:
        raise Refused(left_out[0])
    notes = (*map(note_of, left_out), *keys_beside(reader.path, choice))
    tables[0] = dataclasses.replace(tables[0], notes=notes)
    return tables


def keys_beside(path: pathlib.Path, choice: Choice) -> list[str]:
    """Returns a note about X.keys.npy, from which the daemon would take the keys of X.npy."""
    beside = path.with_suffix(".keys.npy")
    if choice.keys_from or path.suffix != ".npy" or not beside.is_file():
        return []
    taken = option("--keys-from", str(beside))
    return [f"{path}: the keys in {beside.name} are not imported; to import them, use {taken}"]


def tensor_hint(name: str, reader: Tensors, choice: Choice) -> str:
    """Returns a hint about what was probably meant by `name`, which is not a tensor."""
    if choice.tensors.get(name) in reader.names:
        renamed = option("--tensor", f"{choice.tensors[name]}={name}")
        return f". The name in the input comes first: {renamed}"
    if name == choice.keys and os.path.isfile(name):  # also False for a name that is too long
        return f". To read the keys from that file, use {option('--keys-from', name)}"
    return ""


def readable(table: Table) -> Table:
    if len(table.shape) > MOST_DIMENSIONS:
        raise Unreadable(
            f"{table.place}: it has {len(table.shape)} dimensions; expected at most"
            f" {MOST_DIMENSIONS}"
        )
    return table


def strings_hint(reader: Tensors, name: str, choice: Choice) -> str:
    """Returns a hint about strings that are left out but could be the keys of the rows."""
    if choice.keys is not None or choice.keys_from or not isinstance(reader, Npz):
        return ""
    return f"; to use it as keys, pass {option('--keys', name)}" if reader.is_text(name) else ""


def note_of(reason: str) -> str:
    return f"{reason}. It is left out"


def keys_of_tensor(reader: Tensors, table: Table, choice: Choice) -> Keys | None:
    """Returns the keys of a tensor: from the command line, or from the tensors NAME.keys and NAME.keys.*."""
    name = table.name
    if choice.keys_from:
        return read_key_file(choice.keys_from, choice, table)
    beside = name + ".keys" if choice.keys is None else choice.keys
    place = f"{reader.path}, tensor {beside}"
    if beside in reader.names:
        return as_kind(keys_of_array(reader.array(beside), place), choice.key_kind)
    texts = {name + ".keys.bytes", name + ".keys.offsets"} & set(reader.names)
    if len(texts) == 1:
        raise Refused(f"{place}: there is only {texts.pop()}; string keys need both .bytes and .offsets")
    if texts:
        data, offsets = (reader.array(name + part) for part in (".keys.bytes", ".keys.offsets"))
        return as_kind(joined_strings(data, offsets, place), choice.key_kind)
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
            f"{place}: .bytes and .offsets are not valid strings; the offsets must increase from 0 to"
            " the number of bytes"
        )

    def batches() -> Iterator[Strings]:
        for i in range(0, len(offsets) - 1, BATCH_KEYS):
            part = offsets[i : i + BATCH_KEYS + 1]
            yield Strings(part - part[0], data[part[0] : part[-1]].tobytes())

    return Keys("string", batches, place)
