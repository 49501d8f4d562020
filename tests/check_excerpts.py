#!/usr/bin/env python3
"""check_excerpts.py - checks that the code excerpts in the documents match the code.

    tests/check_excerpts.py [ROOT]

An excerpt is a block of C whose first line is a comment that names a file: /* kernels/shape.c */. A line "..." stands for
omitted lines. Each run of lines between such lines must appear unchanged in the file. For each run that does not, prints
DOCUMENT:LINE and the first line that differs, and exits with status 1. If all match, prints a line that starts with "ok".
"""
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BLOCK = re.compile(r"^```c\n/\* ([\w/.]+) \*/\n(.*?)^```$", re.M | re.S)


def documents():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".md"))


def first_difference(run, code):
    """Returns the first line of the run that does not follow the previous lines in the code, or None."""
    lines = run.splitlines()
    for end in range(1, len(lines) + 1):
        if "\n" + "\n".join(lines[:end]) + "\n" not in "\n" + code:
            return lines[end - 1]
    return None


n_excerpts, wrong = 0, 0
for path in documents():
    with open(path) as f:
        text = f.read()
    for block in BLOCK.finditer(text):
        n_excerpts += 1
        source = os.path.join(ROOT, block[1])
        code = open(source).read() if os.path.isfile(source) else ""
        for run in re.split(r"^\.\.\.\n", block[2], flags=re.M):
            line = first_difference(run, code)
            if line is not None:
                wrong += 1
                place = text.count("\n", 0, block.start()) + 1
                print(f"{os.path.relpath(path, ROOT)}:{place}: {block[1]} has no such line: {line}")
if n_excerpts == 0:
    print("no document contains an excerpt")
if wrong or n_excerpts == 0:
    sys.exit(1)
print(f"ok: {n_excerpts} excerpts in the documents match the code")
