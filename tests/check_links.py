#!/usr/bin/env python3
"""check_links.py - do the links of the documents lead somewhere?

    tests/check_links.py [ROOT]

A link to a file or folder of the repository must exist, and a #place must be a heading of that document, in the form that
GitHub gives it. Prints DOCUMENT:LINE and the link for each that leads nowhere, and exits with 1; else prints one line that begins
with "ok".
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
    """the text with its blocks of code empty, so that lines keep their numbers"""
    with open(path, encoding="utf-8") as f:
        return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), f.read())


def places(path):
    """the anchors of the headings"""
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
            print(f"{os.path.relpath(path, ROOT)}:{text.count(chr(10), 0, link.start()) + 1}: {target} leads nowhere")
if wrong or n_links == 0:
    sys.exit(1)
print(f"ok: {n_links} links in the documents lead to files and headings")
