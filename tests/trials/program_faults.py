"""Faults of programs: each function breaks a valid program in one place, and says what the server must answer."""
import copy, json

from program_build import *

RESERVED = ("inputs", "outputs", "steps", "device", "response", "timing", "store", "ttl_s")
BAD_NAMES = ("", "9x", "a-b", "a b", "x" * 65, "\u00e9", "a/b", "a~b", "$x", *RESERVED)
JUNK = (None, True, 0, -1, 1.5, 1e400, 2 ** 64, "", "$", "$x", "x", [], [[]], [None], ["$x"], {}, {"ref": "none"}, {"dtype": "float32"},
        {"dtype": "int8", "shape": [2], "data": [1, 2]}, {"dtype": "float32", "shape": [2 ** 40, 2 ** 40], "data": []}, [[1], [2, 3]])
SINGLE_ATTRIBUTES = ("axis", "k", "depth", "num_partitions", "batch_dims", "largest", "exclusive", "reverse", "keepdims", "approximate")


class Fault:
    """What the server must answer: the code, and the JSON Pointer of the place or the number of the step. Other members must be as
    given."""

    def __init__(self, document, code, pointer=None, step=None, **members):
        self.document, self.code, self.pointer, self.step, self.members = document, code, pointer, step, members

    def check(self, status, reply):
        want = {"code": self.code, **self.members}
        if self.pointer is not None:
            want["pointer"] = self.pointer
        if self.step is not None:
            want["step"] = self.step
        wrong = {name: reply.get(name) for name, value in want.items() if reply.get(name) != value}
        if status < 400 or status >= 500 or wrong:
            raise Difference(f"{wrong} instead of {want}: status {status}: {str(reply)[:500]}")


class Broken:
    """a copy of a program's document, with the places in it"""

    def __init__(self, program):
        self.program, self.random = program, program.random
        self.document = copy.deepcopy(program.document())
        self.inputs, self.steps, self.outputs = (self.document[part] for part in ("inputs", "steps", "outputs"))
        self.at = self.random.randrange(len(self.steps))

    @property
    def step(self):
        return self.steps[self.at]

    def choice(self, options):
        return self.random.choice(list(options))

    def fault(self, code, pointer=None, step=None, **members):
        return Fault(self.document, code, pointer, step, **members)

    def malformed(self, *path, **members):
        return self.fault("MALFORMED_REQUEST", pointer(*path), **members)

    def names(self):
        """(place, name) of each name in "as" of the step"""
        names = self.step["as"]
        if isinstance(names, str):
            return [(("steps", self.at, "as"), names)]
        items = names.items() if isinstance(names, dict) else enumerate(names)
        return [(("steps", self.at, "as", key), name) for key, name in items if name]

    def references(self):
        """(place, name) of each reference in the step"""
        for member, value in self.step.items():
            if member not in ("op", "as", "equation"):
                for key, operand in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(operand, str) and operand[:1] == "$" and operand[1:] in self.program.values:
                        yield ("steps", self.at, member) + (() if key is None else (key,)), operand[1:]

    def set(self, path, value):
        place = self.document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    def add_step(self, **step):
        """a step at the end, whose results are outputs"""
        self.steps.append({"as": "added", **step})
        self.outputs += names_in(self.steps[-1]["as"])
        return len(self.steps) - 1

    def value(self, accept=lambda a: True):
        """the name and the array of a value that fits, or None"""
        names = [name for name, a in self.program.values.items() if accept(a)]
        return (name := self.choice(names), self.program.values[name]) if names else None


def pointer(*path):
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)


# ---------------------------------------------------------------- the parts
def part_missing(broken):
    del broken.document[broken.choice(("inputs", "steps", "outputs"))]
    return broken.fault("MALFORMED_REQUEST", "")


def part_of_wrong_kind(broken):
    part = broken.choice(("inputs", "steps", "outputs"))
    broken.document[part] = broken.choice((1, "x", True, [] if part == "inputs" else {"a": 1}))
    return broken.malformed(part)


def part_empty(broken):
    part = broken.choice(("steps", "outputs"))
    broken.document[part] = []
    return broken.malformed(part)


def unknown_member(broken):
    broken.document["input"] = {}
    return broken.malformed("input")


# ---------------------------------------------------------------- ops and members of steps
def unknown_op(broken):
    broken.step["op"] += broken.choice(("x", "_", " ", "\0"))
    return broken.fault("UNKNOWN_OP", pointer("steps", broken.at, "op"), broken.at)


def op_of_wrong_kind(broken):
    broken.step["op"] = broken.choice((None, 1, [], {}, True))
    return broken.malformed("steps", broken.at, "op", step=broken.at)


def step_of_wrong_kind(broken):
    broken.steps[broken.at] = broken.choice((None, 1, [], "x", True))
    return broken.malformed("steps", broken.at, step=broken.at)


def op_or_as_missing(broken):
    del broken.step[broken.choice(("op", "as"))]
    return broken.malformed("steps", broken.at, step=broken.at)


def unknown_member_of_step(broken):
    name = broken.choice(("bogus", "X", "", "a/b", "op ", "a~b"))
    broken.step[name] = broken.choice((1, "$x", [], None, {"dtype": "int8", "data": [1]}))
    return broken.malformed("steps", broken.at, name, step=broken.at)


def member_of_the_whole(broken):
    name = broken.choice(("device", "response", "timing", "store"))
    broken.step[name] = "cpu"
    return broken.malformed("steps", broken.at, name, step=broken.at)


def attribute_of_wrong_kind(broken):
    attrs = [name for name in broken.step if name in SINGLE_ATTRIBUTES]
    if not attrs:
        return None
    name = broken.choice(attrs)
    broken.step[name] = broken.choice(("x", [1], 1.5, {}))
    return broken.malformed("steps", broken.at, name, step=broken.at)


# ---------------------------------------------------------------- names
def as_of_wrong_kind(broken):
    kinds = {str: (None, 1, ["a"], {"output": "a"}), dict: (None, "a", ["a"], 1.5), list: ("a", {"0": "a"}, True)}
    broken.step["as"] = broken.choice(kinds[type(broken.step["as"])])
    return broken.malformed("steps", broken.at, "as", step=broken.at)


def bad_name(broken):
    places = broken.names()
    if not places:
        return None
    place, _ = broken.choice(places)
    broken.set(place, broken.choice(BAD_NAMES))
    return broken.malformed(*place, step=broken.at)


def name_taken(broken):
    places = broken.names()
    taken = [name for name in broken.program.values if name not in [name for _, name in places]]
    before = [name for name in taken if name in broken.inputs or any(name in names_in(step["as"]) for step in broken.steps[:broken.at])]
    if not places or not before:
        return None
    place, _ = broken.choice(places)
    broken.set(place, broken.choice(before))
    return broken.malformed(*place, step=broken.at)


def bad_input_name(broken):
    name = broken.choice(BAD_NAMES)
    broken.inputs[name] = [1]
    return broken.malformed("inputs", name)


def unknown_output_of_op(broken):
    if not isinstance(broken.step["as"], dict):
        return None
    broken.step["as"]["bogus"] = "b"
    return broken.malformed("steps", broken.at, "as", "bogus", step=broken.at)


def list_of_wrong_length(broken):
    if not isinstance(broken.step["as"], list):
        return None
    broken.step["as"].append(None)
    return broken.malformed("steps", broken.at, "as", step=broken.at)


# ---------------------------------------------------------------- references
def unknown_reference(broken):
    places = list(broken.references())
    if not places:
        return None
    place, name = broken.choice(places)
    broken.set(place, broken.choice(("$" + name + "x", "$", "$$" + name, "$ " + name, "$" + "y" * 300, "$\u00e9\0")))
    return broken.malformed(*place, step=broken.at)


def reference_to_later(broken):
    later = [name for step in broken.steps[broken.at:] for name in names_in(step["as"])]
    places = list(broken.references())
    if not places or not later:
        return None
    place, _ = broken.choice(places)
    broken.set(place, "$" + broken.choice(later))
    return broken.malformed(*place, step=broken.at)


def unknown_output(broken):
    at = broken.random.randrange(len(broken.outputs))
    broken.outputs[at] = broken.choice(("none", "", "$" + broken.outputs[at], broken.outputs[at] + " "))
    return broken.malformed("outputs", at)


def output_of_wrong_kind(broken):
    at = broken.random.randrange(len(broken.outputs))
    broken.outputs[at] = broken.choice((None, 1, [], {}, True))
    return broken.malformed("outputs", at)


def output_twice(broken):
    broken.outputs.append(broken.outputs[0])
    return broken.malformed("outputs", len(broken.outputs) - 1)


def output_that_is_an_input(broken):
    if not broken.inputs:
        return None
    broken.outputs.append(broken.choice(broken.inputs))
    return broken.malformed("outputs", len(broken.outputs) - 1)


def unused_input(broken):
    broken.inputs["unused"] = [1, 2]
    return broken.malformed("inputs", "unused")


def unused_result(broken):
    unused = [name for name in broken.outputs if name not in broken.program.used]
    if len(broken.outputs) < 2 or not unused:
        return None
    name = broken.choice(unused)
    broken.outputs.remove(name)
    at = next(i for i, step in enumerate(broken.steps) if name in names_in(step["as"]))
    return broken.malformed("steps", at, "as")


# ---------------------------------------------------------------- tensors
def bad_input(broken):
    """an input that is not a tensor"""
    if not broken.inputs:
        return None
    name = broken.choice(broken.inputs)
    broken.inputs[name] = broken.choice((
        None, {}, [[1], [2, 3]], [1, "a"], {"dtype": "float33", "data": [1]}, {"dtype": "int8", "data": [300]}, {"dtype": "int8", "shape": [3], "data": [1]},
        {"dtype": "float32", "shape": [1], "base64": "AAAA"}, {"dtype": "float32", "shape": [1], "base64": "!"}, {"dtype": "int32", "shape": [-1], "data": []},
        {"dtype": "int32", "shape": [2 ** 62, 16], "data": []}, {"dtype": "int32", "shape": [1] * 17, "data": [1]}, {"dtype": "int32"}, [None], [[[1]], 2]))
    return Inside(broken.document, pointer("inputs", name))


class Inside(Fault):
    """a fault somewhere inside a value"""

    def __init__(self, document, place, step=None):
        super().__init__(document, None, step=step)
        self.place = place

    def check(self, status, reply):
        if not 400 <= status < 500 or not str(reply.get("pointer")).startswith(self.place) or self.step not in (None, reply.get("step")):
            raise Difference(f"the pointer {reply.get('pointer')} is not in {self.place}: status {status}: {str(reply)[:500]}")


def missing_table(broken):
    at = broken.add_step(op="negative", x={"ref": "no_such_table"})
    return broken.fault("TENSOR_NOT_FOUND", step=at, input="x")


def plain_value_that_does_not_fit(broken):
    found = broken.value(lambda a: name_of(a) in INTS)
    if not found:
        return None
    at = broken.add_step(op="add", x="$" + found[0], y=broken.choice((1.5, [1.5], "a", [[1], [1, 2]], 2 ** 70, [[None]])))
    return Inside(broken.document, pointer("steps", at, "y"), at)


# ---------------------------------------------------------------- steps that fail
def shapes_differ(broken):
    found = broken.value(lambda a: a.ndim and a.shape[-1] > 1 and name_of(a) in NUMBERS)
    if not found:
        return None
    name, a = found
    at = broken.add_step(op=broken.choice(("add", "subtract", "multiply")), x="$" + name, y=typed(np.zeros(a.shape[-1] + 1, a.dtype)))
    return broken.fault("SHAPE_MISMATCH", step=at, **{"as": "added", "input": "y"})


def dtypes_differ(broken):
    name, a = broken.value()
    other = broken.choice([dtype for dtype in NUMBERS if dtype != name_of(a)])
    at = broken.add_step(op="equal", x="$" + name, y=typed(np.zeros((), np_dtype(other))))
    return broken.fault("UNSUPPORTED_DTYPE", step=at, **{"as": "added", "input": "y"})


def wrong_dtype(broken):
    found = broken.value(lambda a: name_of(a) in NUMBERS)
    if not found:
        return None
    at = broken.add_step(op=broken.choice(("logical_not", "reduce_any", "reduce_all")), x="$" + found[0])
    return broken.fault("UNSUPPORTED_DTYPE", step=at, **{"as": "added", "input": "x"})


def axis_out_of_range(broken):
    name, a = broken.value()
    members = broken.choice(({"op": "expand_dims", "axis": a.ndim + 1}, {"op": "squeeze", "axes": [a.ndim]}, {"op": "transpose", "perm": [a.ndim] * a.ndim or [0]}))
    at = broken.add_step(x="$" + name, **members)
    return broken.fault("INVALID_AXIS", step=at, **{"as": "added"})


def index_out_of_bounds(broken):
    found = broken.value(lambda a: a.ndim)
    if not found:
        return None
    name, a = found
    bad = [0] * (1 if len(a) else 0) + [broken.choice((-1, len(a), 2 ** 31 - 1))]
    at = broken.add_step(op="gather", params="$" + name, indices=bad)
    return broken.fault("INDEX_OUT_OF_BOUNDS", step=at, **{"as": "added", "input": "indices", "position": [len(bad) - 1], "index": bad[-1], "bound": len(a)})


def wrong_number_of_elements(broken):
    name, a = broken.value()
    at = broken.add_step(op="reshape", x="$" + name, shape=[a.size + 1])
    return broken.fault("SHAPE_MISMATCH", step=at, **{"as": "added"})


def bad_argument(broken):
    found = broken.value(lambda a: a.ndim and name_of(a) in REALS)
    if not found:
        return None
    name, a = found
    at = broken.add_step(op="top_k", x="$" + name, k=a.shape[-1] + 1, **{"as": {"indices": "added"}})
    return broken.fault("INVALID_ARGUMENT", step=at, **{"as": "added"})


def bad_equation(broken):
    found = broken.value(lambda a: name_of(a) in NUMBERS)
    if not found:
        return None
    at = broken.add_step(op="einsum", inputs=["$" + found[0]], equation=broken.choice(("->z", "a-b", "....", "...->,", "...,->...x")))
    return broken.fault("INVALID_EQUATION", step=at, **{"as": "added"})


def division_by_zero(broken):
    found = broken.value(lambda a: name_of(a) in INTS and a.size)
    if not found:
        return None
    at = broken.add_step(op=broken.choice(("floor_mod", "floor_divide")), x="$" + found[0], y=0)
    return broken.fault("DIVISION_BY_ZERO", step=at, **{"as": "added", "input": "y", "position": []})


def computed_division_by_zero(broken):
    """by the results of steps, which may have run in one pass"""
    found = broken.value(lambda a: name_of(a) in INTS and a.size)
    if not found:
        return None
    broken.steps += [{"op": "subtract", "x": "$" + found[0], "y": "$" + found[0], "as": "zero"}]
    at = broken.add_step(op="floor_mod", x="$" + found[0], y="$zero")
    return broken.fault("DIVISION_BY_ZERO", step=at, bad_count=found[1].size, **{"as": "added", "input": "y", "position": [0] * found[1].ndim})


def equal_keys(broken):
    at = broken.add_step(op="find", keys=[3, 4, 3], queries=[1])
    return broken.fault("INVALID_ARGUMENT", step=at, positions=[[0], [2]], **{"as": "added"})


def missing_key(broken):
    at = broken.add_step(op="lookup", params=[1, 2], keys=[3, 4], queries=[3, 5], **{"as": {"found": "added"}})
    return broken.fault("KEY_NOT_FOUND", step=at, key=5, position=[1], **{"as": "added"})


def missing_input(broken):
    at = broken.add_step(op="add", x=[1])
    return broken.fault("INVALID_ARGUMENT", step=at, **{"as": "added", "input": "y"})


def missing_attribute(broken):
    at = broken.add_step(op="one_hot", indices=[1])
    return broken.fault("INVALID_ARGUMENT", step=at, **{"as": "added", "attribute": "depth"})


def huge_result(broken):
    at = broken.add_step(op="one_hot", indices=[1, 2], depth=broken.choice((2 ** 40, 2 ** 62, 2 ** 63 - 1)))
    return broken.fault("RESOURCE_LIMIT")


def many_steps(broken):
    broken.steps += [{"op": "negative", "x": [1], "as": f"n{i}"} for i in range(257)]
    broken.outputs += [f"n{i}" for i in range(257)]
    return broken.fault("RESOURCE_LIMIT", pointer("steps"))


def many_inputs(broken):
    more = 65 - len(broken.inputs)
    broken.inputs.update({f"n{i}": [1] for i in range(more)})
    return broken.fault("RESOURCE_LIMIT", pointer("inputs", f"n{more - 1}"))


# ---------------------------------------------------------------- text
class AnyAnswer(Fault):
    """An answer to text in which a fault can be anywhere: the program runs, or the error has its place."""

    def __init__(self, document):
        super().__init__(document, None)

    def check(self, status, reply):
        if status == 200 and "outputs" in reply:
            return
        is_structure = reply.get("code") in ("MALFORMED_REQUEST", "UNKNOWN_OP")
        has_place = {"pointer", "offset"} & set(reply) if is_structure else "step" in reply or "pointer" in reply or reply.get("op") == "programs/run"
        if not 400 <= status < 500 or not reply.get("code") or not has_place:
            raise Difference(f"status {status} without a place: {str(reply)[:500]}")


def truncated(broken):
    text = compact(broken.document)
    return Fault(text[:broken.random.randrange(len(text))], "MALFORMED_REQUEST")


def deep(broken):
    depth = broken.choice((20, 100, 5000))
    text = compact({**broken.document, "inputs": {**broken.inputs, "deep": "HERE"}})
    return Inside(text.replace(b'"HERE"', b"[" * depth + b"1" + b"]" * depth), pointer("inputs", "deep"))


def twice(broken):
    """a step with a member twice"""
    at = broken.add_step(op="negative", x=[1])
    name = broken.choice(("x", "as", "op"))
    text = compact(broken.document).replace(b'"op":"negative","x":[1]', b'"op":"negative","x":[1],"%s":%s' % (name.encode(), b"[2]" if name == "x" else b'"abs"'))
    return Fault(text, "MALFORMED_REQUEST", pointer("steps", at, name), at)


def other_bytes(broken):
    text = bytearray(compact(broken.document))
    for _ in range(broken.random.randint(1, 4)):
        at = broken.random.randrange(len(text))
        part = bytes(broken.choice((b"\0", b'"', b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"$", b"\\", b"\xff", b"e", b" ")))
        text[at:at + broken.random.randint(0, 2)] = part
    return AnyAnswer(bytes(text))


def junk(broken):
    """any value replaced by something else"""
    for _ in range(broken.random.randint(1, 3)):
        place, key = broken.document, broken.choice(("inputs", "steps", "outputs"))
        while True:
            inside = place[key]
            if not isinstance(inside, (dict, list)) or not inside or broken.random.random() < 0.2:
                break
            place, key = inside, broken.choice(inside if isinstance(inside, dict) else range(len(inside)))
        if broken.random.random() < 0.2:
            del place[key]
            if not all(part in broken.document for part in ("inputs", "steps", "outputs")):
                break
        else:
            place[key] = copy.deepcopy(broken.choice(JUNK))
    return AnyAnswer(json.dumps(broken.document).replace("Infinity", "1e999").encode())


def moved_parts(broken):
    """steps in another order, or without one of them"""
    if len(broken.steps) > 1 and broken.random.random() < 0.5:
        del broken.steps[broken.at]
    else:
        broken.random.shuffle(broken.steps)
    return AnyAnswer(broken.document)


FAULTS = [
    part_missing, part_of_wrong_kind, part_empty, unknown_member, unknown_op, op_of_wrong_kind, step_of_wrong_kind, op_or_as_missing,
    unknown_member_of_step, member_of_the_whole, attribute_of_wrong_kind, as_of_wrong_kind, bad_name, name_taken, bad_input_name, unknown_output_of_op,
    list_of_wrong_length, unknown_reference, reference_to_later, unknown_output, output_of_wrong_kind, output_twice, output_that_is_an_input,
    unused_input, unused_result, bad_input, missing_table, plain_value_that_does_not_fit, shapes_differ, dtypes_differ, wrong_dtype, axis_out_of_range,
    index_out_of_bounds, wrong_number_of_elements, bad_argument, bad_equation, division_by_zero, computed_division_by_zero, equal_keys, missing_key,
    missing_input, missing_attribute, huge_result, many_steps, many_inputs, truncated, deep, twice, other_bytes, other_bytes, junk, junk, junk, moved_parts]


def check_fault(program, server):
    """Breaks the program in one place, and checks the answer. Returns False if the fault does not fit the program."""
    make = program.random.choice(FAULTS)
    fault = make(Broken(program))
    if not fault:
        return False
    status, reply = server.post("/v1/programs/run", fault.document)
    try:
        fault.check(status, reply)
    except Difference as e:
        text = fault.document if isinstance(fault.document, bytes) else compact(fault.document)
        raise Difference(f"{make.__name__}: {e}\nthe program: {text[:3000].decode(errors='replace')}") from None
    return True
