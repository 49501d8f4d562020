"""Recognises word vectors in binary formats, which are not imported, whatever the name of the file is."""

import codecs
import gzip
import pathlib
import re
import typing
import zlib

from table import Refused
from text import GZIP

HEAD_BYTES = 4096
FASTTEXT_MAGIC = b"\xba\x16\x4f\x2f"
GENSIM = re.compile(rb"gensim\.models\.\w+[^\w]+(\w*)")
CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
KEYED_VECTORS = "gensim.models.KeyedVectors"


def refuse_binary_vectors(path: pathlib.Path) -> None:
    """Refuses a file of gensim, word2vec or fastText with the command that writes it as text."""
    head = head_of(path)
    if head.startswith(FASTTEXT_MAGIC):
        what = "a model of fastText"
        call = "gensim.models.fasttext.load_facebook_vectors(FILE)"
    elif is_word2vec(head):
        what = "word vectors in the binary format of word2vec"
        call = f"{KEYED_VECTORS}.load_word2vec_format(FILE, binary=True)"
    elif head.startswith(b"\x80") and (found := GENSIM.search(head[:100])):
        what = "a pickle of gensim"
        call = (
            f"{KEYED_VECTORS}.load(FILE)"
            if found[1].endswith(b"KeyedVectors")
            else "gensim.models.Word2Vec.load(FILE).wv"
        )
    else:
        return
    raise Refused(
        f"{path}: it is {what}; expected word vectors as text:"
        f" {call}.save_word2vec_format('FILE.vec') writes them"
    )


def head_of(path: pathlib.Path) -> bytes:
    """The first bytes of a file, which gzip may have compressed; none if its data is damaged."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(GZIP):
        return head
    try:
        with typing.cast(typing.IO[bytes], gzip.open(path)) as file:
            return file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):  # the reader of the format says what is damaged
        return b""


def is_word2vec(head: bytes) -> bool:
    """True for a line of two numbers, then a word and numbers that are not text. As text, a number
    and its space have two bytes or more.
    """
    found = re.match(rb"[0-9]{1,18} ([0-9]{1,9})\n[^\n ]+ ", head)
    return found is not None and not is_text(head[found.end() :][: 2 * int(found[1])])


def is_text(part: bytes) -> bool:
    """True for UTF-8 without control characters, whose last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(part)
    except UnicodeDecodeError:
        return False
    return not CONTROL.search(part)
