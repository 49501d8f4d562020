"""Reads word vectors as text. Each line has a word and its numbers, separated by spaces, as in the files of
GloVe. word2vec and fastText also write a first line with the number of words and the number of dimensions.
"""

import itertools
import math
import pathlib
import re
import warnings
from collections.abc import Iterator

import numpy

from keys import INTEGER_KINDS, are_integers, as_kind, fitting, wide_note
from table import BATCH_BYTES, DTYPES, Array, Keys, Refused, Strings, Table, strings_of
from text import TOO_LARGE, check_utf8, cut_notes, is_number, open_text, option, shown, spelling_hint

NAME = "vectors"  # name of the only tensor
LINE_BYTES = 16 << 20


def read(path: pathlib.Path) -> Table:
    file = WordVectors(path)
    return Table(
        NAME,
        DTYPES["float64"],
        (file.rows, file.width),
        file.numbers,
        file.place,
        as_kind(
            Keys("string", file.words, file.place, notes=file.key_notes()),
            next(iter(file.kinds), None),
        ),
        cut_notes(path),
    )


class WordVectors:
    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.place = path, str(path)
        self.skipped = 0  # number of lines before the first word
        start = [lines[0] for _, lines in zip(range(2), self.lines(1))]
        if not start:
            raise Refused(f"{self.place}: it is empty; expected lines of a word and its numbers")
        announced = header(start[0], start[1] if len(start) > 1 else None)
        self.skipped = 1 if announced else 0
        self.width = announced[1] if announced else trailing_numbers(start[0])
        self.hint = format_hint(start[0], start[-1])
        if not announced:
            self.check_header(start[0], start[-1])
        if not self.width:
            raise Refused(
                f"{self.place}, line 1: {shown(start[0])} does not end with numbers; expected a"
                " word and its numbers, separated by spaces"
                + (self.hint or number_hint(start[0]))
            )
        if not announced:
            self.check_first(start[0], start[-1])
        self.check_words(start[-1])
        self.rows, self.are_integers = 0, True  # number of words; True if all words are integers
        self.quoted: tuple[str, ...] = ()  # a note about quoted words
        self.kinds = INTEGER_KINDS  # the dtypes that hold all words, if all are integers
        for lines in self.lines():
            self.quoted = self.quoted or self.quote_notes(lines)
            self.rows += len(lines)
            if self.are_integers:
                words = [line.rsplit(b" ", self.width)[0] for line in lines]
                self.kinds = fitting(self.kinds, words)
                self.are_integers = bool(self.kinds) or are_integers(words)
        if announced and announced[0] != self.rows:
            raise Refused(
                f"{self.place}: the first line announces {announced[0]} words, but there are"
                f" {self.rows}"
            )

    def key_notes(self) -> tuple[str, ...]:
        is_wide = self.are_integers and not self.kinds
        wide = (wide_note(self.place),) if is_wide else ()
        return wide + self.quoted

    def quote_notes(self, lines: list[bytes]) -> tuple[str, ...]:
        """Returns a note about the first word that seems to be quoted, as pandas quotes words."""
        for i, line in enumerate(lines):
            word = line.rsplit(b" ", self.width)[0] if line.startswith(b'"') else b""
            if re.fullmatch(rb'"(?:[^"]|"")+"', word):
                way_out = (
                    "; if pandas wrote it, rename the file to .csv and use --delimiter ' '"
                    " --no-header --keys 0, which removes the quotes"
                )
                return (
                    f"{self.place}, line {self.skipped + self.rows + i + 1}: {shown(word)} is read with"
                    f" its quotes{'' if self.skipped else way_out}",
                )
        return ()

    def check_header(self, first: bytes, second: bytes) -> None:
        """Refuses a header line, which pandas writes, and a first line without a word."""
        name = header_name(first, second, " ")
        if name is not None:
            word = "; if it is a word, write its numbers as 0.0 1.0" if self.width else ""
            raise Refused(
                f"{self.place}, line 1: {shown(first)} is a header, as pandas writes it; to_csv with"
                " header=False omits it. To import the file with its header, rename it to"
                f" .csv and use --delimiter ' ' {option('--keys', name)}{word}"
            )
        if self.width and first.startswith(b" ") and first.count(b" ") == self.width:
            raise Refused(
                f"{self.place}, line 1: {shown(first)} starts with a space; expected a word before its"
                f" {self.width} numbers"
            )

    def check_first(self, first: bytes, second: bytes) -> None:
        """Refuses a first line with a damaged number: it has as many pieces as the second line, but fewer
        numbers.
        """
        pieces = first.split(b" ")
        if trailing_numbers(second) == second.count(b" ") == len(pieces) - 1 > self.width:
            self.refuse_number([first[len(pieces[0]) + 1 :]], 1)

    def check_words(self, line: bytes) -> None:
        """Refuses a matrix, because its first column would be taken for words."""
        words = next(self.numbered(), (0, [], []))[2]
        if all(map(is_number, words)) and not all(word.isdigit() for word in words):
            raise Refused(
                f"{self.place}: the lines have only numbers, such as {shown(line)}; expected a word and"
                " its numbers. Import a matrix from .npy, or from .csv with --delimiter ' ' and"
                " --no-header, and with --keys 0 if each line starts with an id"
            )

    def lines(self, size: int = BATCH_BYTES) -> Iterator[list[bytes]]:
        """Yields batches of lines of at least `size` bytes, without the blanks at the end of each line."""
        batch: list[bytes] = []
        held = 0
        with open_text(self.path) as file:
            for number in itertools.count(1):
                line = file.readline(LINE_BYTES)
                if len(line) == LINE_BYTES:
                    raise Refused(f"{self.place}, line {number}: it has {LINE_BYTES} bytes or more")
                if not line:
                    break
                if number > self.skipped:
                    batch.append(line.rstrip(b" \r\n"))
                    held += len(line)
                if held >= size:
                    yield batch
                    batch, held = [], 0
        if batch:
            yield batch

    def numbered(self) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
        """Yields the number of the first line of each batch, its lines, and their words."""
        number = self.skipped + 1
        for lines in self.lines():
            yield number, lines, [self.word(line, number + i) for i, line in enumerate(lines)]
            number += len(lines)

    def word(self, line: bytes, number: int) -> bytes:
        """Returns the word of a line, which precedes the last `width` numbers and can contain spaces."""
        word, *numbers = line.rsplit(b" ", self.width)
        place = f"{self.place}, line {number}"
        if len(numbers) < self.width:
            says = ", which the first line announces" if self.skipped else ""
            raise Refused(
                f"{place}: {shown(line)} has fewer than {self.width} numbers after a word{says}"
            )
        if not word:
            raise Refused(
                f"{place}: {shown(line)} starts with a space; expected a word before its {self.width}"
                " numbers"
            )
        if b" " in word or b"\t" in word:
            first, *_, last = re.split(rb"[ \t]", word)
            if not first or not last or is_number(last.rstrip(b",")):
                if not last and first:
                    raise Refused(
                        f"{place}: {shown(line)} has several spaces before a number; expected one."
                        " Remove the others with tr -s ' ' <FILE >NEW"
                    )
                fault = (
                    "starts with a space"
                    if not first
                    else "ends with another number"
                )
                raise Refused(
                    f"{place}: {shown(word)}, before the last {self.width} numbers, {fault}; expected"
                    f" {self.width} numbers in each line, one space before each"
                    + (self.hint if b"," in line else "")
                )
        return word

    def words(self) -> Iterator[Strings]:
        for number, _, words in self.numbered():
            for i, word in enumerate(words):
                check_utf8(word, f"{self.place}, line {number + i}")
            yield strings_of(words)

    def numbers(self) -> Iterator[Array]:
        for number, lines, words in self.numbered():
            tails = [line[len(word) + 1 :] for line, word in zip(lines, words)]
            values = parse(b" ".join(tails))
            if values is None or len(values) != len(lines) * self.width:
                self.refuse_number(tails, number)
                raise Refused(f"{self.place}, line {number} or a later line has an invalid number")
            if numpy.isinf(values).any():
                self.check_infinities(tails, number)
            yield values.reshape(len(lines), self.width)

    def refuse_number(self, tails: list[bytes], number: int) -> None:
        for place, piece in self.pieces(tails, number):
            if not is_number(piece):
                raise Refused(f"{place} is {shown(piece)}; expected a number{number_hint(piece)}")

    def check_infinities(self, tails: list[bytes], number: int) -> None:
        """Refuses finite numbers that are infinite as float64. The text "inf" is accepted as infinity."""
        for place, piece in self.pieces(tails, number):
            if math.isinf(float(piece)) and any(digit in piece for digit in b"0123456789"):
                raise Refused(f"{place} is {shown(piece)}; {TOO_LARGE}")

    def pieces(self, tails: list[bytes], number: int) -> Iterator[tuple[str, bytes]]:
        """Yields the place and the text of each number."""
        for i, tail in enumerate(tails):
            for at, piece in enumerate(tail.split(b" ")):
                yield f"{self.place}, line {number + i}: element {at}", piece


def parse(text: bytes) -> Array | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return numpy.fromstring(text, "<f8", sep=" ")
        except (ValueError, DeprecationWarning):  # The exception depends on the version of NumPy.
            return None


def trailing_numbers(line: bytes) -> int:
    """Returns the number of numbers at the end of a line, after the word."""
    pieces = line.split(b" ")
    count = 0
    while count < len(pieces) - 1 and is_number(pieces[-1 - count]):
        count += 1
    return count


def number_hint(line: bytes) -> str:
    """Returns a hint for the last piece of a line that is not a number."""
    pieces = [piece for piece in line.decode("utf-8", "replace").split(" ") if not is_number(piece)]
    return spelling_hint(pieces[-1], None) if pieces else ""


def format_hint(first: bytes, second: bytes) -> str:
    """Returns advice on importing a file with separators other than spaces, or a JSON Lines file, judged
    by its first lines.
    """
    if first.startswith(b"{"):
        return "; rename a file of JSON Lines to .jsonl"
    if b"\t" in first:
        what, suffix, separator = "tabs", ".tsv", "\t"
    elif b";" in first and second.count(b";") == first.count(b";") and b" " not in first:
        what, suffix, separator = "semicolons", ".csv", ";"
    elif has_commas(first) or has_commas(second):
        what, suffix, separator = "commas", ".csv", ","
    else:
        return ""
    name = header_name(first, second, separator)
    options = "--no-header --keys 0" if name is None else option("--keys", name)
    options += " --delimiter ';'" if separator == ";" else ""
    return f"; rename a file with {what} to {suffix} and import it with {options}"


def header_name(first: bytes, second: bytes, separator: str) -> str | None:
    """Returns the name of the first column if the first line has names and the second line has a word and
    numbers; otherwise None. pandas names columns without names 0, 1, 2, ...
    """
    names, values = (
        [piece.strip() for piece in line.decode("utf-8", "replace").split(separator)]
        for line in (first, second)
    )
    is_row = all(map(is_number, values[1:])) and (
        not is_number(values[0]) or values[0].isdigit()  # The first column of a matrix would have fractions.
    )
    if len(names) != len(values) or len(names) < 2 or not is_row:
        return None
    are_counted = names[1:] == [str(i) for i in range(len(names) - 1)] != values[1:]
    are_text = not any(is_number(name) or re.match("[-+.]?[0-9]", name) for name in names[1:])
    return names[0] if are_text or (are_counted and len(names) > 2) else None


def has_commas(line: bytes) -> bool:
    """True for a word and numbers, separated by commas."""
    _, *numbers = line.split(b",")
    return bool(numbers) and all(map(is_number, numbers))


def header(first: bytes, second: bytes | None) -> tuple[int, int] | None:
    """Returns the number of words and the number of dimensions if the first line has only both; otherwise None."""
    pieces = first.split(b" ")
    if len(pieces) != 2 or not all(piece.isdigit() and len(piece) < 19 for piece in pieces):
        return None
    words, dimensions = map(int, pieces)
    numbers = dimensions if second is None else second.count(b" ")
    is_header = numbers >= dimensions or numbers > 1  # A word and one number are not a header.
    return (words, dimensions) if dimensions and is_header else None
