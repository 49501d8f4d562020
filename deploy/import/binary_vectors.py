"""Recognises word vectors in binary formats, whatever the name of the file. These formats are not imported."""

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
    """Refuses a binary file of gensim, word2vec or fastText. The error has a command that converts it to text."""
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
        f"{path}: it is {what}; expected word vectors as text. Convert it with"
        f" {call}.save_word2vec_format('FILE.vec')"
    )


def head_of(path: pathlib.Path) -> bytes:
    """Returns the first bytes of a file, decompressed if gzip compressed it. Returns no bytes if the data is damaged."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(GZIP):
        return head
    try:
        with typing.cast(typing.IO[bytes], gzip.open(path)) as file:
            return file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):  # The reader of the format reports the damage.
        return b""


def is_word2vec(head: bytes) -> bool:
    """True if the file starts with a line of two numbers, followed by a word and binary numbers.

    As text, each number takes at least two bytes, including a space.
    """
    found = re.match(rb"[0-9]{1,18} ([0-9]{1,9})\n[^\n ]+ ", head)
    return found is not None and not is_text(head[found.end() :][: 2 * int(found[1])])


def is_text(part: bytes) -> bool:
    """True for UTF-8 text without control characters. The last character can be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(part)
    except UnicodeDecodeError:
        return False
    return not CONTROL.search(part)
