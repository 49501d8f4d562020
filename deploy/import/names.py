"""Checks the names of tables, tensors, aliases and versions by the rules of tensord (api/text/unicode_name.h)."""

import re
import unicodedata

from table import Refused

VERSION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")  # does not start with a dot, as hidden folders do
NAME_BYTES = 128
KEYS_SUFFIXES = (".keys", ".keys.bytes", ".keys.offsets")
IN_FILE_NAMES = "._-"
IN_TENSOR_NAMES = IN_FILE_NAMES + ":"
INSIDE_WORDS = "\u00b7\u05f3\u05f4\u0f0b\u30fb"
INVISIBLE = re.compile(  # letters and marks with the property Default_Ignorable_Code_Point
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def fault_of(name: str, punctuation: str) -> str | None:
    """Returns the reason why a name is refused, or None if it is valid."""
    if not name or name.startswith("."):
        return "it is empty or starts with a dot"
    for before, c in zip(punctuation[0] + name, name, strict=False):
        kind = unicodedata.category(c)[0]
        if c not in punctuation + INSIDE_WORDS and (kind not in "LMN" or INVISIBLE.match(c)):
            return (
                f"{c!r} (U+{ord(c):04X}) is not allowed; expected letters, digits and combining marks"
                f" of any script and {' '.join(punctuation)}"
            )
        if kind == "M" and before in punctuation + INSIDE_WORDS:
            return f"the combining mark U+{ord(c):04X} does not follow a letter or a digit"
    nfc = unicodedata.normalize("NFC", name)
    if nfc != name:
        return f"it is not in Unicode normalisation form C (NFC); expected {nfc!r}"
    return None


def check_name(file: str, tensor: str, version: str | None, place: str) -> None:
    """Refuses a tensor of the input `place` if tensord would not accept its name."""
    full = f"{file}:{tensor}" + (f"@{version}" if version else "")
    fault = fault_of(tensor, IN_TENSOR_NAMES)
    if fault:
        raise Refused(f"{place}: tensor {tensor!r}: {fault}. --tensor FROM=TO renames it")
    if tensor.endswith(KEYS_SUFFIXES):
        raise Refused(
            f"{place}: tensor {tensor!r}: names that end in {', '.join(KEYS_SUFFIXES)} are reserved"
            " for the keys of a table; --tensor FROM=TO renames it"
        )
    size = len(full.encode())
    if size > NAME_BYTES - len(".offset"):
        raise Refused(
            f"{place}: tensor {full!r}: the name has {size} bytes; expected at most"
            f" {NAME_BYTES - len('.offset')}"
        )


def check_alias(alias: str) -> None:
    fault = fault_of(alias, IN_TENSOR_NAMES)
    if not fault and len(alias.encode()) > NAME_BYTES:
        fault = f"it has {len(alias.encode())} bytes; expected at most {NAME_BYTES}"
    if not fault and alias.endswith(".keys"):
        fault = "names that end in .keys mean keys"
    if fault:
        raise Refused(f"alias {alias!r}: {fault}")
