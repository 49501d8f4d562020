"""The command line: python -m tensord --help"""
from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import Client, TensordError
from .ops import Ops


def argument(text: str) -> Any:
    """@file.npy is an array, JSON is its value, anything else the name of a resident tensor"""
    if text.startswith("@"):
        return np.load(text[1:], allow_pickle=False)
    try:
        return json.loads(text)
    except ValueError:
        return text


def show(value: Any) -> None:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    print(json.dumps(value, default=lambda array: array.tolist(), ensure_ascii=False))


def bar(sent: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if sent == total else ""
        print(f"\r{'#' * (40 * sent // total):40} {100 * sent // total:3} %", end=end, file=sys.stderr, flush=True)


def run_op(client: Client, args: argparse.Namespace) -> Any:
    given = dict(pair.split("=", 1) for pair in args.arguments if "=" in pair)
    if len(given) != len(args.arguments):
        raise ValueError("expected NAME=VALUE")
    return getattr(client, args.command)(**{name: argument(value) for name, value in given.items()})


def run_tables(client: Client, args: argparse.Namespace) -> Any:
    return client.tables.list()


def run_put(client: Client, args: argparse.Namespace) -> Any:
    keys = Path(args.keys).read_text(encoding="utf-8").splitlines() if args.keys else None
    value = np.load(args.file, mmap_mode="r", allow_pickle=False)
    return client.tables[args.table].put(value, keys=keys, persist=args.persist, progress=bar)


def run_get(client: Client, args: argparse.Namespace) -> Any:
    array = client.tables[args.table].get()
    if args.output:
        np.save(args.output, array, allow_pickle=False)
        return {"file": args.output, "dtype": array.dtype.name, "shape": list(array.shape)}
    return array.tolist()


def run_lookup(client: Client, args: argparse.Namespace) -> Any:
    table = client.tables[args.table]
    return table.rows([int(key) for key in args.keys]) if args.rows else table.by_key(args.keys)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tensord", description="Asks a tensord daemon.")
    top.add_argument("--url", default=os.environ.get("TENSORD_URL", "http://127.0.0.1:8080"))
    top.add_argument("--token", default=os.environ.get("TENSORD_TOKEN"))
    top.add_argument("--timeout", type=float, default=30.0, help="seconds for a call")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("tables", help="lists the tables").set_defaults(run=run_tables)
    put = commands.add_parser("put", help="stores a .npy file as a table")
    put.add_argument("table")
    put.add_argument("file")
    put.add_argument("--keys", help="a text file with the key of each row on a line")
    put.add_argument("--persist", action="store_true")
    put.set_defaults(run=run_put)
    get = commands.add_parser("get", help="prints a table, or writes it to a .npy file")
    get.add_argument("table")
    get.add_argument("output", nargs="?")
    get.set_defaults(run=run_get)
    lookup = commands.add_parser("lookup", help="prints rows by key")
    lookup.add_argument("table")
    lookup.add_argument("keys", nargs="+")
    lookup.add_argument("--rows", action="store_true", help="they are row numbers")
    lookup.set_defaults(run=run_lookup)
    for name in ops():
        op = commands.add_parser(name, help=(getattr(Client, name).__doc__ or "").splitlines()[0])
        op.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="JSON, a table, or @file.npy")
        op.set_defaults(run=run_op)
    return top


def ops() -> list[str]:
    """those of the daemon; the command lookup is that of a table"""
    return [name for name in vars(Ops) if not name.startswith("_") and name not in ("send", "lookup")]


def main() -> None:
    args = parser().parse_args()
    try:
        with Client(args.url, token=args.token, timeout=args.timeout) as client:
            show(args.run(client, args))
    except (TensordError, OSError, ValueError, TypeError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
