"""Finds columns in a file of keys with one key per line, where the whole line would be the key."""

from __future__ import annotations

import dataclasses
import itertools
import re

from table import Refused
from text import shown

SAMPLE = 1000  # maximum number of lines to examine
SAMPLE_BYTES = 1 << 18  # maximum total size of the lines to examine
SHARE = 10  # minimum number of lines with columns for each line without columns
NUMBER = rb"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|inf))"
VECTORS = " word vectors can be imported directly, with their words as the keys;"


@dataclasses.dataclass(frozen=True)
class Separator:
    """A separator of columns, and how the importer reads a file with it."""

    text: bytes
    suffix: str = ""  # suffix of such a file; empty if the importer does not read it
    options: str = ""

    @property
    def pattern(self) -> bytes:
        return re.escape(self.text) + (b" ?" if self.suffix == ".csv" else b"")


TAB = Separator(b"\t", ".tsv")
SEPARATORS = (
    Separator(b" "),
    TAB,
    Separator(b",", ".csv"),
    Separator(b";", ".csv", " --delimiter ';'"),
    Separator(b"|", ".csv", " --delimiter '|'"),
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The matches of a pattern that nearly all lines match."""

    place: str  # place and text of the first line that matches
    header: bool  # True if the first line does not match
    firsts: list[bytes]  # first column of each line that matches
    seconds: list[bytes]  # second column of each line that matches, if the pattern has one

    def are_distinct(self) -> bool:
        """True if nearly all texts of the first column are different, as keys and row numbers are."""
        return len(set(self.firsts)) * (SHARE + 1) >= len(self.firsts) * SHARE

    def columns_of_keys(self, width: int) -> tuple[int, ...]:
        """Returns the numbers of the columns, among the first two, that might have keys. A first column of 0, 1, 2, … is an
        index, as pandas writes it. `width` is the number of numbers at the end of each line; several can be a vector.
        """
        integers = all(map(re.compile(rb"-?[0-9]+").fullmatch, self.seconds))
        if width > 1 and not integers:
            return (0,)
        if self.firsts == [b"%d" % i for i in range(len(self.firsts))]:
            return (1,)
        return (0, 1) if width < 2 and len(set(self.seconds)) == len(self.seconds) else (0,)


def column_notes(texts: list[bytes], place: str, hide: str) -> tuple[str, ...]:
    """Returns a note about lines that start or end with a number, or that have tabs or a comma at the end. Refuses
    lines of a word and several numbers. `hide` is text about how to hide the note.
    """
    lines = sample(texts)
    if len(lines) < 2:
        return ()
    have_tabs = all(TAB.text in line for line in lines)
    for separator in (TAB,) if have_tabs else SEPARATORS:
        if note := note_of(separator, lines, place):
            return (f"{note}; {hide}",)
    if found := find(rb"(.+)\t.*", lines, place):
        return (f"{found.place} is one key, with its tab; {way_out(TAB, found, (0,))}; {hide}",)
    if found := find(rb"(.+),", lines, place):
        return (
            f"{found.place} is one key, with its comma; to write a list as keys in Python, use"
            f" pathlib.Path('KEYS.txt').write_text('\\n'.join(LIST)); {hide}",
        )
    return ()


def sample(texts: list[bytes]) -> list[bytes]:
    ends = itertools.accumulate(map(len, texts[:SAMPLE]))
    return [text for text, end in zip(texts, ends) if end - len(text) < SAMPLE_BYTES]


def note_of(separator: Separator, lines: list[bytes], place: str) -> str | None:
    between = separator.pattern
    word = rb'("[^"]*"|[^%b]+)' % re.escape(separator.text)
    width = trailing_numbers(lines[1], separator)
    found = find(
        rb"%b%b(%b)(?:%b%b){%d}" % (word, between, NUMBER, between, NUMBER, max(width - 1, 0)),
        lines,
        place,
    )
    if width and found and found.are_distinct():
        way = way_out(separator, found, found.columns_of_keys(width))
        if width == 1:
            return f"{found.place} is one key; {way}"
        are_numbers = all(re.fullmatch(NUMBER, first) for first in found.firsts)
        columns = f"{width + 1} numbers" if are_numbers else f"a word and {width} numbers"
        raise Refused(
            f"{found.place} would be one key, but each line has {columns};"
            f"{'' if separator.suffix or are_numbers else VECTORS} {way}; if the whole"
            " lines are the keys, use --key-dtype string"
        )
    found = find(rb"([0-9]+)%b(.+)" % between, lines, place)
    if found and found.are_distinct():
        return f"{found.place} is one key; {way_out(separator, found, found.columns_of_keys(0))}"
    return None


def trailing_numbers(line: bytes, separator: Separator) -> int:
    """Returns the number of columns at the end of a line, after the first column, that are numbers."""
    count = 0
    for piece in reversed(line.split(separator.text)[1:]):
        if not re.fullmatch(NUMBER, piece.removeprefix(b" ")):
            break
        count += 1
    return count


def find(pattern: bytes, lines: list[bytes], place: str) -> Found | None:
    """Returns the matches if nearly all lines match the pattern, or None. The first line can be a header."""
    matches = [re.fullmatch(pattern, line) for line in lines]
    header = int(matches[0] is None)
    firsts = [match[1] for match in matches if match]
    seconds = [match[2] for match in matches if match and match.re.groups > 1]
    if len(firsts) < 2 or len(firsts) < SHARE * (len(lines) - header - len(firsts)):
        return None
    return Found(f"{place}, line {header + 1}: {shown(lines[header])}", bool(header), firsts, seconds)


def way_out(separator: Separator, found: Found, columns: tuple[int, ...]) -> str:
    """Returns advice on reading the keys from one of the columns."""
    if not separator.suffix:
        return ", and ".join(cut(found, column) for column in columns)
    keys = "--keys NAME" if found.header else ", or ".join(f"--keys {i}" for i in columns)
    options = f"{separator.options}{'' if found.header else ' --no-header'} {keys}"
    return (
        f"to read the keys from a column, rename the file to {separator.suffix} and import the"
        f" table with tensord-import and its options --keys-from FILE{separator.suffix}{options}"
    )


def cut(found: Found, column: int) -> str:
    command = f"cut -d' ' -f{'2-' if column else '1'}"
    lines = f"tail -n +2 FILE | {command}" if found.header else f"{command} FILE"
    return f"{lines} >KEYS.txt keeps only the {'text after the first word' if column else 'first word'}"
