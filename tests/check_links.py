#!/usr/bin/env python3
"""check_links.py - checks that the links in the documents have targets.

    tests/check_links.py [ROOT]

The target of a link must be an existing file or folder of the repository, and #anchor must be a heading of the document in
GitHub's form. Prints DOCUMENT:LINE and the target of each broken link, and exits with status 1. If no link is broken, prints
a line that starts with "ok".
"""
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)$", re.M)


def documents():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".md"))


def read(path):
    """Returns the text with empty lines in place of code blocks, so line numbers do not change."""
    with open(path, encoding="utf-8") as f:
        return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), f.read())


def places(path):
    """Returns the anchors of the headings."""
    found = {}
    for heading in re.findall(r"^#+ (.+)$", read(path), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{i}" if i else anchor for anchor, count in found.items() for i in range(count + 1)}


n_links, wrong = 0, 0
for path in documents():
    text = read(path)
    for link in LINK.finditer(text):
        target = link[1] or link[2]
        if re.match(r"\w+:", target):
            continue
        n_links += 1
        file, _, place = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(file) or (place and (not file.endswith(".md") or place not in places(file))):
            wrong += 1
            print(f"{os.path.relpath(path, ROOT)}:{text.count(chr(10), 0, link.start()) + 1}: {target} does not exist")
if wrong or n_links == 0:
    sys.exit(1)
print(f"ok: {n_links} links in the documents have existing targets")
