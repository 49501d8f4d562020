"""Keys: where they come from besides a column, and the check that no two are equal."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

import npy_file
from line_columns import column_notes
from table import (
    BATCH_KEYS,
    COLUMN_FILES,
    CSV,
    JSON_LINES,
    Array,
    Keys,
    Refused,
    Strings,
    locate,
    strings_of,
)
from text import MISSING_MARKS, MISSING_WORDS, check_utf8, read_text, shown
from vocabulary import vocabulary

MOST_SHOWN = 3
FEW = 3  # other texts that a column of numbers may have
SHARE = 10  # numbers for each of them, at least
IF_KEY = "if it is a key, use --key-dtype string"
IF_MISSING = f"if it stands for a key that is missing, remove its row; {IF_KEY}"
STRIP = (
    " (df['NAME'].str.strip() of pandas removes them, and numpy.savetxt(FILE, ids, fmt='%d') of the ids alone writes none)"
)
FLOAT_KEYS = (
    "; astype('int64') makes integers of numbers such as 7.0; floats have rounded those above 2**53,"
    " so write these as integers where they come from"
)
ROUNDED_KEYS = "; {0} rounds large integers: astype('int64') before the ids become {0}"


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of keys after they were read once."""

    count: int
    text_bytes: int  # of all strings; 0 for integers


def show(key: bytes | int) -> str:
    return (
        json.dumps(key.decode("utf-8", "replace"), ensure_ascii=False)
        if isinstance(key, bytes)
        else str(key)
    )


def survey(keys: Keys, add: Callable[[int], None]) -> Survey:
    """Counts keys, and refuses them if two are equal. Holds 16 bytes a key: an integer is its own
    fingerprint.
    """
    prints, text_bytes, odd = [], 0, OddKey(keys)
    for batch in keys.batches():
        if isinstance(batch, Strings):
            odd.add(batch)
            text_bytes += len(batch.data)
            add(len(batch.data))
            prints.append(
                numpy.fromiter((hash(batch[i]) for i in range(len(batch))), "<i8", len(batch))
            )
        else:
            prints.append(batch.astype(keys.kind, copy=False))
            add(batch.nbytes)
    odd.refuse()
    fingerprints = numpy.concatenate(prints) if prints else numpy.zeros(0, "<i8")
    prints.clear()
    count = len(fingerprints)
    fingerprints.sort()
    repeated = fingerprints[1:][fingerprints[1:] == fingerprints[:-1]]
    if len(repeated):
        refuse_equal(keys, {int(value) for value in numpy.unique(repeated)[:BATCH_KEYS]})
    return Survey(count, text_bytes)


def refuse_equal(keys: Keys, fingerprints: set[int]) -> None:
    """Refuses the keys with these fingerprints that are equal; different strings may have one
    fingerprint.
    """
    first: dict[bytes | int, int] = {}
    found: list[str] = []
    for position, key in enumerate(each(keys)):
        if (hash(key) if isinstance(key, bytes) else key) not in fingerprints:
            continue
        if key in first:
            found.append(f"{show_two(keys, first[key], position)} are both {show(key)}")
        if len(found) == MOST_SHOWN:
            break
        first.setdefault(key, position)
    if found:
        notes = "".join(f". {note}" for note in keys.found)
        raise Refused(f"{keys.place}: {'; '.join(found)}. A key names one row{notes}")


def show_two(keys: Keys, one: int, two: int) -> str:
    if not keys.files:
        return f"keys {one} and {two}"
    (a, row_a), (b, row_b) = (locate(row, keys.place, keys.files) for row in (one, two))
    return f"key {row_a} of {a} and key {row_b} of {b}"


def each(keys: Keys) -> Iterator[bytes | int]:
    for batch in keys.batches():
        yield from (
            (batch[i] for i in range(len(batch))) if isinstance(batch, Strings) else batch.tolist()
        )


class OddKey:
    """Finds a key that is no integer among keys that are integers but for a few: it makes strings of
    all keys. Text that stands for a missing key, and a number with blanks around it, is one among
    numbers in any spelling. A column of text, such as codes of countries, may have the key NA.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys, self.may_be_numbers = keys, keys.kind == "string" and not keys.asked
        self.integers = self.spellings = self.padded = self.others = self.position = 0
        self.missing: tuple[int, bytes] | None = None  # or with blanks around it
        self.odd: tuple[int, bytes] | None = None

    def add(self, batch: Strings) -> None:
        for i in range(len(batch)) if self.may_be_numbers else ():
            key = batch[i]
            if is_integer(key):
                self.integers += 1
            elif WRITTEN_NUMBER.fullmatch(key):  # such as 7.0 or 007
                self.spellings += 1
                self.odd = self.odd or (self.position + i, key)
            elif is_missing(key) or WRITTEN_NUMBER.fullmatch(key.strip()):
                self.padded += not is_missing(key)
                self.missing = self.missing or (self.position + i, key)
            else:
                self.others += 1
                self.odd = self.odd or (self.position + i, key)
                if self.others > FEW:
                    self.may_be_numbers = False
                    return
        self.position += len(batch)

    def refuse(self) -> None:
        if not self.may_be_numbers:
            return
        numbers = self.integers + self.spellings + self.padded
        if self.missing and numbers and numbers >= SHARE * self.others:
            position, key = self.missing
            raise Refused(
                f"{place_of_key(self.keys, position)} is {shown(key)}"
                + (
                    f", among keys that are numbers; {IF_MISSING}"
                    if is_missing(key)
                    else f", with blanks around it, among keys that are numbers; remove the blanks{STRIP},"
                    " or use --key-dtype string if they are part of the key"
                )
            )
        if self.odd and self.is_among_integers():
            position, key = self.odd
            raise Refused(
                f"{place_of_key(self.keys, position)} is {shown(key)}, among keys that are integers;"
                f" {self.remedy(position, key)}"
            )

    def is_among_integers(self) -> bool:
        count = self.spellings + self.others
        if self.missing or not self.odd:
            return False
        is_header = self.is_first_line(self.odd[0]) and count == 1 and self.integers > 1
        return is_header or count <= FEW and self.integers >= SHARE * count

    def is_first_line(self, position: int) -> bool:
        return self.keys.may_have_header and position == 0

    def remedy(self, position: int, key: bytes) -> str:
        if self.is_first_line(position) and not WRITTEN_NUMBER.fullmatch(key):
            return f"if it is a header, remove the first line; {IF_KEY}"
        if key.decode("utf-8", "replace") in MISSING_MARKS:
            return IF_MISSING
        if USUAL.fullmatch(key):
            return f"it fits neither int64 nor uint64; {IF_KEY}"
        if WRITTEN_NUMBER.fullmatch(key):
            hint = float_texts(key) if is_float(key) else ""
            return f"if it is an integer, write it as 1234 is written{hint}; {IF_KEY}"
        return f"if it is a mistake, write an integer such as 1234, or remove its row; {IF_KEY}"


def is_missing(key: bytes) -> bool:
    text = key.strip().decode("utf-8", "replace").upper()
    return text in MISSING_WORDS or bool(re.fullmatch("#[A-Z/0]+[!?]", text))  # errors of Excel


def place_of_key(keys: Keys, position: int) -> str:
    if keys.one_a_line:
        return f"{keys.place}, line {position + 1}"
    place, row = locate(position, keys.place, keys.files)
    return f"{place}: row {row}"


# ---------------------------------------------------------------- keys in memory
def keys_of_texts(texts: list[bytes], place: str) -> Keys:
    def batches() -> Iterator[Strings]:
        for i in range(0, len(texts), BATCH_KEYS):
            yield strings_of(texts[i : i + BATCH_KEYS])

    return Keys("string", batches, place)


def kind_of(dtype: "numpy.dtype[Any]", place: str) -> str:
    """int64 for all integers that fit."""
    if dtype.kind not in "iu":
        raise Refused(
            f"{place}: keys are of dtype {dtype}; expected integers or strings"
            + ("" if dtype.kind != "f" else FLOAT_KEYS if dtype.itemsize > 4 else ROUNDED_KEYS.format(dtype))
        )
    return "uint64" if dtype.name == "uint64" else "int64"


def missing_notes(texts: list[str], place: str) -> tuple[str, ...]:
    """Notes text that NumPy makes of a missing value."""
    for i, text in enumerate(texts):
        if text in ("nan", "None", "NaT", "<NA>"):
            return (
                f"{place}: key {i} is {shown(text)}, which astype(str) makes of a missing value; if it is"
                f" one, remove its row; {HIDE}",
            )
    return ()


def keys_of_array(array: Array, place: str) -> Keys:
    """Integers, or strings of fixed length as NumPy has them."""
    if array.ndim != 1:
        raise Refused(
            f"{place}: keys of shape {list(array.shape)}; expected a vector"
            + ("; x.ravel() makes one of a column" if 1 in array.shape[1:] and array.ndim == 2 else "")
        )
    if array.dtype.kind == "U":
        try:
            texts = array.tolist()
        except (SystemError, ValueError) as e:  # by the version of Python
            raise Refused(f"{place}: its text is damaged: it has a character above U+10FFFF") from e
        keys = [encode_text(text, f"{place}, key {i}") for i, text in enumerate(texts)]
        return dataclasses.replace(keys_of_texts(keys, place), notes=missing_notes(texts, place))
    if array.dtype.kind == "S":
        return keys_of_texts(
            [check_utf8(text, f"{place}, key {i}", "") for i, text in enumerate(array.tolist())],
            place,
        )
    kind = kind_of(array.dtype, place)
    return Keys(
        kind,
        lambda: (array[i : i + BATCH_KEYS].astype(kind) for i in range(0, len(array), BATCH_KEYS)),
        place,
    )


LIMITS = {"int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1)}
INTEGER_KINDS = tuple(LIMITS)
INTEGER_TEXT = "-?[0-9]{1,40}"
INTEGER = re.compile(INTEGER_TEXT.encode())
PADDED_TEXT = "-?0[0-9]+|-0"
PADDED = re.compile(PADDED_TEXT.encode())
# An integer as pandas writes it if another one of the column is missing, or as Excel writes long ones.
INTEGER_AS_FLOAT = r"-?[0-9]+(\.0|(\.[0-9]+)?[eE]\+?[0-9]+)"
WRITTEN_NUMBER = re.compile(b"-?[0-9]+|" + INTEGER_AS_FLOAT.encode())
USUAL_INTEGER = r"0|-?[1-9][0-9]{0,99}"  # without leading zeros
USUAL = re.compile(USUAL_INTEGER.encode())
PIECE = re.compile(rb"[^\s,;\[\]()]+")  # of a line that is a list
FLOAT = re.compile(INTEGER_AS_FLOAT.encode())
HIDE = "--key-dtype string hides this note"
FLOAT_TEXTS = (
    ": df['NAME'].astype('int64') before to_csv of pandas, and numpy.savetxt(FILE, ids, fmt='%d') of the"
    " ids alone, write integers"
)
# Floats have no odd integers above 2^53, and spreadsheets show six digits of long numbers.
LONG_TEXTS = (
    ": floats round such long integers, so some are other ids already; write them as integers or text"
    " where they come from"
)
CUT_TEXTS = (
    ": programs shorten long numbers so, and the digits that are not shown are not in the file; write"
    " the ids again as text, or as integers, where they come from"
)
FRACTION = r"-?[0-9]+\.[0-9]+"
FRACTIONS = f"because they are numbers with fractions, which are kept as they are written; {HIDE}"
TOO_WIDE = (
    "because neither int64 nor uint64 has all of these integers: some are negative and others above"
    f" 2^63 - 1, or one is outside both; {HIDE}"
)


def are_integers(texts: list[bytes]) -> bool:
    """True if all are integers in their usual form, of any size."""
    return all(map(USUAL.fullmatch, texts))


def fitting(kinds: tuple[str, ...], texts: list[bytes]) -> tuple[str, ...]:
    """The dtypes that have all keys, if these are integers in their usual form: so that a text and
    its integer are one key.
    """
    if not are_integers(texts):
        return ()
    numbers = [*map(int, texts)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    return tuple(kind for kind in kinds if LIMITS[kind][0] <= low and high <= LIMITS[kind][1])


def is_integer(text: bytes) -> bool:
    return bool(USUAL.fullmatch(text)) and (
        len(text) < 19 or bool(fitting(INTEGER_KINDS, [text]))  # short ones fit
    )


def is_float(text: bytes) -> bool:
    return bool(FLOAT.fullmatch(text))


def lacks_digits(text: bytes) -> bool:
    """True for 4.00638E+12, of a long integer, and False for 1e5, and 1.234000e+03 of NumPy."""
    mantissa, e, exponent = text.lower().replace(b",", b".").partition(b"e")
    digits = exponent.lstrip(b"+0")
    if len(digits) > 3:  # beyond float64, and perhaps beyond what int() reads
        return bool(e)
    return bool(e) and int(digits or b"0") >= 6 and len(mantissa.partition(b".")[2]) < int(digits)


def float_texts(text: bytes) -> str:
    """How an integer that is written as a float is written as an integer, or why it is none."""
    if lacks_digits(text):
        return CUT_TEXTS
    value = float(text.replace(b",", b"."))
    return LONG_TEXTS if abs(value) >= 2**53 else FLOAT_TEXTS


def worst_float(texts: list[bytes]) -> bytes:
    """The one that has lost most: its digits, or its last one."""
    return max(texts, key=lambda text: (lacks_digits(text), len(text)))


def float_note(example: bytes) -> str:
    """Why keys are text that are written as floats, such as this one."""
    return f"because they are written as numbers such as {example.decode()}{float_texts(example)}; {HIDE}"


def as_kind(keys: Keys, kind: str | None) -> Keys:
    """The keys in the dtype that --key-dtype asks for."""
    if kind is None:
        return keys
    found: list[str] = []
    keys = dataclasses.replace(keys, asked=True, notes=(), found=found)
    if kind == keys.kind:
        return keys

    def batches() -> Iterator[Array | Strings]:
        first = 0
        for batch in keys.batches():
            yield converted(batch, kind, keys.place, first, found)
            first += len(batch)

    return dataclasses.replace(keys, kind=kind, batches=batches)


def note_padded(found: list[str], place: str, key: str) -> None:
    """Notes the first key whose zeros are lost."""
    if not found:
        found.append(
            f"{place} is {shown(key)}, which becomes {int(key)}: the zeros before a number are lost, and"
            f" {shown(key)} names no row; --key-dtype string keeps them"
        )


def converted(
    batch: Array | Strings, kind: str, place: str, first: int, found: list[str]
) -> Array | Strings:
    values: Iterable[bytes | int] = (
        (batch[i] for i in range(len(batch))) if isinstance(batch, Strings) else batch.tolist()
    )
    if kind == "string":
        return strings_of([str(value).encode() for value in values])
    low, high = LIMITS[kind]
    numbers = numpy.zeros(len(batch), kind)
    for i, value in enumerate(values):
        number = int(value) if isinstance(value, int) or INTEGER.fullmatch(value) else None
        if number is None or not low <= number <= high:
            hint = float_texts(value) if isinstance(value, bytes) and is_float(value) else ""
            raise Refused(f"{place}: key {first + i} is {show(value)}; expected {kind}{hint}")
        if isinstance(value, bytes) and PADDED.fullmatch(value):
            note_padded(found, f"{place}: key {first + i}", value.decode())
        numbers[i] = number
    return numbers


def encode_text(text: str, place: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise Refused(f"{place}: {text!r} is not Unicode text: it has half a surrogate pair") from e


# ---------------------------------------------------------------- keys of a file of their own
def keys_of_file(
    path: pathlib.Path, kind: str | None = None, rows: int | None = None, any_name: bool = False
) -> Keys:
    """vocab.txt: a key a line. vocab.json, tokenizer.json: the row of each key. FILE.npy: integers
    or strings. Text that is integers has a dtype of integers. `kind` is the dtype that
    --key-dtype asks for. inputs.py reads files of columns.
    `rows`: as many as the table has. `any_name`: a file of lines may have any other name.
    """
    place, name = str(path), path.name.lower()
    if name.endswith(".npy"):
        return as_kind(keys_of_array(npy_file.load(path), place), kind)
    if name.endswith((".json", ".json.gz")):
        texts = in_order(vocabulary(read_text(path), place), place, rows)
        keys = dataclasses.replace(
            keys_of_texts(texts, place), notes=wide_notes(texts, place), by_position=False
        )
        return as_kind(keys, kind or kind_of_texts(texts))
    if any_name and name.endswith((*COLUMN_FILES, *CSV, *JSON_LINES)):
        raise Refused(
            f"{place}: it has columns, which tensord-import reads: --keys-from FILE --keys COLUMN;"
            " expected one key a line, or .json or .npy:"
            " numpy.save('keys.npy', numpy.array(df['COLUMN'].tolist())) makes one of a column of"
            " pandas"
        )
    if not any_name and not name.endswith((".txt", ".txt.gz")):
        raise Refused(
            f"{place}: the keys of a file are in .txt, .json or .npy, or in a column of .csv, .tsv, .jsonl,"
            " .parquet, .feather or .arrow, which --keys names"
        )
    return keys_of_lines(read_text(path), place, kind, rows)


def keys_of_lines(text: bytes, place: str, kind: str | None, rows: int | None) -> Keys:
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts = [
        check_utf8(line.removesuffix(b"\r"), f"{place}, line {i + 1}")
        for i, line in enumerate(lines)
    ]
    if b"" in texts:
        raise Refused(f"{place}, line {texts.index(b'') + 1}: it is empty; expected a key")
    refuse_list(texts, place, rows)
    notes = () if kind else line_notes(texts, place)
    keys = dataclasses.replace(
        keys_of_texts(texts, place), one_a_line=True, may_have_header=True, notes=notes
    )
    return as_kind(keys, kind or kind_of_texts(texts))


def refuse_list(texts: list[bytes], place: str, rows: int | None) -> None:
    """Refuses one line with several keys for a table of several rows, and numbers that are as many as
    the rows but on fewer lines, as print writes an array.
    """
    if rows is None or len(texts) >= rows:
        return
    pieces = [piece for text in texts for piece in PIECE.findall(text)]
    are_numbers = len(pieces) == rows and all(map(re.compile(rb"[-0-9.]+").fullmatch, pieces))
    if are_numbers or len(texts) == 1 < len(pieces):
        raise Refused(
            f"{place}: its keys are on {len(texts)} line{'s' * (len(texts) > 1)}, {len(pieces)} texts for"
            f" {rows} rows; expected one key a line: pathlib.Path('KEYS.txt').write_text('\\n'.join("
            "map(str, LIST))) of Python writes a list so"
        )


def kind_of_texts(texts: list[bytes]) -> str | None:
    """The dtype of keys that are integers; None for other text."""
    return next(iter(fitting(INTEGER_KINDS, texts)), None) if texts else None


def wide_notes(texts: list[bytes], place: str) -> tuple[str, ...]:
    """Notes integers that no dtype has."""
    if not texts or not are_integers(texts) or kind_of_texts(texts):
        return ()
    return (wide_note(place),)


def wide_note(place: str) -> str:
    return f"{place}: the keys are text, {TOO_WIDE}"


def line_notes(texts: list[bytes], place: str) -> tuple[str, ...]:
    """Notes lines that are probably meant as other keys."""
    if texts and all(map(is_float, texts)):
        return (f"{place}: the keys are text, {float_note(worst_float(texts))}",)
    if texts and all(map(re.compile(FRACTION.encode()).fullmatch, texts)):
        return (f"{place}: the keys are text, {FRACTIONS}",)
    if texts and all(text.endswith((b" ", b"\t")) and text.strip() for text in texts):
        return (
            f"{place}: the keys, such as {shown(texts[0])}, end with a blank, which is part of them; {HIDE}",
        )
    if notes := wide_notes(texts, place) or column_notes(texts, place, HIDE):
        return notes
    for i, text in enumerate(texts):
        if len(text) > 1 and text.startswith(b'"') and text.endswith(b'"'):
            column = "COLUMN, a number from 0" if b'","' in text else "0"
            return (
                f"{place}, line {i + 1}: {shown(text)} is read with its quotes; if the file is CSV,"
                " as pandas writes it, rename it to .csv and import the table with tensord-import and"
                f" its options --keys-from FILE.csv --no-header --keys {column}; {HIDE}",
            )
    return ()


def in_order(rows: dict[str, Any], place: str, count: int | None) -> list[bytes]:
    """The keys by row number. Each row has one. `count`: the rows of the table, if it has some."""
    keys: dict[int, str] = {}
    for text, row in rows.items():
        where = f"{place}, key {json.dumps(text, ensure_ascii=False)}"
        if not isinstance(row, int) or isinstance(row, bool) or row < 0:
            raise Refused(
                f"{where}: its row is {shown(json.dumps(row))}; expected an integer from 0"
                + ('; keys come first, as in {"king": 0}' if isinstance(row, str) else "")
            )
        if row in keys:
            raise Refused(
                f"{where}: row {row} has the key {json.dumps(keys[row], ensure_ascii=False)}, too"
            )
        keys[row] = text
    order = sorted(keys)
    if count is not None:
        refuse_beyond(keys, order, place, count)
    if order and order[-1] >= len(order):
        refuse_gaps(order, place)
    return [encode_text(keys[row], f"{place}, row {row}") for row in order]


def refuse_beyond(keys: dict[int, str], order: list[int], place: str, count: int) -> None:
    """Refuses keys of rows that the table does not have, such as tokens that were added to a
    tokenizer but not to the table.
    """
    beyond = [row for row in order if row >= count]
    if not beyond:
        return
    if order[0] == 1 and beyond == [count]:
        raise Refused(
            f"{place}: the rows are numbered from 1 to {count}; expected from 0: subtract 1 from each"
            " number"
        )
    key = json.dumps(keys[beyond[0]], ensure_ascii=False)
    these = f"this key and {len(beyond) - 1} more" if len(beyond) > 1 else "this key"
    raise Refused(
        f"{place}: key {key} is for row {beyond[0]}, but the table has {count} rows, from 0; if the"
        f" file belongs to the table, remove {these}, for rows from {count} on, from a copy of it"
    )


def refuse_gaps(order: list[int], place: str) -> None:
    """Refuses rows without a key that are followed by a row with one."""
    gaps = [
        (before + 1, after - 1) for before, after in zip([-1, *order], order) if after - before > 1
    ]
    missing = order[-1] + 1 - len(order)
    texts = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps[:MOST_SHOWN]]
    more = ", …" if len(gaps) > MOST_SHOWN else ""
    raise Refused(
        f"{place}: {missing} of the rows 0 to {order[-1]} have no key: {', '.join(texts)}{more}. Each"
        " row needs a key: if these rows are not used, add a key for each to a copy of the file, such"
        f' as "unused {gaps[0][0]}": {gaps[0][0]}'
    )
