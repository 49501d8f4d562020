"""Reads folders in the layout of Hugging Face: one file of tensors, or an index and the files that it names."""

import pathlib

from json_file import parse
from safetensors_file import Safetensors
from state_dict import StateDict
from table import Array, Refused, Table, file_in
from text import refuse_pointer

INDEX = ".index.json"
KINDS: dict[str, type[Safetensors] | type[StateDict]] = {
    ".safetensors": Safetensors,
    ".bin": StateDict,
}
WEIGHTS = {".safetensors": "model", ".bin": "pytorch_model"}  # names of a model's file, without the suffix


class Indexed:
    """The tensors of several files that an index, such as model.safetensors.index.json, names."""

    def __init__(self, index: pathlib.Path) -> None:
        self.path = index
        document = parse(index.read_bytes(), str(index))
        files = document.get("weight_map") if isinstance(document, dict) else None
        if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
            raise Refused(
                f"{index}: it has no weight_map; expected an object with the file of each"
                " tensor"
            )
        readers = {file: self.reader(file) for file in sorted(set(files.values()))}
        for name, file in files.items():
            if name not in readers[file].names:
                raise Refused(f"{index}: {file} has no tensor {name}")
        self.readers = {name: readers[file] for name, file in files.items()}
        self.names = list(files)

    def reader(self, file: str) -> Safetensors | StateDict:
        path = file_in(self.path.parent, file, str(self.path))
        refuse_pointer(path)
        for suffix, kind in KINDS.items():
            if file.endswith(suffix):
                return kind(path)
        raise Refused(f"{self.path}: {file!r} is not one of {', '.join(f'*{s}' for s in KINDS)}")

    def table(self, name: str) -> Table:
        return self.readers[name].table(name)

    def array(self, name: str) -> Array:
        return self.readers[name].array(name)


def choose(folder: pathlib.Path, name: str, suffix: str) -> pathlib.Path | None:
    """Returns the file `name` + `suffix` of a folder, or else the only file with the suffix; None if no file has it."""
    paths = sorted(folder.glob("*" + suffix))
    if folder / (name + suffix) in paths:
        return folder / (name + suffix)
    if len(paths) > 1:
        raise Refused(
            f"{folder}: it has {', '.join(path.name for path in paths)}; expected one of these files as the"
            " input, or an index of all"
        )
    return paths[0] if paths else None


def open_folder(folder: pathlib.Path) -> Indexed | Safetensors | StateDict:
    """Opens the tensors of a folder, from .safetensors files if the folder has any, otherwise from .bin files."""
    for suffix, kind in KINDS.items():
        if index := choose(folder, WEIGHTS[suffix], suffix + INDEX):
            return Indexed(index)
        if path := choose(folder, WEIGHTS[suffix], suffix):
            refuse_pointer(path)
            return kind(path)
    raise Refused(
        f"{folder}: it has no file of tensors; expected .safetensors, .bin, or the parts of a"
        " Parquet table"
    )
