"""The command line: python -m tensord --help"""
from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import Client, ProblemError, TensordError, key_files
from .arrays import Plain, Ref
from .exchange import DEFAULT_URL
from .ops import Ops


def argument(text: str) -> Any:
    """@file.npy is an array, JSON is its value, anything else the name of a resident tensor"""
    if text.startswith("@"):
        return array_of(text[1:])
    try:
        value = json.loads(text)
    except ValueError as error:
        if text.startswith(("[", "{", '"')):
            raise ValueError(f"{text!r} is not JSON, in which names are in quotes: {error}") from None
        return text
    return [as_json(one) for one in value] if isinstance(value, list) else as_json(value)


def array_of(file: str, **options: Any) -> Any:
    """the array of a .npy file"""
    with open(file, "rb") as opened:
        if opened.read(6) != b"\x93NUMPY":
            raise ValueError(f"{file} is not a .npy file; tensord-import makes tables of other formats, such as Parquet, CSV, text and NPZ")
    try:
        array = np.load(file, allow_pickle=False, **options)
    except Exception as error:  # of NumPy's parser of the header, which is Python
        if isinstance(error, OSError) and error.errno:
            raise
        raise ValueError(f"{file} is damaged, or has objects of Python; numpy.stack(array) makes a matrix of rows, array.astype(str) strings, and"
                         " array.astype('float32') or array.astype('int64') numbers, which numpy.save writes") from None
    if array.dtype.kind == "V" and array.dtype.names is None:
        raise ValueError(f"{file} has records of {array.dtype.itemsize} bytes without a dtype, as numpy.save writes bfloat16; in Python"
                         " client.tables[NAME].put(numpy.load(FILE).view(ml_dtypes.bfloat16)) puts these, and this command what float32 has: numpy.save('NEW.npy',"
                         " numpy.load(FILE).view(ml_dtypes.bfloat16).astype('float32'))")
    return array


def integer(text: str, what: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)", text):  # 08 is not the key 8
        zeros = ", without zeros before it" if re.fullmatch(r"-?0[0-9]+", text) else ""
        raise ValueError(f"{text!r} is not an integer{zeros}, as {what} are")
    return int(text)


def as_json(value: Any) -> Any:
    """an object stands for a tensor as in the API, such as {"keys": ["king"]}"""
    if isinstance(value, dict) and list(value) == ["ref"] and isinstance(value["ref"], str):
        return Ref(value["ref"])
    return Plain(value) if isinstance(value, dict) else value


def show(value: Any) -> None:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    print(json.dumps(value, default=plain, ensure_ascii=False))


def printable(text: str) -> str:
    """without the control sequences that a reply may have for the terminal"""
    return "".join(one if one.isprintable() else "?" for one in text)


def numbers_of_json(value: Any) -> Any:
    """NaN and infinities as the API writes them"""
    if isinstance(value, list):
        return [numbers_of_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def plain(value: Any) -> Any:
    """complex numbers as in the API, bytes as text, floats with the digits that their dtype needs"""
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bytes):
        return text_of(value)
    return numbers_of_json((value.astype(str).astype(float) if value.dtype.name in ("float16", "float32") else value).tolist())


def text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"a string of the result is not UTF-8, as the text of JSON is: {value[:40]!r}{'…' * (len(value) > 40)}; in Python the"
                         " same call gives bytes, such as client.tables['NAME'].get()") from None


def run_op(client: Client, args: argparse.Namespace) -> Any:
    given = dict(pair.split("=", 1) for pair in args.arguments if "=" in pair)
    if len(given) != len(args.arguments):
        wrong = next((repr(pair) for pair in args.arguments if "=" not in pair), "a name is given twice")
        raise ValueError(f"{wrong}: expected NAME=VALUE, each name once, such as params=planets")
    target = client.store(args.store) if args.store else client
    method = getattr(target, args.command)
    check_arguments(args.command, inspect.signature(method), given)
    return method(**{name: argument(value) for name, value in given.items()})


def check_arguments(op: str, signature: inspect.Signature, given: dict[str, str]) -> None:
    named = {name: one for name, one in signature.parameters.items() if one.kind is not one.VAR_POSITIONAL}
    missing = [name for name, one in named.items() if one.default is one.empty and name not in given]
    if unknown := [name for name in given if name not in named]:
        raise ValueError(f"{op} has no {unknown[0]}; it has {', '.join(named)}" + f"; {' and '.join(missing)} {'are' if missing[1:] else 'is'} missing" * bool(missing))
    if missing:
        raise ValueError(f"{op} lacks {' and '.join(f'{name}=VALUE' for name in missing)}; it has {', '.join(named)}")


# Advice of the package, as a command has it.
IN_COMMANDS = ((re.compile(r"tensord\.Keys\((\w+)\)"), r"""'{"keys": \1}'"""),
               (re.compile("pass a list of tensors"), r"""pass a list as JSON, such as '["TABLE", [1, 2]]'"""),
               (re.compile(r", or beside inputs that are float\d+ numpy\.array\(x, '\w+'\), which rounds it"), ""),
               (re.compile(r"numpy\.(?:as)?array\(x, '(\w+)'\)"), r"""'{"dtype": "\1", "data": x}'"""))
KEYS_HINT = "; a word is the name of a resident tensor: rows of a table are found by key with indices='{\"keys\": [\"KEY\"]}'"


def message_of(error: Exception) -> str:
    """the error of a call for a command, whose arguments are JSON as the API has it"""
    if isinstance(error, ProblemError):
        return re.sub(r"with the tensor (\w+)\.keys$", r"""with \1='{"keys": [KEY]}'""", error.detail) + KEYS_HINT * error.is_of_rows
    text = str(error)
    for form, replacement in IN_COMMANDS:
        text = form.sub(replacement, text)
    return text


def run_tables(client: Client, args: argparse.Namespace) -> Any:
    return client.tables.list()


def run_put(client: Client, args: argparse.Namespace) -> Any:
    if args.key_dtype and not args.keys:
        raise ValueError("--key-dtype is the dtype of the keys, and --keys names no file of them")
    value = array_of(args.file, mmap_mode="r")
    keys, notes = key_files.read(args.keys, args.key_dtype, len(value) if value.ndim else None) if args.keys else (None, ())
    for note in notes:
        print(printable(f"note: {note}"), file=sys.stderr)
    return client.tables[args.table].put(value, keys=keys, persist=args.persist, progress=sys.stderr.isatty())


def run_get(client: Client, args: argparse.Namespace) -> Any:
    if args.output is None:
        return client.tables[args.table].get()
    if Path(args.output).suffix.lower() not in ("", ".npy"):
        raise ValueError(f"{args.output}: get writes only the .npy format; pass the name of a .npy file, or none to print the table as JSON:"
                         f" python -m tensord get {shlex.quote(args.table)} >FILE.json")
    target = Path(args.output).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"{args.output} is not a regular file; pass the name of a .npy file, or none to print the table as JSON")
    array = client.tables[args.table].get()
    if array.dtype == object:
        raise ValueError(f"{args.table} has strings, which a .npy file would have as pickled objects; without the name of a file they are"
                         f" printed as JSON: python -m tensord get {shlex.quote(args.table)} >FILE.json")
    save(target, array)
    return {"file": args.output, "dtype": array.dtype.name, "shape": list(array.shape)}


def save(target: Path, array: Any) -> None:
    """writes the .npy file beside its place, so that an error leaves the file that was there"""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "xb") as opened:
            np.save(opened, array, allow_pickle=False)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def run_statistics(client: Client, args: argparse.Namespace) -> Any:
    return client.tables[args.table].statistics()


def run_delete(client: Client, args: argparse.Namespace) -> Any:
    client.tables[args.table].delete()
    return {"deleted": args.table}


def run_lookup(client: Client, args: argparse.Namespace) -> Any:
    if named := re.match(r"(?:params|table)=(.*)", args.table):
        raise ValueError(f"lookup takes TABLE KEY ..., not NAME=VALUE: python -m tensord lookup {named[1]} KEY")
    table = client.tables[args.table]
    if args.rows:
        return table.iloc[[integer(key, "row numbers") for key in args.keys]]
    numbers = table.info().get("keys") in ("int64", "uint64")
    return table.by_key([integer(key, f"the keys of {args.table}") for key in args.keys] if numbers else args.keys)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tensord", description="Asks a tensord daemon.")
    top.add_argument("--url", default=os.environ.get("TENSORD_URL", DEFAULT_URL))
    top.add_argument("--token", default=os.environ.get("TENSORD_TOKEN"))
    top.add_argument("--timeout", type=float, default=30.0, help="seconds for a call")
    top.add_argument("--ca-file", help="PEM file of the authorities that may sign the daemon's certificate")
    top.add_argument("--certificate", help="PEM file of the client's certificate, and of its key unless --key is another")
    top.add_argument("--key", help="PEM file of the client's key")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("tables", help="lists the tables").set_defaults(run=run_tables)
    put = commands.add_parser("put", help="stores a .npy file as a table")
    put.add_argument("table")
    put.add_argument("file")
    put.add_argument("--keys", help="a file with the key of each row: one a line, or an object {key: row} or a tokenizer.json (.json), or an array (.npy)")
    put.add_argument("--key-dtype", choices=key_files.KINDS,
                     help="dtype of the keys; default: in text int64, or uint64 if one is above 2^63 - 1, if all keys are integers without leading zeros,"
                          " otherwise string")
    put.add_argument("--persist", action="store_true")
    put.set_defaults(run=run_put)
    get = commands.add_parser("get", help="prints a table, or writes it to a .npy file")
    get.add_argument("table")
    get.add_argument("output", nargs="?")
    get.set_defaults(run=run_get)
    for name, run, text in (("statistics", run_statistics, "prints what the values of a table are like"),
                            ("delete", run_delete, "deletes a table")):
        command = commands.add_parser(name, help=text)
        command.add_argument("table")
        command.set_defaults(run=run)
    lookup = commands.add_parser("lookup", help="prints rows by key")
    lookup.add_argument("table")
    lookup.add_argument("keys", nargs="+")
    lookup.add_argument("--rows", action="store_true", help="they are row numbers")
    lookup.set_defaults(run=run_lookup)
    for name in ops():
        op = commands.add_parser(name, help=(getattr(Client, name).__doc__ or "").splitlines()[0])
        op.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="JSON, a table, or @file.npy")
        op.add_argument("--store", metavar="TABLE", help="where the result is stored; else it is printed")
        op.set_defaults(run=run_op)
    return top


def ops() -> list[str]:
    """those of the daemon; the command lookup is that of a table"""
    return [name for name in vars(Ops) if not name.startswith("_") and name not in ("run_op", "lookup")]


def main() -> None:
    top = parser()
    args = top.parse_args()
    if args.key and not args.certificate:
        top.error("--key is given, but --certificate is missing")
    certificate = (args.certificate, args.key) if args.key else args.certificate
    try:
        with Client(args.url, token=args.token, timeout=args.timeout, ca_file=args.ca_file, certificate=certificate) as client:
            show(args.run(client, args))
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has what it wants. Python flushes once more at its end, which must find somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (TensordError, OSError, ValueError, TypeError) as error:
        sys.exit(printable(f"{type(error).__name__}: {message_of(error)}"))


if __name__ == "__main__":
    main()
