#!/usr/bin/env python3
"""Checks that the documentation of the ops matches their descriptors.

    check_docs.py [--binary PATH]

The README.md of each op's folder must have a section "## NAME" with a table of the op's inputs, of its attributes if it has
any, and of its outputs, a line "Errors: CODE, ...", and a curl command that runs the op. Names, dtypes, defaults, ranges and
shape rules must match GET /v1/ops/NAME. The README.md of a family of ops instead has one table with a row for each op, one line
of errors, and a curl command that runs one of the ops. docs/api.md must have a row for each op, or for the ops of a folder with
the same inputs, attributes and outputs, made from the same description, and a row
with the summary of each route of GET /openapi.json. The table of README.md must name each op, or link to the page of its family. Other documents must not have a
table of ops or of their folders, which would need a line for each new op. A link to a folder of ops must name only ops of
that folder.

Prints a line for each error and exits with status 1. Without errors, prints a line that starts with "ok".
"""
import argparse, glob, json, os, re, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
GROUPS = {"integers": INTEGERS, "floats": FLOATS, "complex": COMPLEX, "numbers": INTEGERS + FLOATS + COMPLEX,
          "any": ["bool", *INTEGERS, *FLOATS, *COMPLEX, "string"]}

faults = []


def fault(where, text):
    faults.append(f"{where}: {text}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def folders():
    """Returns {op: its folder in kernels/}."""
    return {op: folder for folder, op in re.findall(r"^TD_OP\((\w+), (\w+)\)$", read("kernels/ops.def"), re.M)}


# ---------------------------------------------------------------- Markdown
def sections(text):
    """Returns {second-level heading: the text below it}."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    return {name.strip(): body for name, body in zip(parts[1::2], parts[2::2])}


def tables(text):
    """Returns [(header cells, rows of cells)]."""
    found = []
    for block in re.findall(r"(?:^\|.*\|[ \t]*\n)+", text, re.M):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in block.splitlines()]
        if len(rows) >= 2 and all(re.fullmatch(r":?-+:?", cell) for cell in rows[1]):
            found.append((rows[0], rows[2:]))
    return found


def bare(cell):
    return cell.replace("`", "").replace("\\|", "|").strip()


# ---------------------------------------------------------------- words in tables
def dtypes(cell):
    """Returns the set that a cell names: "any", "any but bool, string", "integers, float32"; None for any other text."""
    every, _, without = cell.partition(" but ")
    names = set()
    for part, take in ((every, True), (without, False)):
        for name in filter(None, (n.strip() for n in part.split(","))):
            if name not in GROUPS and name not in GROUPS["any"]:
                return None
            members = set(GROUPS.get(name, [name]))
            names = names | members if take else names - members
    return names


def expected_name(spec):
    marks = [word for word in ("list", "optional") if spec.get(word)]
    return spec["name"] + (f" ({', '.join(marks)})" if marks else "")


def expected_type(attr):
    kind = ", ".join(attr["values"]) if attr["type"] == "string" and "values" in attr else attr["type"]
    if "minimum" in attr and "maximum" in attr:
        return f"{kind} in [{attr['minimum']}, {attr['maximum']}]"
    if "minimum" in attr:
        return f"{kind} ≥ {attr['minimum']}"
    return f"{kind} ≤ {attr['maximum']}" if "maximum" in attr else kind


def expected_default(attr):
    if attr["required"]:
        return "required"
    return attr["default"] if isinstance(attr["default"], str) else json.dumps(attr["default"])


def same_default(cell, attr):
    if attr["type"] == "float64" and not attr["required"] and not isinstance(attr["default"], str):
        try:
            return float(cell) == attr["default"]
        except ValueError:
            return False
    return cell == expected_default(attr)


# ---------------------------------------------------------------- one op
def rows_of(where, text, header):
    found = [rows for head, rows in tables(text) if head and bare(head[0]) == header]
    if len(found) > 1:
        fault(where, f"{len(found)} tables of {header}s; expected one")
    return found[0] if found else []


def check_names(where, what, rows, specs):
    got, want = [bare(row[0]) for row in rows], [expected_name(spec) for spec in specs]
    if got != want:
        fault(where, f"its {what}s are {', '.join(got) or 'missing'}; the descriptor has {', '.join(want)}")
    return got == want


def check_dtypes(where, name, cell, names):
    got = dtypes(bare(cell))
    if got is None or got != set(names):
        fault(where, f"{name} has the dtypes \"{bare(cell)}\"; the descriptor has {', '.join(names)}")


def check_output(where, row, spec):
    dtype, shape = bare(row[1]), bare(row[2])
    if "dtype_of" in spec:
        if dtype not in (f"dtype of {spec['dtype_of']}", f"the attribute {spec['dtype_of']}"):
            fault(where, f"{spec['name']} has \"{dtype}\"; expected dtype of {spec['dtype_of']}")
    elif "dtype_rule" in spec:
        if dtype != spec["dtype_rule"]:
            fault(where, f"{spec['name']} has the dtype \"{dtype}\"; the descriptor says {spec['dtype_rule']}")
    else:
        check_dtypes(where, spec["name"], dtype, spec["dtypes"])
    if shape != spec["shape_rule"]:
        fault(where, f"{spec['name']} has the shape \"{shape}\"; the descriptor says {spec['shape_rule']}")


def check_errors(where, text, want):
    errors = re.findall(r"^Errors: ([A-Z_, \n]+?)\n\n", text, re.M)
    got = set(re.findall(r"\w+", errors[0])) if errors else set()
    if got != want:
        fault(where, f"its errors differ from the descriptor's in {', '.join(sorted(got ^ want))}")


def check_op(path, text, op):
    where = f"{path}: {op['name']}"
    inputs = rows_of(where, text, "input")
    if check_names(where, "input", inputs, op["inputs"]):
        for row, spec in zip(inputs, op["inputs"]):
            check_dtypes(where, spec["name"], row[1], spec["dtypes"])
    attributes = rows_of(where, text, "attribute")
    if check_names(where, "attribute", attributes, op["attributes"]):
        for row, spec in zip(attributes, op["attributes"]):
            kind, _, names = bare(row[1]).partition(": ")
            if kind != expected_type(spec):
                fault(where, f"{spec['name']} is {kind}; the descriptor says {expected_type(spec)}")
            if spec["type"] == "dtype":
                check_dtypes(where, spec["name"], names, spec["values"])
            if not same_default(bare(row[2]), spec):
                fault(where, f"the default of {spec['name']} is {bare(row[2])}; the descriptor has {expected_default(spec)}")
    outputs = rows_of(where, text, "output")
    if check_names(where, "output", outputs, op["outputs"]):
        for row, spec in zip(outputs, op["outputs"]):
            check_output(where, row, spec)
    check_errors(where, text, {error["code"] for error in op["errors"]})
    if not re.search(rf"curl .*/v1/{op['name']}[ '?]", text):
        fault(where, "no curl command runs the op")


# ---------------------------------------------------------------- families of ops
FAMILY = ["op", "inputs", "attributes", "dtypes", "output", "result"]


def family_rows(text):
    """Returns {op: cells} from the table of a family of ops, or {} if the page has none."""
    return {bare(row[0]): row for head, rows in tables(text) if [bare(cell) for cell in head] == FAMILY for row in rows}


def check_family_op(where, row, op):
    inputs, attributes, _ = signature(op)
    for what, cell, want in (("inputs", row[1], inputs), ("attributes", row[2], attributes)):
        if cell != want:
            fault(where, f"its {what} are {cell or 'missing'}; the descriptor has {want or 'none'}")
    values = next(spec for spec in op["inputs"] if spec["role"] != "condition")
    check_dtypes(where, values["name"], row[3], values["dtypes"])
    check_output(where, [None, row[4], op["outputs"][0]["shape_rule"]], op["outputs"][0])


def check_family(path, rows, ops):
    text = read(path)
    for op in ops:
        if op["name"] in rows:
            check_family_op(f"{path}: {op['name']}", rows[op["name"]], op)
        else:
            fault(path, f"the table has no row for {op['name']}")
    for name in sorted(set(rows) - {op["name"] for op in ops}):
        fault(path, f"{name} is not an op of the family")
    check_errors(path, text, set().union(*({error["code"] for error in op["errors"]} for op in ops)))
    if not any(re.search(rf"curl .*/v1/{op['name']}[ '?]", text) for op in ops):
        fault(path, "no curl command runs an op of the family")


# ---------------------------------------------------------------- docs/api.md, README.md
def signature(op):
    """Returns the inputs, with "..." for a list and in brackets if optional, the attributes with their defaults, and the outputs."""
    inputs = [f"[`{spec['name']}`]" if spec.get("optional") else f"`{spec['name']}`" + (" ..." if spec.get("list") else "")
              for spec in op["inputs"]]
    attributes = [f"`{spec['name']}`" + ("" if spec["required"] else f" = {expected_default(spec)}") for spec in op["attributes"]]
    outputs = [f"`{spec['name']}`" + (" ..." if spec.get("list") else "") for spec in op["outputs"]]
    return ", ".join(inputs), ", ".join(attributes), ", ".join(outputs)


def op_rows(ops, folder_of):
    """Returns the row of each op. Ops of a folder with the same signature share a row."""
    groups = {}
    for op in ops:
        groups.setdefault((folder_of[op["name"]], *signature(op)), []).append(op["name"])
    return [" ".join(["|", f"[{', '.join(f'`{name}`' for name in names)}](../kernels/{folder}/README.md)", "|", inputs, "|", attributes, "|",
                      outputs, "|"]).replace("  ", " ") for (folder, inputs, attributes, outputs), names in groups.items()]


def route_rows(document, names):
    """Returns {start of the row of each route}, without the routes of /v2. The routes of single ops share a row."""
    rows = set()
    for path, operations in document["paths"].items():
        if path == "/v2" or path.startswith("/v2/"):
            continue
        for method, operation in operations.items():
            if method not in ("get", "put", "post", "delete"):
                continue
            *folders, last = path.split("/")
            if method == "post" and last in names:
                rows.add(f"| `POST {'/'.join(folders)}/{{op}}` |")
            else:
                rows.add(f"| `{method.upper()} {path}` | {operation['summary']} |")
    return rows


def check_api(document, ops, folder_of):
    text = read("docs/api.md")
    for row in op_rows(ops, folder_of):
        if row + "\n" not in text:
            fault("docs/api.md", f"missing row:\n{row}")
    for names in re.findall(r"^\| \[(`[^]]*`)\]\(", text, re.M):
        for name in re.findall(r"\w+", names):
            if name not in folder_of:
                fault("docs/api.md", f"{name} is not an op")
    rows = route_rows(document, folder_of)
    for row in sorted(rows):
        if "\n" + row not in text:
            fault("docs/api.md", f"missing row that starts with:\n{row}")
    for line in re.findall(r"^\| `[A-Z]+ /.*$", text, re.M):
        if not any(line.startswith(row) for row in rows):
            fault("docs/api.md", f"the daemon has no such route, or its summary differs:\n{line}")


def check_readme(folder_of):
    table = "\n".join(" ".join(row) for head, rows in tables(read("README.md")) if head and bare(head[0]) == "op" for row in rows)
    named = set()
    for label, folder in re.findall(r"\[([^]]*)\]\(kernels/(\w+)/README.md\)", table):
        family = family_rows(read(f"kernels/{folder}/README.md"))
        named.update(family or re.findall(r"`(\w+)`", label))
    if named != set(folder_of):
        fault("README.md", f"its table of ops differs from the daemon's in {', '.join(sorted(named ^ set(folder_of)))}")


# ---------------------------------------------------------------- all documents
def check_other(path, folder_of):
    """Checks the tables and links of a document that does not belong to an op."""
    text = read(path)
    for head, rows in tables(text):
        if path not in ("README.md", "docs/api.md") and head and bare(head[0]) in ("op", "ops") and \
                any(bare(row[0]) in folder_of for row in rows):
            fault(path, "a table lists ops; move the table to the README.md of their folders")
        for row in rows:
            if bare(row[0]).split("/")[0] in folder_of.values() and "/" in row[0]:
                fault(path, f"a table lists {bare(row[0])}; move the row to the README.md of the folder")
    for label, folder in re.findall(r"\[([^]]*)\]\((?:\.\./)*kernels/(\w+)(?:/README\.md)?\)", text):
        for op in re.findall(r"`(\w+)`", label):
            if folder_of.get(op) != folder:
                fault(path, f"{op} is not an op of kernels/{folder}")


def check_page(path, ops):
    """Checks the page of a folder of ops."""
    text = read(path) if os.path.exists(os.path.join(ROOT, path)) else ""
    rows = family_rows(text)
    if rows:
        check_family(path, rows, ops)
        return
    for op in ops:
        section = sections(text).get(op["name"])
        if section is None:
            fault(path, f"missing section ## {op['name']}")
        else:
            check_op(path, section, op)


def main():
    parser = argparse.ArgumentParser(description="Compares the ops' documentation with their descriptors.")
    parser.add_argument("--binary", help="path of the daemon (default: build/tensord)")
    args = parser.parse_args()
    os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary or os.path.join(ROOT, "build", "tensord"))
    sys.path.insert(0, os.path.join(HERE, "http"))
    import daemon
    folder_of = folders()
    with daemon.Daemon() as server, daemon.Client(server) as client:
        names = [op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]]
        if names != list(folder_of):
            fault("kernels/ops.def", f"the ops differ from the daemon's, which are {', '.join(names)}")
        ops = [client.request("GET", "/v1/ops/" + name).json() for name in names]
        document = client.request("GET", "/openapi.json").json()
    for folder in dict.fromkeys(folder_of.values()):
        check_page(f"kernels/{folder}/README.md", [op for op in ops if folder_of[op["name"]] == folder])
    check_api(document, ops, folder_of)
    check_readme(folder_of)
    documents = [os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "**", "*.md"), recursive=True)]
    for path in sorted(documents):
        folder = re.match(r"kernels/(\w+)/", path)
        if not re.match(r"build|[.]", path) and not (folder and folder[1] in folder_of.values()):
            check_other(path, folder_of)
    for line in faults:
        print(line)
    if not faults:
        print(f"ok: {len(ops)} ops and {len(document['paths'])} paths match their documentation")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
