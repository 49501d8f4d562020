#!/usr/bin/env python3
"""Generates the modules of the package that are derived from other sources.

    generate.py URL      generates async_ops.py from the ops of the daemon at URL, then the blocking modules
    generate.py          generates only the blocking modules: ops.py from async_ops.py, client.py from async_client.py

With --check, the script writes nothing and exits with status 1 if a file would change.
"""
import argparse
import json
import re
import sys
import textwrap
import urllib.request
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "tensord"
TYPES = {"int64": "int", "bool": "bool", "string": "str", "dtype": "Any", "float64": "float", "int64[]": "Sequence[int]"}
RESULTS = {("output",): ("One", "one"), ("outputs",): ("Many", "many"), ("output", "found"): ("Rows", "found_rows"),
           ("values", "indices"): ("Top", "selected"), ("scores", "indices", "keys"): ("Best", "matches")}
TWINS = {"async_ops.py": "ops.py", "async_client.py": "client.py"}
# Methods of the asynchronous client and their blocking counterparts. Operations without an asynchronous
# syntax are methods there: len(tables) is await tables.length().
SYNTAX = {"def __aenter__": "def __enter__", "def __aexit__": "def __exit__", "def __aiter__": "def __iter__", "def length": "def __len__", "def array": "def __array__",
          "def contains": "def __contains__"}
# Ops with a hand-written signature: the parameters, the statement that converts them to inputs, and a sentence for the docstring.
OWN = {"einsum": ("*operands: Any, inputs: Any = None, equation: Optional[str] = None", "inputs, equation = calls.operands(operands, inputs, equation)",
                  'Call it as einsum("ij,j->i", a, b), or as einsum([a, b], equation="ij,j->i").'),
       "lookup": ("params: Any, keys: Any = None, *, queries: Any = None, default: Any = None", "keys, queries = calls.looked_up(keys, queries)",
                  "Without queries, keys lists the keys to look up, and params must be a table with keys. With queries, keys names the rows of params."),
       "search": ("params: Any, queries: Any = None, k: int = 10, *, rows: Any = None, candidates: Any = None, exclude: Any = None, keys: Any = None, "
                  "scale: Any = None, offset: Any = None, zero_point: Any = None", "queries = calls.query_values(queries)",
                  "Pass either queries or rows.")}
HEAD = '''"""The ops as methods. generate.py generates this file from GET /v1/ops of the daemon."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, Optional, Sequence, TypeVar

from . import calls
from .calls import OpCall, op_call

One = TypeVar("One")
Many = TypeVar("Many")
Rows = TypeVar("Rows")
Top = TypeVar("Top")
Best = TypeVar("Best")


class AsyncOps(ABC, Generic[One, Many, Rows, Top, Best]):
    """The ops as methods. The type parameters are the results of ops with one output, of ops with a list of outputs,
    of lookup, of top_k, and of search.

FAMILIES
    """

    @abstractmethod
    async def run_op(self, call: OpCall, timeout: Optional[float]) -> Any:
        ...
'''


FEWEST = 4  # ops of a family that is listed under its name


def get(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return json.load(reply)


def attribute(one):
    kind = TYPES[one["type"]]
    if kind == "str" and one.get("values"):
        kind = f"Literal[{', '.join(json.dumps(value) for value in one['values'])}]"
    return f"{one['name']}: {kind}" if one["required"] else f"{one['name']}: Optional[{kind}] = None"


def parameters(op):
    """Returns the parameters: inputs, then the first attribute and further required ones as positional parameters, unless
    the first is a Literal or an input is optional; all other attributes are keyword-only."""
    shared = ["output_dtype: Any = None", "device: Optional[str] = None", "timeout: Optional[float] = None"]
    attributes = [attribute(one) for one in op["attributes"]]
    if op["name"] in OWN:
        own = OWN[op["name"]][0]
        return ", ".join(["self", own, *(one for one in attributes if one.partition(":")[0] not in own), *shared])
    positional = [one["name"] + ": Any" for one in op["inputs"] if not one["optional"]]
    named = [one["name"] + ": Any = None" for one in op["inputs"] if one["optional"]]
    if attributes and not named and "Literal" not in attributes[0]:
        positional.append(attributes.pop(0))
        while attributes and "= None" not in attributes[0]:
            positional.append(attributes.pop(0))
    return ", ".join(["self", *positional, "*", *named, *attributes, *shared])


def sentence(one):
    default = one.get("default")
    return one["summary"] + (f" Default: {default}." if default is not None else "")


def described(op):
    """Returns the docstring, composed of the daemon's descriptions of the op."""
    rows = [(one["name"], sentence(one)) for one in [*op["inputs"], *op["attributes"]]]
    rows += [("Returns", one["summary"]) if len(op["outputs"]) == 1 else ("." + one["name"], one["summary"]) for one in op["outputs"]]
    width = max(len(name) for name, _ in rows) + 2
    head = [op["summary"], *([OWN[op["name"]][2]] if op["name"] in OWN else [])]
    lines = [textwrap.fill(" ".join(head), 112)] + [""]
    lines += [textwrap.fill(name.ljust(width) + text, 112, subsequent_indent=" " * width) for name, text in rows]
    text = "\n".join(lines).replace("\\", "\\\\")
    return textwrap.indent(f'"""{text}\n"""', " " * 8)


def names(values):
    return "(" + "".join(f'"{one}", ' for one in values).rstrip() + ")"


def table(values):
    return "{" + ", ".join(f'"{one}": {one}' for one in values) + "}"


def wrapped(text, indent):
    """Returns the line, broken at commas."""
    lines, line = [], ""
    for part in re.split(r"(?<=, )", text):
        if len(line) + len(part.rstrip()) > 100 and line:
            lines.append(line.rstrip())
            line = " " * indent
        line += part
    return "\n".join([*lines, line])


def method(op):
    result, decode = RESULTS[tuple(one["name"] for one in op["outputs"])]
    lists = [one["name"] for one in op["inputs"] if one["list"]]
    indices = [one["name"] for one in op["inputs"] if one["role"] == "index"]
    optional = [one["name"] for one in op["inputs"] if one["optional"]]
    keys = [one["name"] for one in op["inputs"] if one["role"] == "key"]
    start = f"    async def {op['name']}("
    lines = ["", wrapped(start + parameters(op) + f") -> {result}:", len(start)), described(op)]
    lines += [f"        {OWN[op['name']][1]}"] if op["name"] in OWN else []
    lines.append(f"        result: {result} = await self.run_op(op_call(")
    inside = f'            "{op["name"]}", calls.{decode}, {table(one["name"] for one in op["inputs"])}, '
    inside += table([*(one["name"] for one in op["attributes"]), "output_dtype", "device"]) + f", {names(lists)}, {names(indices)}, {names(optional)}, {names(keys)}), "
    return "\n".join([*lines, wrapped(inside + "timeout)", 12), "        return result"])


def families(ops):
    """Returns lines that list the ops by family. The ops of small families come first."""
    groups = {"": []}
    for op in ops:
        size = sum(one["family"] == op["family"] for one in ops)
        groups.setdefault(op["family"].replace("_", " ") if size >= FEWEST else "", []).append(op["name"])
    rows = [(f"{family}: " if family else "") + ", ".join(names) + "." for family, names in groups.items() if names]
    return textwrap.indent("\n\n".join(textwrap.fill(row, 112) for row in rows), " " * 4)


def ops_module(url):
    ops = get(url + "/v1/ops")["ops"]
    head = HEAD.replace("FAMILIES", families(ops))
    return head + "\n".join(method(get(f"{url}/v1/ops/{one['name']}")) for one in ops) + "\n"


def blocking(text):
    """Returns the blocking version of an asynchronous module."""
    text = re.sub(r"\b(async |await )", "", text)
    text = re.sub(r"\b(async_(?=ops))|\bAsync(?=[A-Z])", "", text)
    for name, twin in SYNTAX.items():
        text = text.replace(name + "(", twin + "(")
    return text.replace("streams", "blocking")


def main():
    parser = argparse.ArgumentParser(description="Generates the modules that are derived from other sources.")
    parser.add_argument("url", nargs="?")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = {"async_ops.py": ops_module(args.url.rstrip("/"))} if args.url else {}
    for source, target in TWINS.items():
        text = made.get(source) or (PACKAGE / source).read_text(encoding="utf-8")
        made[target] = blocking(text)
    for name, text in made.items():
        path = PACKAGE / name
        if args.check and path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date; run generate.py with the URL of a daemon")
        if not args.check:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
