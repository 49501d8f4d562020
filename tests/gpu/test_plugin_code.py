#!/usr/bin/env python3
"""The code in a CUDA plugin: test_plugin_code.py PLUGIN 80,90 75,120 expects machine code for the first
compute capabilities and PTX for the second, and nothing else.

Reads the fat binaries that nvcc embeds (the section .nv_fatbin): a header of 16 bytes, then entries, each with its kind,
1 for PTX and 2 for machine code, the sizes of its header and of what follows, and its compute capability. NVIDIA documents
none of it; cuobjdump --list-elf --list-ptx prints the same, and is not in every toolkit."""
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)


def entries(data):
    """(kind, capability) of each entry of each fat binary."""
    at = data.find(MAGIC)
    while at >= 0:
        _, header, size = struct.unpack_from("<HHQ", data, at + 4)
        entry, end = at + header, at + header + size
        if header != 16 or end > len(data):
            at = data.find(MAGIC, at + 4)
            continue
        while entry < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, entry)
            yield kind, struct.unpack_from("<I", data, entry + 28)[0]
            entry += entry_header + entry_size
        at = data.find(MAGIC, end)


def main():
    path, code, ptx = sys.argv[1:]
    with open(path, "rb") as file:
        found = set(entries(file.read()))
    expected = {(2, int(c)) for c in code.split(",")} | {(1, int(c)) for c in ptx.split(",")}
    names = {1: "PTX", 2: "machine code"}
    for kind, capability in sorted(found | expected):
        state = "" if found >= {(kind, capability)} <= expected else \
            "  MISSING" if (kind, capability) in expected else "  not expected"
        print(f"{names.get(kind, kind)} of {capability}{state}")
    sys.exit(0 if found == expected else 1)


main()
