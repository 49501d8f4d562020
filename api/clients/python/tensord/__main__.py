"""Command line of the client: python -m tensord --help"""
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

from . import Client, KeyNotFound, Matches, ProblemError, TensordError, key_files
from .arrays import Keys, Plain, Ref
from .exchange import DEFAULT_URL
from .ops import Ops


def argument(text: str) -> Any:
    """Converts an argument: @file.npy is an array, JSON is its value, and any other text is the name of a resident tensor."""
    if text.startswith("@"):
        return array_of(text[1:])
    try:
        value = json.loads(text)
    except ValueError as error:
        if text.startswith(("[", "{", '"')):
            raise ValueError(f"{text!r} is not valid JSON: {error}. Names inside JSON need double quotes") from None
        return text
    return [as_json(one) for one in value] if isinstance(value, list) else as_json(value)


def array_of(file: str, **options: Any) -> Any:
    """Loads the array of a .npy file."""
    with open(file, "rb") as opened:
        if opened.read(6) != b"\x93NUMPY":
            raise ValueError(f"{file} is not a .npy file; use tensord-import for other formats, such as Parquet, CSV, text and NPZ")
    try:
        array = np.load(file, allow_pickle=False, **options)
    except Exception as error:  # NumPy parses the header as Python, so any exception can occur.
        if isinstance(error, OSError) and error.errno:
            raise
        raise ValueError(f"{file} is damaged or contains Python objects. Convert them before numpy.save: rows with numpy.stack(array), strings with"
                         " array.astype(str), numbers with array.astype('float32') or array.astype('int64')") from None
    if array.dtype.kind == "V" and array.dtype.names is None:
        raise ValueError(f"{file} has records of {array.dtype.itemsize} bytes without a dtype; numpy.save writes bfloat16 like this. For bfloat16, use"
                         " client.tables[NAME].put(numpy.load(FILE).view(ml_dtypes.bfloat16)) in Python, or convert the file to float32: numpy.save('NEW.npy',"
                         " numpy.load(FILE).view(ml_dtypes.bfloat16).astype('float32'))")
    return array


def integer(text: str, what: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)", text):  # leading zeros are refused: 08 is not the key 8
        zeros = " without leading zeros" if re.fullmatch(r"-?0[0-9]+", text) else ""
        raise ValueError(f"{text!r} is not an integer{zeros}, as {what} are")
    return int(text)


def as_json(value: Any) -> Any:
    """Converts a JSON value to an argument. An object is a tensor in the API's notation, such as {"keys": ["king"]}."""
    if isinstance(value, dict) and list(value) == ["ref"] and isinstance(value["ref"], str):
        return Ref(value["ref"])
    return Plain(value) if isinstance(value, dict) else value


def show(value: Any) -> None:
    """Prints a str as it is, and any other value as JSON."""
    if isinstance(value, str):
        print(value)
        return
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    print(json.dumps(value, default=plain, ensure_ascii=False))


def printable(text: str) -> str:
    """Replaces non-printable characters, so that a reply cannot send control sequences to the terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)


def numbers_of_json(value: Any) -> Any:
    """Replaces NaN and infinities with their names in the API."""
    if isinstance(value, list):
        return [numbers_of_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def plain(value: Any) -> Any:
    """Converts a value for JSON: complex numbers as in the API, bytes as text, floats with the digits that their dtype needs."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bytes):
        return text_of(value)
    return numbers_of_json((value.astype(str).astype(float) if value.dtype.name in ("float16", "float32") else value).tolist())


def text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the result has a string that is not UTF-8 and cannot be printed as JSON: {value[:40]!r}{'…' * (len(value) > 40)}. In Python, the"
                         " same call returns bytes, for example client.tables['NAME'].get()") from None


def run_op(client: Client, args: argparse.Namespace) -> Any:
    given = dict(pair.split("=", 1) for pair in args.arguments if "=" in pair)
    if len(given) != len(args.arguments):
        wrong = next((repr(pair) for pair in args.arguments if "=" not in pair), "a name appears twice")
        raise ValueError(f"{wrong}: expected NAME=VALUE, each name once, such as params=planets")
    target = client.store(args.store) if args.store else client
    method = getattr(target, args.command)
    check_arguments(args.command, inspect.signature(method), given)
    return method(**{name: argument(value) for name, value in given.items()})


def check_arguments(op: str, signature: inspect.Signature, given: dict[str, str]) -> None:
    named = {name: one for name, one in signature.parameters.items() if one.kind is not one.VAR_POSITIONAL}
    missing = [name for name, one in named.items() if one.default is one.empty and name not in given]
    if unknown := [name for name in given if name not in named]:
        raise ValueError(f"{op} has no argument {unknown[0]}; expected {', '.join(named)}" + f"; {' and '.join(missing)} {'are' if missing[1:] else 'is'} missing" * bool(missing))
    if missing:
        raise ValueError(f"{op} lacks {' and '.join(f'{name}=VALUE' for name in missing)}; its arguments are {', '.join(named)}")


# Advice in errors of the package, and its form for the command line.
IN_COMMANDS = ((re.compile(r"tensord\.Keys\((\w+)\)"), r"""'{"keys": \1}'"""),
               (re.compile("pass a list of tensors"), r"""pass a list as JSON, such as '["TABLE", [1, 2]]'"""),
               (re.compile(r", or beside float\d+ inputs numpy\.array\(x, '\w+'\), which rounds it"), ""),
               (re.compile(r"numpy\.(?:as)?array\(x, '(\w+)'\)"), r"""'{"dtype": "\1", "data": x}'"""))
KEYS_HINT = "; a word is the name of a resident tensor. To find rows of a table by key, pass indices='{\"keys\": [\"KEY\"]}'"


def message_of(error: Exception) -> str:
    """Returns the message of an error, with advice for the command line, where arguments are JSON as in the API."""
    if isinstance(error, ProblemError):
        detail = error.detail.replace("GET /v1/tensors lists", "python -m tensord tables lists")
        return re.sub(r"with the tensor (\w+)\.keys$", r"""with \1='{"keys": [KEY]}'""", detail) + KEYS_HINT * error.is_of_rows
    text = str(error)
    for form, replacement in IN_COMMANDS:
        text = form.sub(replacement, text)
    return text


def run_tables(client: Client, args: argparse.Namespace) -> Any:
    return client.tables.list()


def run_put(client: Client, args: argparse.Namespace) -> Any:
    if args.key_dtype and not args.keys:
        raise ValueError("--key-dtype is given without --keys; pass the file of keys with --keys")
    value = array_of(args.file, mmap_mode="r")
    keys, notes = key_files.read(args.keys, args.key_dtype, len(value) if value.ndim else None) if args.keys else (None, ())
    for note in notes:
        print(printable(f"note: {note}"), file=sys.stderr)
    return client.tables[args.table].put(value, keys=keys, persist=args.persist, progress=sys.stderr.isatty())


def run_get(client: Client, args: argparse.Namespace) -> Any:
    if args.output is None:
        return client.tables[args.table].get()
    if Path(args.output).suffix.lower() not in ("", ".npy"):
        raise ValueError(f"{args.output}: get writes only .npy files; pass the name of a .npy file, or omit the name to print JSON:"
                         f" python -m tensord get {shlex.quote(args.table)} >FILE.json")
    target = Path(args.output).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"{args.output} is not a regular file; pass the name of a .npy file, or omit the name to print JSON")
    array = client.tables[args.table].get()
    if array.dtype == object:
        raise ValueError(f"{args.table} has strings, which a .npy file can hold only as pickled objects; omit the name of the file to print"
                         f" JSON: python -m tensord get {shlex.quote(args.table)} >FILE.json")
    save(target, array)
    return {"file": args.output, "dtype": array.dtype.name, "shape": list(array.shape)}


def save(target: Path, array: Any) -> None:
    """Writes a temporary .npy file and renames it to the target, so that an error leaves an existing file unchanged."""
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
    return table.by_key(keys_of(args, table.info().get("keys")))


def keys_of(args: argparse.Namespace, dtype: Any) -> list[Any]:
    """Converts the keys on the command line to keys of the table, which have this dtype."""
    return [integer(key, f"the keys of {args.table}") for key in args.keys] if dtype in ("int64", "uint64") else args.keys


def run_search(client: Client, args: argparse.Namespace) -> Any:
    """Runs search TABLE KEY ..., or search NAME=VALUE ... like the other ops."""
    if "=" in args.table:  # names of tables have no =
        given = {"k": args.k, "metric": args.metric}
        args.arguments = [args.table, *args.keys, *(f"{name}={value}" for name, value in given.items() if value is not None)]
        return run_op(client, args)
    if args.store:
        raise ValueError("search TABLE KEY ... prints its results; --store is for search NAME=VALUE ...")
    try:
        found = client.search(client.tables[args.table], rows=queries_of(client, args), k=10 if args.k is None else args.k, metric=args.metric)
    except KeyNotFound as error:  # the daemon calls the keys `rows`, after the input of the op
        detail = re.sub(r"^rows\S* = (.*) is not one of the keys", lambda said: f"{said[1]} is not one of the keys of {args.table}", error.detail)
        raise KeyNotFound({**error.problem, "detail": detail}, error.status) from None
    return found if args.json else table_of(found, single=len(args.keys) == 1)


def queries_of(client: Client, args: argparse.Namespace) -> Any:
    """Returns the rows to search with: keys, or row numbers with --rows or if the table has no keys."""
    dtype = None if args.rows else client.tables[args.table].info().get("keys")
    if dtype:
        return Keys(keys_of(args, dtype))
    try:
        return [integer(key, "row numbers") for key in args.keys]
    except ValueError as error:
        hint = "" if args.rows else f". {args.table} has no keys; pass row numbers, or store the table with put --keys FILE"
        raise ValueError(f"{error}{hint}") from None


def table_of(found: Matches, single: bool) -> str:
    """Returns the rows that a search has found as text, without the column `query` if there is a single query."""
    scores, indices, keys = found
    if keys is not None and keys.dtype == object:
        texts = [printable(key.decode(errors="backslashreplace") if isinstance(key, bytes) else key) for key in keys.flat]
        keys = np.array(texts, dtype=object).reshape(keys.shape)
    return str(Matches(scores[0], indices[0], None if keys is None else keys[0]) if single else Matches(scores, indices, keys))


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tensord", description="Command-line client of a tensord daemon.")
    top.add_argument("--url", default=os.environ.get("TENSORD_URL", DEFAULT_URL))
    top.add_argument("--token", default=os.environ.get("TENSORD_TOKEN"))
    top.add_argument("--timeout", type=float, default=30.0, help="maximum time of a call, in seconds (default: 30)")
    top.add_argument("--ca-file", help="PEM file of the authorities trusted to sign the daemon's certificate")
    top.add_argument("--certificate", help="PEM file of the client's certificate, and of its key unless --key is given")
    top.add_argument("--key", help="PEM file of the client's key")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("tables", help="lists the tables").set_defaults(run=run_tables)
    put = commands.add_parser("put", help="stores a .npy file as a table")
    put.add_argument("table")
    put.add_argument("file")
    put.add_argument("--keys", help="file with the key of each row: text with one key per line, an object {key: row} or tokenizer.json (.json), or an array (.npy)")
    put.add_argument("--key-dtype", choices=key_files.KINDS,
                     help="dtype of the keys. Default for text: int64 if all keys are integers without leading zeros (uint64 if a key is above 2^63 - 1),"
                          " otherwise string")
    put.add_argument("--persist", action="store_true")
    put.set_defaults(run=run_put)
    get = commands.add_parser("get", help="prints a table, or writes it to a .npy file")
    get.add_argument("table")
    get.add_argument("output", nargs="?")
    get.set_defaults(run=run_get)
    for name, run, text in (("statistics", run_statistics, "prints statistics of the values of a table"),
                            ("delete", run_delete, "deletes a table")):
        command = commands.add_parser(name, help=text)
        command.add_argument("table")
        command.set_defaults(run=run)
    lookup = commands.add_parser("lookup", help="prints rows by key")
    lookup.add_argument("table")
    lookup.add_argument("keys", nargs="+")
    lookup.add_argument("--rows", action="store_true", help="the arguments are row numbers, not keys")
    lookup.set_defaults(run=run_lookup)
    search = commands.add_parser("search", help="prints the nearest rows of a table for rows of the same table",
                                 usage="%(prog)s [-k K] [--metric METRIC] [--rows] [--json] TABLE KEY ...\n"
                                       "       %(prog)s [--store TABLE] NAME=VALUE ...")
    search.add_argument("table", metavar="TABLE", help="the table; with NAME=VALUE, the first of the arguments of the op search, as for other ops")
    search.add_argument("keys", nargs="+", metavar="KEY", help="keys of rows whose nearest rows to find, or row numbers if the table has no keys")
    search.add_argument("-k", type=int, help="number of rows to print for each key (default: 10)")
    search.add_argument("--metric", help="dot (default), cosine, or l2, where smaller is better")
    search.add_argument("--rows", action="store_true", help="the arguments are row numbers, not keys")
    search.add_argument("--json", action="store_true", help="print scores, row numbers and keys as JSON, with a list for each key")
    search.add_argument("--store", metavar="TABLE", help="with NAME=VALUE, store the results as tables instead of printing them")
    search.set_defaults(run=run_search)
    for name in ops():
        op = commands.add_parser(name, help=(getattr(Client, name).__doc__ or "").splitlines()[0])
        op.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="an argument of the op; VALUE is JSON, the name of a table, or @file.npy")
        op.add_argument("--store", metavar="TABLE", help="store the result as this table instead of printing it")
        op.set_defaults(run=run_op)
    return top


def ops() -> list[str]:
    """Returns the names of the daemon's ops without lookup and search, which are commands of their own."""
    return [name for name in vars(Ops) if not name.startswith("_") and name not in ("run_op", "lookup", "search")]


def main() -> None:
    top = parser()
    args = top.parse_args()
    if args.key and not args.certificate:
        top.error("--key is given without --certificate")
    certificate = (args.certificate, args.key) if args.key else args.certificate
    try:
        with Client(args.url, token=args.token, timeout=args.timeout, ca_file=args.ca_file, certificate=certificate) as client:
            show(args.run(client, args))
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe. Python flushes stdout again when it exits, so stdout must be writable.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (TensordError, OSError, ValueError, TypeError) as error:
        sys.exit(printable(f"{type(error).__name__}: {message_of(error)}"))


if __name__ == "__main__":
    main()
