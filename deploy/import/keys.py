"""Reads keys from arrays and from files without columns, and checks that no two keys are equal."""

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
FEW = 3  # maximum number of other texts in a column that is taken for numbers
SHARE = 10  # minimum number of numbers for each such text
IF_KEY = "if it is a key, use --key-dtype string"
IF_MISSING = f"if it stands for a missing key, remove its row; {IF_KEY}"
STRIP = (
    " (with df['NAME'].str.strip() in pandas, or write only the ids, with numpy.savetxt(FILE, ids, fmt='%d'))"
)
FLOAT_KEYS = (
    "; convert numbers such as 7.0 with astype('int64'). Floats have rounded integers above 2**53,"
    " so write these as integers at their source"
)
ROUNDED_KEYS = "; {0} rounds large integers. Use astype('int64') before the ids become {0}"


@dataclasses.dataclass(frozen=True)
class Survey:
    """The results of reading all keys once."""

    count: int
    text_bytes: int  # total size of all strings; 0 for integers


def show(key: bytes | int) -> str:
    return (
        json.dumps(key.decode("utf-8", "replace"), ensure_ascii=False)
        if isinstance(key, bytes)
        else str(key)
    )


def survey(keys: Keys, add: Callable[[int], None]) -> Survey:
    """Counts keys, and refuses them if two are equal. Needs 16 bytes of memory per key. The fingerprint of a
    string is its hash; an integer is its own fingerprint.
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
    """Refuses equal keys among the keys with these fingerprints. Different strings can have the same
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
    """Finds a key that is not an integer although nearly all other keys are: it would turn all keys into
    strings.

    Text that stands for a missing key, and a number with blanks around it, are also odd among numbers in
    other notations. In a column of text, such as country codes, NA is a valid key.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys, self.may_be_numbers = keys, keys.kind == "string" and not keys.asked
        self.integers = self.spellings = self.padded = self.others = self.position = 0
        self.missing: tuple[int, bytes] | None = None  # first key that is missing or has blanks around it
        self.odd: tuple[int, bytes] | None = None

    def add(self, batch: Strings) -> None:
        for i in range(len(batch)) if self.may_be_numbers else ():
            key = batch[i]
            if is_integer(key):
                self.integers += 1
            elif WRITTEN_NUMBER.fullmatch(key):  # a number in another notation, such as 7.0 or 007
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
            return f"if it is an integer, write it like 1234{hint}; {IF_KEY}"
        return f"if it is a mistake, write an integer such as 1234, or remove its row; {IF_KEY}"


def is_missing(key: bytes) -> bool:
    text = key.strip().decode("utf-8", "replace").upper()
    return text in MISSING_WORDS or bool(re.fullmatch("#[A-Z/0]+[!?]", text))  # error values of Excel


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
    """Returns the kind of keys with this dtype: uint64 for uint64, and int64 for other integers."""
    if dtype.kind not in "iu":
        raise Refused(
            f"{place}: keys are of dtype {dtype}; expected integers or strings"
            + ("" if dtype.kind != "f" else FLOAT_KEYS if dtype.itemsize > 4 else ROUNDED_KEYS.format(dtype))
        )
    return "uint64" if dtype.name == "uint64" else "int64"


def missing_notes(texts: list[str], place: str) -> tuple[str, ...]:
    """Returns a note about text that NumPy writes for a missing value."""
    for i, text in enumerate(texts):
        if text in ("nan", "None", "NaT", "<NA>"):
            return (
                f"{place}: key {i} is {shown(text)}, which astype(str) writes for a missing value; if a key is"
                f" missing, remove its row; {HIDE}",
            )
    return ()


def keys_of_array(array: Array, place: str) -> Keys:
    """Returns the keys in an array of integers or of fixed-length strings."""
    if array.ndim != 1:
        raise Refused(
            f"{place}: keys of shape {list(array.shape)}; expected a vector"
            + ("; convert a column with x.ravel()" if 1 in array.shape[1:] and array.ndim == 2 else "")
        )
    if array.dtype.kind == "U":
        try:
            texts = array.tolist()
        except (SystemError, ValueError) as e:  # The exception depends on the version of Python.
            raise Refused(f"{place}: its text is damaged; it has a character above U+10FFFF") from e
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
# Pattern of an integer that pandas wrote as a float because another value was missing, or that Excel shortened.
INTEGER_AS_FLOAT = r"-?[0-9]+(\.0|(\.[0-9]+)?[eE]\+?[0-9]+)"
WRITTEN_NUMBER = re.compile(b"-?[0-9]+|" + INTEGER_AS_FLOAT.encode())
USUAL_INTEGER = r"0|-?[1-9][0-9]{0,99}"  # an integer without leading zeros
USUAL = re.compile(USUAL_INTEGER.encode())
PIECE = re.compile(rb"[^\s,;\[\]()]+")  # an element of a line that is a list
FLOAT = re.compile(INTEGER_AS_FLOAT.encode())
HIDE = "--key-dtype string hides this note"
FLOAT_TEXTS = (
    ". To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or"
    " numpy.savetxt(FILE, ids, fmt='%d') for the ids alone"
)
# Floats have no odd integers above 2^53, and spreadsheets show six digits of long numbers.
LONG_TEXTS = (
    ". Floats round such long integers, so some ids are already wrong; write them as integers or text"
    " at their source"
)
CUT_TEXTS = (
    ". Programs shorten long numbers like this, and the missing digits are not in the file; write"
    " the ids again as text or as integers at their source"
)
FRACTION = r"-?[0-9]+\.[0-9]+"
FRACTIONS = f"because they are numbers with fractions, which are kept as written; {HIDE}"
TOO_WIDE = (
    "because neither int64 nor uint64 can hold all of the integers: some are negative and others above"
    f" 2^63 - 1, or one is outside both ranges; {HIDE}"
)


def are_integers(texts: list[bytes]) -> bool:
    """True if all texts are integers without leading zeros, of any size."""
    return all(map(USUAL.fullmatch, texts))


def fitting(kinds: tuple[str, ...], texts: list[bytes]) -> tuple[str, ...]:
    """Returns the dtypes in `kinds` that can hold all the texts. Returns no dtype unless all are integers
    without leading zeros, so that a text and its integer are the same key.
    """
    if not are_integers(texts):
        return ()
    numbers = [*map(int, texts)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    return tuple(kind for kind in kinds if LIMITS[kind][0] <= low and high <= LIMITS[kind][1])


def is_integer(text: bytes) -> bool:
    return bool(USUAL.fullmatch(text)) and (
        len(text) < 19 or bool(fitting(INTEGER_KINDS, [text]))  # A text of fewer than 19 characters always fits.
    )


def is_float(text: bytes) -> bool:
    return bool(FLOAT.fullmatch(text))


def lacks_digits(text: bytes) -> bool:
    """True if a float such as 4.00638E+12 lacks digits of a long integer. False for 1e5, and for 1.234000e+03,
    which NumPy writes.
    """
    mantissa, e, exponent = text.lower().replace(b",", b".").partition(b"e")
    digits = exponent.lstrip(b"+0")
    if len(digits) > 3:  # The exponent is beyond float64, and perhaps too long for int().
        return bool(e)
    return bool(e) and int(digits or b"0") >= 6 and len(mantissa.partition(b".")[2]) < int(digits)


def float_texts(text: bytes) -> str:
    """Returns a hint for an integer that is written as a float: how to write an integer, or why digits are lost."""
    if lacks_digits(text):
        return CUT_TEXTS
    value = float(text.replace(b",", b"."))
    return LONG_TEXTS if abs(value) >= 2**53 else FLOAT_TEXTS


def worst_float(texts: list[bytes]) -> bytes:
    """Returns the text that has probably lost the most: a text that lacks digits, or else the longest text."""
    return max(texts, key=lambda text: (lacks_digits(text), len(text)))


def float_note(example: bytes) -> str:
    """Returns the reason why keys that are written as floats, such as `example`, are text."""
    return f"because they are written as numbers such as {example.decode()}{float_texts(example)}; {HIDE}"


def as_kind(keys: Keys, kind: str | None) -> Keys:
    """Converts the keys to the dtype that --key-dtype asks for."""
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
    """Adds a note about the first key that loses its leading zeros."""
    if not found:
        found.append(
            f"{place} is {shown(key)}, which becomes {int(key)} without its leading zeros, so"
            f" {shown(key)} names no row; --key-dtype string keeps the zeros"
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
        raise Refused(f"{place}: {text!r} is not Unicode text; it has half a surrogate pair") from e


# ---------------------------------------------------------------- keys in a separate file
def keys_of_file(
    path: pathlib.Path, kind: str | None = None, rows: int | None = None, any_name: bool = False
) -> Keys:
    """Reads a file of keys. Text is converted to an integer dtype if all keys are integers. inputs.py reads
    files of columns.

    vocab.txt                    one key per line
    vocab.json, tokenizer.json   the row of each key
    FILE.npy                     integers or strings

    `kind` is the dtype that --key-dtype asks for, and `rows` the number of rows of the table. If `any_name`,
    a file with any other name has one key per line.
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
            f"{place}: it has columns; expected one key per line, .json or .npy. To read a column of keys, use tensord-import"
            " with --keys-from FILE --keys COLUMN, or convert a pandas column with"
            " numpy.save('keys.npy', numpy.array(df['COLUMN'].tolist()))"
        )
    if not any_name and not name.endswith((".txt", ".txt.gz")):
        raise Refused(
            f"{place}: expected a .txt, .json or .npy file of keys, or a .csv, .tsv, .jsonl,"
            " .parquet, .feather or .arrow file with a column of keys, which --keys names"
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
    """Refuses a list of keys on one line, and a list of numbers, one for each row, on fewer lines than rows.
    print writes an array in this way.
    """
    if rows is None or len(texts) >= rows:
        return
    pieces = [piece for text in texts for piece in PIECE.findall(text)]
    are_numbers = len(pieces) == rows and all(map(re.compile(rb"[-0-9.]+").fullmatch, pieces))
    if are_numbers or len(texts) == 1 < len(pieces):
        raise Refused(
            f"{place}: its keys are on {len(texts)} line{'s' * (len(texts) > 1)}, {len(pieces)} texts for"
            f" {rows} rows; expected one key per line. In Python, write a list with"
            " pathlib.Path('KEYS.txt').write_text('\\n'.join(map(str, LIST)))"
        )


def kind_of_texts(texts: list[bytes]) -> str | None:
    """Returns the dtype of keys that are integers, or None for other text."""
    return next(iter(fitting(INTEGER_KINDS, texts)), None) if texts else None


def wide_notes(texts: list[bytes], place: str) -> tuple[str, ...]:
    """Returns a note about integers that do not fit one dtype."""
    if not texts or not are_integers(texts) or kind_of_texts(texts):
        return ()
    return (wide_note(place),)


def wide_note(place: str) -> str:
    return f"{place}: the keys are text, {TOO_WIDE}"


def line_notes(texts: list[bytes], place: str) -> tuple[str, ...]:
    """Returns a note about lines that are probably not the intended keys."""
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
    """Returns the keys in the order of their rows. Each row must have one key. `count` is the number of rows
    in the table, or None if it is not known.
    """
    keys: dict[int, str] = {}
    for text, row in rows.items():
        where = f"{place}, key {json.dumps(text, ensure_ascii=False)}"
        if not isinstance(row, int) or isinstance(row, bool) or row < 0:
            raise Refused(
                f"{where}: its row is {shown(json.dumps(row))}; expected an integer from 0"
                + ('; write each key before its row, as in {"king": 0}' if isinstance(row, str) else "")
            )
        if row in keys:
            raise Refused(
                f"{where}: row {row} also has the key {json.dumps(keys[row], ensure_ascii=False)}"
            )
        keys[row] = text
    order = sorted(keys)
    if count is not None:
        refuse_beyond(keys, order, place, count)
    if order and order[-1] >= len(order):
        refuse_gaps(order, place)
    return [encode_text(keys[row], f"{place}, row {row}") for row in order]


def refuse_beyond(keys: dict[int, str], order: list[int], place: str, count: int) -> None:
    """Refuses keys for rows that do not exist, such as tokens that were added to a tokenizer but not to
    the table.
    """
    beyond = [row for row in order if row >= count]
    if not beyond:
        return
    if order[0] == 1 and beyond == [count]:
        raise Refused(
            f"{place}: the rows are numbered from 1 to {count}; expected numbers from 0. Subtract 1 from each"
            " number"
        )
    key = json.dumps(keys[beyond[0]], ensure_ascii=False)
    these = f"this key and {len(beyond) - 1} more" if len(beyond) > 1 else "this key"
    raise Refused(
        f"{place}: key {key} is for row {beyond[0]}, but the table has {count} rows, numbered from 0. If the"
        f" file belongs to the table, remove {these}, for rows from {count} on, from a copy of the file"
    )


def refuse_gaps(order: list[int], place: str) -> None:
    """Refuses rows without a key that precede a row with a key."""
    gaps = [
        (before + 1, after - 1) for before, after in zip([-1, *order], order) if after - before > 1
    ]
    missing = order[-1] + 1 - len(order)
    texts = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps[:MOST_SHOWN]]
    more = ", …" if len(gaps) > MOST_SHOWN else ""
    raise Refused(
        f"{place}: {missing} of the rows 0 to {order[-1]} have no key: {', '.join(texts)}{more}. Each"
        " row needs a key. If these rows are not used, add a key for each row to a copy of the file, such"
        f' as "unused {gaps[0][0]}": {gaps[0][0]}'
    )
