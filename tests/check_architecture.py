#!/usr/bin/env python3
"""Checks that docs/architecture.md matches the code.

  tests/check_architecture.py [ROOT]

The document's diagram has a box for each module (a folder or one file), and arrows from each module to the modules it uses.
The script checks that
  - every #include between two modules follows arrows downwards, in one or more steps;
  - every arrow has at least one #include, and there is no cycle;
  - every source file belongs to a box, and every box has files;
  - every source file is named in the README of its folder or of a folder above;
  - every function in docs/request.md is defined in the file next to it.
Prints a line for each fault and exits with status 1. Without faults, prints a line that starts with "ok".
"""
import pathlib
import re
import subprocess
import sys

SOURCES = {".c", ".h", ".inc", ".cc", ".cu", ".cuh", ".def"}
FOLDERS = ("kernels", "api", "gpu", "server")
ANY_OP = "kernels/OP"  # the box of all folders in kernels/ without their own box


def sources(root):
    """Returns the source files of the tree, including uncommitted files."""
    command = ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", *FOLDERS]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted(f for f in files if pathlib.PurePath(f).suffix in SOURCES
                  and not f.startswith("api/clients/") and (root / f).is_file())


def read_diagram(text):
    """Returns the boxes by path, and the arrows between them, from the Mermaid block."""
    block = re.search(r"```mermaid\n(.*?)```", text, re.S)
    if not block:
        sys.exit("docs/architecture.md has no mermaid block")
    path_of = dict(re.findall(r'^\s*(\w+)\["([^"<]+)', block[1], re.M))
    arrows = set()
    for line in block[1].split("\n"):
        arrow = re.fullmatch(r"\s*(\w+) --> (\w+(?: & \w+)*)", line)
        if arrow:
            arrows |= {(path_of[arrow[1]], path_of[to]) for to in arrow[2].split(" & ")}
    return set(path_of.values()), arrows


def module_of(path, boxes):
    """Returns the module of a file: the path of its box, or the folder of an op, because all ops share a box."""
    if path in boxes:
        return path
    folder = pathlib.PurePath(path).parent
    while str(folder) not in boxes:
        if str(folder.parent) == "kernels" and ANY_OP in boxes:
            return str(folder)
        if folder == folder.parent:
            return None
        folder = folder.parent
    return str(folder)


def box_of(module, boxes):
    return module if module in boxes else ANY_OP


def below(arrows):
    """Returns, for each box, all boxes that arrows lead to."""
    reach = {a: {b for x, b in arrows if x == a} for a, _ in arrows}
    changed = True
    while changed:
        changed = False
        for a, direct in reach.items():
            more = set().union(*(reach.get(b, set()) for b in direct)) - direct
            direct |= more
            changed |= bool(more)
    return reach


def check_includes(root, files, boxes, arrows):
    reach, used, faults = below(arrows), set(), []
    faults += [f"the diagram has a cycle through {a}" for a, to in reach.items() if a in to]
    for path in files:
        module = module_of(path, boxes)
        if module is None:
            faults.append(f"{path} is in no box of the diagram")
            continue
        for number, line in enumerate((root / path).read_text().split("\n"), 1):
            included = re.match(r'\s*#\s*include\s*"((?:kernels|api|gpu|server)/[^"]+)"', line)
            to = included and module_of(included[1], boxes)
            if not to or to == module:
                continue
            arrow = box_of(module, boxes), box_of(to, boxes)
            used.add(arrow)
            if arrow[1] not in reach.get(arrow[0], set()):
                faults.append(f"{path}:{number}: {module} includes {included[1]}, but the diagram has no path "
                              f"from {arrow[0]} to {arrow[1]}")
    faults += [f"the diagram has an arrow from {a} to {b} that no #include needs" for a, b in arrows - used]
    modules = {box_of(module_of(path, boxes), boxes) for path in files if module_of(path, boxes)}
    faults += [f"the diagram has a box {box} without files" for box in boxes - modules]
    return faults


def names(readme, stem):
    """True if the README names the file: `stem`, `stem.c`, `stem.[ch]` or `folder/stem.c`."""
    return re.search(rf"`(?:[\w/]*/)?{re.escape(stem)}(?:\.[\w\[\]]+)?`", readme)


def check_readmes(root, files):
    """Checks that a README in the folder of each file, or in a folder above, names the file. A .h and its .c share a name."""
    faults = []
    for path in map(pathlib.PurePath, files):
        if re.search(r"_(generic|avx2|avx512\w*)$", path.stem):
            continue  # the same code for another instruction set
        folders = [root / folder for folder in path.parents if str(folder) != "."]
        readmes = [(folder / "README.md").read_text() for folder in folders if (folder / "README.md").is_file()]
        if not any(names(readme, path.stem) for readme in readmes):
            faults.append(f"{path}: no README.md in its folder or above names it")
    return faults


def check_request(root):
    """Checks the table of docs/request.md, in which a file follows each function."""
    rows = re.findall(r"\| `(\w+)` \| `([\w/.]+)` \|", (root / "docs/request.md").read_text())
    faults = [] if rows else ["docs/request.md names no function"]
    for function, path in rows:
        code = (root / path).read_text() if (root / path).is_file() else ""
        if not re.search(rf"^[a-z][\w *]*\b{function}\(", code, re.M):
            faults.append(f"docs/request.md: {path} has no function {function}")
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    files = sources(root)
    boxes, arrows = read_diagram((root / "docs/architecture.md").read_text())
    faults = check_includes(root, files, boxes, arrows) + check_readmes(root, files) + check_request(root)
    print("\n".join(faults) if faults else
          f"ok: {len(files)} files in {len(boxes)} modules, {len(arrows)} arrows, as drawn; READMEs name every file")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
