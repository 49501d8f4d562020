"""Finds columns in a file that has a key a line: the key would be the whole line."""

from __future__ import annotations

import dataclasses
import itertools
import re

from table import Refused
from text import shown

SAMPLE = 1000  # lines that are looked at
SAMPLE_BYTES = 1 << 18  # fewer lines are looked at if these have more bytes
SHARE = 10  # for each line without columns there are at least as many lines with columns
NUMBER = rb"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|inf))"
VECTORS = " word vectors are imported as they are, and their words are the keys;"


@dataclasses.dataclass(frozen=True)
class Separator:
    """What is between the columns, and how the importer reads a file of such columns."""

    text: bytes
    suffix: str = ""  # none: it does not
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
    """Nearly all lines match a pattern."""

    place: str  # of the first line that matches, and its text
    header: bool  # the first line does not match
    firsts: list[bytes]  # the first column of each
    seconds: list[bytes]  # the second one, if the pattern has it

    def are_distinct(self) -> bool:
        """True unless the first column has equal texts, which are neither keys nor row numbers."""
        return len(set(self.firsts)) * (SHARE + 1) >= len(self.firsts) * SHARE

    def columns_of_keys(self, width: int) -> tuple[int, ...]:
        """The numbers of the columns, among the first two, that may have keys. A first column of 0, 1, 2, … is an index,
        as pandas writes it. `width`: how many numbers end each line; several may be a vector.
        """
        integers = all(map(re.compile(rb"-?[0-9]+").fullmatch, self.seconds))
        if width > 1 and not integers:
            return (0,)
        if self.firsts == [b"%d" % i for i in range(len(self.firsts))]:
            return (1,)
        return (0, 1) if width < 2 and len(set(self.seconds)) == len(self.seconds) else (0,)


def column_notes(texts: list[bytes], place: str, hide: str) -> tuple[str, ...]:
    """Notes lines with a number first or last, or with tabs or a comma at the end. Refuses a word and
    several numbers in each line. `hide`: what hides the note.
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
            f"{found.place} is one key, with its comma; pathlib.Path('KEYS.txt').write_text("
            f"'\\n'.join(LIST)) of Python writes the texts of a list as keys; {hide}",
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
    """How many columns after the first, at the end of the line, are numbers."""
    count = 0
    for piece in reversed(line.split(separator.text)[1:]):
        if not re.fullmatch(NUMBER, piece.removeprefix(b" ")):
            break
        count += 1
    return count


def find(pattern: bytes, lines: list[bytes], place: str) -> Found | None:
    """The lines, if nearly all of them match; the first one may be a header."""
    matches = [re.fullmatch(pattern, line) for line in lines]
    header = int(matches[0] is None)
    firsts = [match[1] for match in matches if match]
    seconds = [match[2] for match in matches if match and match.re.groups > 1]
    if len(firsts) < 2 or len(firsts) < SHARE * (len(lines) - header - len(firsts)):
        return None
    return Found(f"{place}, line {header + 1}: {shown(lines[header])}", bool(header), firsts, seconds)


def way_out(separator: Separator, found: Found, columns: tuple[int, ...]) -> str:
    """How the keys are taken from one of the columns."""
    if not separator.suffix:
        return ", and ".join(cut(found, column) for column in columns)
    keys = "--keys NAME" if found.header else ", or ".join(f"--keys {i}" for i in columns)
    options = f"{separator.options}{'' if found.header else ' --no-header'} {keys}"
    return (
        f"to take the keys from a column, rename the file to {separator.suffix} and import the"
        f" table with tensord-import and its options --keys-from FILE{separator.suffix}{options}"
    )


def cut(found: Found, column: int) -> str:
    command = f"cut -d' ' -f{'2-' if column else '1'}"
    lines = f"tail -n +2 FILE | {command}" if found.header else f"{command} FILE"
    return f"{lines} >KEYS.txt takes the {'text after the first word' if column else 'first word'} alone"
