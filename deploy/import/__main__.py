"""Command line of the importer: imports files as tables of tensord."""

import argparse
import difflib
import os
import pathlib
import shlex
import sys
import typing

sys.dont_write_bytecode = True

# The command that starts this program. A program that runs this folder under another name, as
# tensord-import does, sets COMMAND in the globals of this module.
COMMAND: str = globals().get("COMMAND", "python3 deploy/import")
PROGRAM = pathlib.PurePath(COMMAND).name


def say(what: str, text: str) -> None:
    """Prints an error or a note, prefixed with the name of the program."""
    print(f"{PROGRAM}: {what}: {text}", file=sys.stderr)


def missing(error: ImportError) -> str:
    requirements = pathlib.Path(__file__).parent / "requirements.txt"
    return f"{error.name} is not installed: pip install -r {shlex.quote(str(requirements))}"


try:
    import numpy  # noqa: F401
except ImportError as e:
    say("error", missing(e))
    sys.exit(1)

import encoding
from folder import Staging, refuse_existing, refuse_hidden, write_manifest
from inputs import (
    NUMBERS_AS_TEXT,
    Choice,
    KeyFile,
    check_paths,
    has_suffix,
    read_tables,
    stem_of,
)
from keys import survey
from names import IN_FILE_NAMES, VERSION, check_alias, check_name, fault_of
from progress import Progress, size_text
from table import CSV, Keys, Refused, Table, first_rows
from writer import Output, write_file

from text import CsvFormat, join_list, shown, split_list

DESCRIPTION = """\
Imports files as tables of tensord: writes tensors FILE:TENSOR, with their keys, to a data folder.

input formats
  .parquet .feather .arrow  each row is a list in one column, or numbers in several columns. Several
                            files, or a folder, make one table; folders named COLUMN=VALUE add
                            columns. Files are joined in the order given; the files of a folder are
                            joined by the numbers in their names: part.2 before part.10
  .csv .tsv (.gz)           columns of numbers; the first line has the names of the columns,
                            unless --no-header is given
  .jsonl .ndjson (.gz)      one object per line; its members are columns of numbers or of lists
  .txt .vec (.gz)           word vectors of GloVe, word2vec and fastText; the words, or ids, are the
                            keys
  .npy                      one array
  .npz                      several arrays; each becomes a tensor
  .pt .pth .bin             the state dict of a PyTorch model; nothing in it is executed
  .safetensors              all tensors; a tensor with a dtype that tensord lacks is left out with a
                            note
  a folder                  a model in the layout of Hugging Face: .safetensors or .bin, one file or
                            several

Text must be UTF-8. Tensors named X.keys, or X.keys.bytes and X.keys.offsets, are the keys of the
tensor X. Inputs can be larger than memory: they are read and written in batches. Each key needs 16
bytes of memory. The index of a pandas file is left out, with a note. Missing values, rows of
different lengths, columns of different dtypes and equal keys are errors that name their place.
"""
EPILOG = f"""\
examples
  {COMMAND} movies.parquet --keys movie_id --data-dir data
  {COMMAND} movies.parquet --keys movie_id --dtype uint8 --data-dir data \\
      --version 20261122 --alias movies=embedding
  {COMMAND} glove.6B.50d.txt --data-dir data
  {COMMAND} vectors.npy --keys-from ids.txt --data-dir data
  {COMMAND} all-MiniLM-L6-v2 --tensor embeddings.word_embeddings.weight=words \\
      --keys-from all-MiniLM-L6-v2/vocab.txt --data-dir data --name minilm

The data folder changes completely or not at all. Send SIGHUP to a running tensord to make it read
the new files. Exit status: 0 for success, 1 if the input is refused or cannot be written, 2 for
wrong options. docs/tables.md describes imports in detail.
"""


class Once(argparse.Action):
    """Stores the value of an option. A second value is an error, because it would replace the first."""

    def __call__(self, parser, namespace, value, option=None):  # type: ignore[no-untyped-def]
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option} is given twice; expected one value")
        setattr(namespace, self.dest, value)


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the option that was probably meant.

    Abbreviated options are not accepted, because their meaning would change with each new option.
    """

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        found, unknown = super().parse_known_args(args, namespace)
        for option in unknown:
            if not option.startswith("-"):
                self.error(
                    f"unrecognized arguments: {option}; list all inputs together. An option takes one"
                    " value, such as --rows a,b"
                )
            near = difflib.get_close_matches(option.partition("=")[0], self._option_string_actions)
            if near:
                self.error(f"unrecognized arguments: {option}; did you mean {near[0]}?")
        return found, unknown


def parser_of() -> argparse.ArgumentParser:
    parser = Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.register("action", None, Once)
    add = parser.add_argument
    add("inputs", nargs="+", type=pathlib.Path, metavar="INPUT", help="a file or a folder")
    add(
        "--data-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="the data folder to write to; created if it does not exist",
    )
    add(
        "--list",
        action="store_true",
        help="print the tensors that an import would write, without writing anything",
    )
    add(
        "--name",
        help="name to use as FILE in the names of tensors; default: the name of the input without its suffix",
    )
    add(
        "--tensor",
        action="append",
        default=[],
        metavar="FROM[=TO]",
        help="import this tensor under the name TO; can be repeated; default: all tensors",
    )
    add(
        "--rows",
        action="append",
        default=[],
        metavar="COLUMN[,...]",
        help=(
            "the columns that form the rows; quote a name that contains a comma, as in"
            " '\"x,y\",z'; can be repeated; default: the only column of lists, or all columns except"
            " the keys"
        ),
    )
    add(
        "--keys",
        metavar="COLUMN",
        help=(
            "the column or the tensor with the keys; with --keys-from, a column of that file;"
            " '' is the first column of CSV if it has no name"
        ),
    )
    add(
        "--keys-from",
        type=pathlib.Path,
        metavar="FILE",
        help=(
            "read the keys from a file: one key per line (.txt), an object {key: row} or a"
            " tokenizer.json (.json), an array (.npy), or the column --keys of a .csv, .tsv, .jsonl,"
            " .parquet, .feather or .arrow file"
        ),
    )
    add(
        "--order",
        choices=("number", "text"),
        help=(
            "order in which several files are joined: number sorts by the numbers in their names, part.2"
            " before part.10; text sorts by name; default: number for a folder, otherwise the order given"
        ),
    )
    add(
        "--drop-padding",
        action="store_true",
        help="leave out the rows after the last key, because a model's table can be longer than its vocabulary",
    )
    add(
        "--key-dtype",
        choices=("int64", "uint64", "string"),
        help=(
            "dtype of the keys; default: the dtype in the input. Keys in text are int64 if all are"
            " integers without leading zeros (uint64 if a key is above 2^63 - 1), otherwise string"
        ),
    )
    add(
        "--delimiter",
        metavar="CHARACTER",
        help="the character between the columns of CSV, or \\t for a tab; default: a comma, or a tab in .tsv",
    )
    add(
        "--quote",
        action=argparse.BooleanOptionalAction,
        help=(
            'read fields in quotes (") as quoted fields, or keep the quotes; default: --quote in .csv,'
            " --no-quote in .tsv"
        ),
    )
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        help=(
            "--header: the first line of CSV has the names of the columns; --no-header: the first line is a"
            " row, and the columns are named 0, 1, ...; default: --header, but a line of numbers is an error"
        ),
    )
    add(
        "--decimal",
        choices=(".", ","),
        metavar="POINT",
        help="the decimal separator of numbers in CSV, a point or a comma; default: a point",
    )
    add(
        "--dtype",
        choices=(encoding.KEEP, *encoding.FLOATS, *encoding.ROWWISE),
        help=(
            "convert rows of floats, and columns of integers or bools, to this dtype; uint8 and int8 quantise each row and add the"
            " tensors X.scale and X.offset; default: keep, but float32 for numbers in text"
        ),
    )
    add(
        "--version",
        metavar="V",
        help="write an immutable version FILE:TENSOR@V to the folder V",
    )
    add(
        "--alias",
        action="append",
        default=[],
        metavar="NAME=TENSOR",
        help="with --version: set the alias NAME to this version of TENSOR; can be repeated",
    )
    add(
        "--quiet",
        action="store_true",
        help=(
            "print only errors: no progress, no summary and no notes. Notes name what is left out,"
            " such as an index or a tensor with another dtype; --list prints notes, too"
        ),
    )
    return parser


def pairs(
    parser: argparse.ArgumentParser, option: str, texts: list[str], alone: bool
) -> dict[str, str]:
    """Returns the values "A=B" of an option as a dict. If `alone`, "A" stands for "A=A"."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or (equals and not value) or not (equals or alone) or name in found:
            parser.error(
                f"{option} {text}: expected {'FROM or FROM=TO' if alone else 'NAME=TENSOR'}, each"
                " name once"
            )
        found[name] = value or name
    return found


def check_options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if not args.data_dir and not args.list:
        parser.error("--data-dir is missing")
    for columns in args.rows:
        if not split_list(columns) or not all(split_list(columns)):
            parser.error(
                f"--rows {columns!r}: expected names of columns, separated by commas. Write a name"
                ' with a comma or a quote as in CSV, such as \'"x,y",z\' for x,y and'
                " z"
            )
    names = [name for columns in args.rows for name in split_list(columns)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        parser.error(f"--rows names column {twice} twice")
    if args.alias and not args.version:
        parser.error("--alias names a version, but --version is missing")
    if args.version and not VERSION.fullmatch(args.version):
        parser.error(
            f"--version {args.version}: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, and"
            " no dot first"
        )
    if args.delimiter == "\\t":
        args.delimiter = "\t"
    if args.delimiter is not None and not (
        len(args.delimiter) == 1 and args.delimiter.isascii() and args.delimiter not in '"\r\n'
    ):
        parser.error(f"--delimiter {args.delimiter!r}: expected one ASCII character, or \\t for a tab")
    fault = None if args.name is None else fault_of(args.name, IN_FILE_NAMES)
    if fault:
        parser.error(f"--name {args.name}: {fault}")


# ---------------------------------------------------------------- the import
def plan_output(table: Table, target: str, drop_padding: bool, quiet: bool) -> Output:
    """Reads the keys once, to count and compare them, and returns the table to write."""
    keys = table.keys
    if not keys:
        return Output(table.name, encoding.Encoder(table, target), None)
    progress = Progress(f"reading the keys of {table.name}", 0, quiet)
    found = survey(keys, progress.add)
    progress.end()
    for note in () if quiet else keys.found:
        say("note", note)
    if not table.shape:
        raise Refused(f"{keys.place}: keys need rows, but {table.place} is a scalar")
    missing = table.n_rows - found.count
    are_padding = missing > 0 and found.count > 0
    if are_padding and drop_padding:
        table = first_rows(table, found.count)
        if not quiet:
            what = f"{missing} rows, which have no keys, are" if missing > 1 else "row, which has no key, is"
            hint = keys.hint_if_one_lacks if missing == 1 else ""
            say("note", f"{table.place}: the last {what} left out{hint}")
    elif missing:
        raise Refused(
            f"{keys.place}: there are {found.count} keys, but {table.place} has"
            f" {table.n_rows} rows"
            + (
                BY_POSITION
                if missing > 0 and found.count > 1 and keys.by_position
                and not (missing == 1 and keys.hint_if_one_lacks)
                else ""
            )
            + (
                keys.hint_if_one_lacks + ". If the last row is padding, --drop-padding leaves it out"
                if missing == 1 and found.count > 1
                else f". If the last {missing} are padding, --drop-padding leaves them out"
                if are_padding and found.count > 1
                else header_hint(keys)
                if missing == -1 and keys.may_have_header
                else ""
            )
        )
    return Output(table.name, encoding.Encoder(table, target), found)


BY_POSITION = (
    ". A key names the row at its position. If a key was lost, such as a header or a missing value, all"
    " keys after it name the wrong row. Add the lost key at its place"
)


def header_hint(keys: Keys) -> str:
    """Returns a hint for a file with one key too many."""
    first = next(iter(keys.batches()))[0]
    text = first if isinstance(first, bytes) else str(first)
    return (
        f". If the first line, {shown(text)}, is a header, remove it; otherwise remove the key that has no"
        " row. A key names the row at its position"
    )


MOST_COLUMNS = 5  # maximum number of columns in the summary


def columns_text(columns: tuple[str, ...]) -> str:
    """Returns the names of the first columns, as --rows takes them."""
    return join_list([*columns[:MOST_COLUMNS]]) + (",…" if len(columns) > MOST_COLUMNS else "")


def describe(output: Output, full: str) -> str:
    keys, columns, error = output.encoder.table.keys, output.encoder.table.columns, output.encoder.error
    return (
        f"{full}: {output.encoder.dtype.name} {list(output.encoder.table.shape)}"
        + (f", keys {keys.kind}" if keys else "")
        + (f", columns {columns_text(columns)}" if len(columns) > 1 else "")
        + (f"; {error}" if output.encoder.changes and error.count else "")
    )


def with_parts(aliases: dict[str, str], target: str) -> dict[str, str]:
    """Adds the aliases of scale and offset if rows are quantised, so that all the tensors of a call change together."""
    parts = ("", ".scale", ".offset") if target in encoding.ROWWISE else ("",)
    return {
        alias + part: tensor + part for alias, tensor in aliases.items() for part in parts
    } | aliases


def run(args: argparse.Namespace, choice: Choice, aliases: dict[str, str]) -> None:
    check_paths(args.inputs, choice)
    name = args.name or stem_of(args.inputs)
    fault = fault_of(name, IN_FILE_NAMES)
    if fault:
        raise Refused(f"{name!r} cannot be the name of a table: {fault}. Choose another name with --name")
    files = (args.inputs[0], *([args.keys_from] if args.keys_from else []))
    if choice.csv.is_given() and not any(has_suffix(path, CSV) or path.is_dir() for path in files):
        raise Refused(
            f"{args.inputs[0]}: --delimiter, --quote, --header and --decimal are for CSV and TSV"
        )
    tables = read_tables(args.inputs, choice)
    are_rounded = has_suffix(args.inputs[0], NUMBERS_AS_TEXT) and all(
        table.dtype.is_float for table in tables
    )
    target = args.dtype or ("float32" if are_rounded else encoding.KEEP)
    for table in tables:
        check_name(name, table.name, args.version, str(args.inputs[0]))
        key_notes = table.keys.notes if table.keys else ()
        for note in () if args.quiet else (*table.notes, *key_notes):
            say("note", note)
    for alias, tensor in aliases.items():
        if tensor not in [table.name for table in tables]:
            names = ", ".join(table.name for table in tables)
            raise Refused(f"--alias {alias}={tensor}: there is no tensor {tensor}; the input has {names}")
    for alias in aliases if target in encoding.ROWWISE and not args.quiet else ():
        say("note", f"--alias {alias}: once the alias is set, a lookup returns the quantised bytes of its rows;"
            f" {alias}.scale and {alias}.offset are set with it. If {alias} has named floats, use another alias")
    aliases = with_parts(aliases, target)
    for alias in aliases:
        check_alias(alias)
    version = f"@{args.version}" if args.version else ""
    if args.list:
        for table in tables:
            print(
                describe(
                    Output(table.name, encoding.Encoder(table, target), None),
                    f"{name}:{table.name}{version}",
                )
            )
        return
    if args.data_dir.exists() and not args.data_dir.is_dir():
        raise Refused(f"--data-dir {args.data_dir}: this is a file; expected a folder")
    args.data_dir.mkdir(parents=True, exist_ok=True)
    if args.version:
        refuse_existing(args.data_dir / args.version)
    parts = ("", ".scale", ".offset") if target in encoding.ROWWISE else ("",)
    refuse_hidden(
        args.data_dir,
        [f"{name}:{table.name}{part}{version}" for table in tables for part in parts],
    )
    outputs = [plan_output(table, target, args.drop_padding, args.quiet) for table in tables]
    with Staging(args.data_dir, args.version or name) as staging:
        size = write_file(staging.path / f"{name}.safetensors", outputs, args.quiet)
        if args.version:
            progress = Progress("reading the files back for their SHA-256", size, args.quiet)
            write_manifest(
                staging.path,
                {alias: f"{name}:{tensor}{version}" for alias, tensor in aliases.items()},
                progress.add,
            )
            progress.end()
            made, replaces = staging.publish_version(args.version), False
        else:
            made, replaces = staging.publish_file(f"{name}.safetensors")
    if not args.quiet:
        for note in filter(None, (output.encoder.note() for output in outputs)):
            say("note", note)
        print(
            "\n".join(
                [
                    f"{made}: {size_text(size)}"
                    + ("; replaced the file of that name" if replaces else ""),
                    *(
                        f"  {describe(output, f'{name}:{output.name}{version}')}"
                        for output in outputs
                    ),
                ]
            )
        )


def of_system(error: OSError) -> str:
    """Returns the system's message, with the name of the file if the error has it."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of()
    args = parser.parse_args(arguments)
    check_options(parser, args)
    choice = Choice(
        pairs(parser, "--tensor", args.tensor, True),
        tuple(name for columns in args.rows for name in split_list(columns)),
        None if args.keys_from else args.keys,
        KeyFile(args.keys_from, args.keys) if args.keys_from else None,
        args.key_dtype,
        CsvFormat(args.delimiter, args.quote, args.header, args.decimal),
        args.dtype not in (None, encoding.KEEP),
        args.order,
    )
    try:
        run(args, choice, pairs(parser, "--alias", args.alias, False))
    except (Refused, OSError) as e:
        text = of_system(e) if isinstance(e, OSError) else str(e)
        say("error", " ".join(text.split("\n")).strip())
        return 1
    except ImportError as e:
        say("error", missing(e))
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; nothing was changed", file=sys.stderr)
        return 130
    return 0


def leave(status: int) -> typing.NoReturn:
    """Ends the process without finalizing the interpreter.

    After an error, a thread of Arrow might still be reading ahead in the file, and pyarrow cannot wait for the thread. The
    thread would abort the process if the interpreter were finalized.
    """
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # A stream is None if it was closed at the start.
            stream.flush()
    except OSError as e:
        say("error", f"standard output: {e.strerror}")
        status = status or 1
    os._exit(status)


if __name__ == "__main__":
    leave(main())
