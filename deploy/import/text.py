"""Opens text files: UTF-8, with or without a byte order mark, compressed by gzip or not. A file in
another encoding is refused, and the error has the command that converts it.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import gzip
import io
import pathlib
import re
import shlex
import typing
import zlib

from table import Refused

HEAD_BYTES = 4096  # bytes from which the encoding is recognised
MARK = b"\xef\xbb\xbf"
FOREIGN = {b"PK\3\4": "a zip archive, such as .xlsx or .npz", b"PAR1": "a Parquet file"}
POINTER = b"version https://git-lfs.github.com/spec/"
GZIP = b"\x1f\x8b"
# Windows-1252 is Latin-1 with printable characters instead of some control characters, which text does not contain.
CONVERT = (
    "; to convert a file in Latin-1 or from Windows in Western Europe, use iconv -f CP1252 -t UTF-8 FILE"
    " >NEW; for a file from another region, use CP1251, GBK or CP932"
)
SHOWN = 40  # maximum number of characters of a value in an error
NUMBER = re.compile(
    r"[ \t]*[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|nan|inf|infinity)[ \t]*",
    re.ASCII | re.IGNORECASE,
)
# Patterns of numbers with thousands separators, by separator.
THOUSANDS = {
    ",": r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?",
    ".": r"[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]*)?",
}
# Words, in upper case, and marks that stand for a missing value.
MISSING_WORDS = ("", "NA", "N/A", "#N/A", "<NA>", "NAN", "NAT", "NULL", "NONE", "MISSING", "\\N")
MISSING_MARKS = ("-", "?", ".")
TOO_LARGE = "expected a number up to 1.8e308, the maximum of float64"


@dataclasses.dataclass(frozen=True)
class CsvFormat:
    """Options of the command line about CSV. None means that the file decides."""

    delimiter: str | None = None
    quote: bool | None = None
    header: bool | None = None
    decimal: str | None = None

    def is_given(self) -> bool:
        return self != CsvFormat()


class Stream(io.RawIOBase):
    """A stream of the bytes of a file. Reading damaged gzip data raises Refused."""

    def __init__(self, file: typing.IO[bytes], place: str) -> None:
        self.file, self.place = file, place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: typing.Any) -> int:
        try:
            data = self.file.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise Refused(f"{self.place}: its gzip data is damaged or truncated") from e
        except OSError as e:
            raise Refused(f"{self.place}: {e.strerror}") from e
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def refuse_pointer(path: pathlib.Path) -> None:
    """Refuses a Git LFS pointer, which stands for the file in a clone of a repository."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise Refused(
                f"{path}: it is a Git LFS pointer; run git lfs pull to download the file"
            )


def open_text(path: pathlib.Path) -> io.BufferedReader:
    """Opens a file, positioned after its byte order mark. Compression by gzip is recognised from the contents."""
    refuse_pointer(path)
    with path.open("rb") as file:
        is_gzip = file.read(len(GZIP)) == GZIP
    contents = typing.cast(typing.IO[bytes], gzip.open(path) if is_gzip else path.open("rb"))
    reader: io.BufferedReader = io.BufferedReader(Stream(contents, str(path)), 1 << 20)
    head = reader.peek(HEAD_BYTES)[:HEAD_BYTES]
    if foreign := FOREIGN.get(head[:4]):
        reader.close()
        raise Refused(f"{path}: it is {foreign}; expected text")
    if encoding := wide_encoding(head):
        reader.close()
        raise Refused(
            f"{path}: the text is in {encoding}; expected UTF-8. Convert it with"
            f" iconv -f {encoding} -t UTF-8 FILE >NEW"
        )
    if head.startswith(MARK):
        reader.read(len(MARK))
    return reader


def wide_encoding(head: bytes) -> str | None:
    """Returns the encoding of UTF-16 or UTF-32 text, or None for anything else.

    The text must have a byte order mark, or be printable, start with ASCII, and have line ends or look like JSON. A weaker
    test could take int16 or int32 data for characters.
    """
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    for encoding in ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE"):
        text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
        is_text = text[:1].isascii() and re.search(r'\A[{[]\s*["{[]|[\r\n]', text)
        if is_text and re.sub(r"[ \t\r\n]", "", text).isprintable() and "\ufffd" not in text:
            return encoding
    return None


def cut_notes(path: pathlib.Path) -> tuple[str, ...]:
    """Returns a note if the last line has no line break, because its last number might lack digits.

    gzip data is not checked here: its format detects truncation.
    """
    with path.open("rb") as file:
        is_gzip = file.read(len(GZIP)) == GZIP
        file.seek(0, io.SEEK_END)
        file.seek(max(0, file.tell() - 1))
        complete = is_gzip or file.read() in (b"\n", b"\r")
    return (
        () if complete else (f"{path}: the last line has no line break; the file might be truncated",)
    )


def read_text(path: pathlib.Path) -> bytes:
    with open_text(path) as reader:
        return reader.read()


def check_utf8(data: bytes, place: str, hint: str | None = None) -> bytes:
    """Returns the bytes if they are UTF-8 text. In the error, `hint` replaces the hint for text files."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        hint = CONVERT if hint is None else hint
        raise Refused(f"{place}: {shown(data)} is not UTF-8{hint}") from e
    return data


def is_number(text: bytes | str) -> bool:
    """True for a decimal number, NaN or an infinity. Python's float() would also accept 1_000 and digits
    of other scripts.
    """
    return bool(
        NUMBER.fullmatch(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    )


def spelling_hint(value: str, decimal: str | None) -> str:
    """Returns a hint for a number in an unsupported notation. `decimal` is the decimal separator of the
    file, or None if the format has only one.
    """
    if any(character.isdigit() and not character.isascii() for character in value):
        return "; numbers must use the digits 0 to 9"
    if re.fullmatch(r"[-+]?0[xX][0-9a-fA-F]+", value):
        return "; numbers must be decimal, not hexadecimal"
    if not re.fullmatch(r"[-+]?[0-9.,'\u2019_\s]*[0-9]", value):
        return ""
    if decimal == ",":
        hint = "; with --decimal , numbers have a decimal comma, and no separators between digits"
        is_grouped = re.fullmatch(THOUSANDS["."], value)
        if value.count(".") == 1:
            hint += (
                f"; if the point is a decimal point, write a comma: {READ_TEXT}"
                " df['NAME'] = df['NAME'].str.replace('.', ',')"
            )
        return hint + (f"; if it separates thousands, {without_thousands('.')}" if is_grouped else "")
    hint = "; numbers have a decimal point, and no separators between digits"
    if decimal and re.fullmatch(THOUSANDS[","], value):
        return f"{hint}; if the comma separates thousands, {without_thousands(',')}"
    if decimal and re.fullmatch("[^,]*,[^,]*", value):
        hint += "; --decimal , reads decimal commas; if these are two numbers, each needs a column"
    return hint


READ_TEXT = "pandas.read_csv with dtype=str, then"


def without_thousands(separator: str) -> str:
    """Returns advice on removing thousands separators from one column only."""
    return f"remove it: {READ_TEXT} df['NAME'] = df['NAME'].str.replace({separator!r}, '')"


def split_list(text: str) -> list[str]:
    """Splits a list of names in CSV form, where a name with a comma is quoted."""
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        return []


def join_list(names: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def option(name: str, value: str) -> str:
    """Returns a command-line option with its value, quoted for a shell."""
    return f"{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"


def shown(value: bytes | str) -> str:
    """Formats a value for an error: quoted, and shortened if it is long."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return repr(value[:SHOWN]) + ("…" if len(value) > SHOWN else "")
