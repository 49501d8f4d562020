"""Random programs under a name, with declared inputs and arguments, and their plans."""
import copy

from program_build import *

ATTRIBUTES = {"axis", "axes", "perm", "k", "largest", "keepdims", "exclusive", "reverse", "approximate", "epsilon", "depth", "starts", "stops",
              "num_segments", "batch_dims", "bounds", "mode"}
LETTERS = "abcdefgh"


def declared(array):
    return {"dtype": name_of(array), "shape": list(array.shape)}


def with_letters(program, inputs):
    """the declarations, with a letter for some sizes"""
    letters = {}  # size: letter

    def size(d):
        if not program.chance(0.3) or d not in letters and len(letters) == len(LETTERS):
            return d
        return letters.setdefault(d, LETTERS[len(letters)])
    return {name: {**one, "shape": [size(d) for d in one["shape"]]} for name, one in inputs.items()}


def with_arguments(program, steps):
    """Turns some attributes into arguments. Returns the arguments that a call sets: all arguments without a default, and some others."""
    given, count = {}, 0
    for step in steps:
        for name in sorted(ATTRIBUTES & set(step)):
            if program.chance(0.8):
                continue
            argument, value, has_default = f"arg{count}", step[name], program.chance(0.5)
            step[name] = {"attr": argument, **({"default": value} if has_default else {})}
            if not has_default or program.chance(0.3):
                given[argument] = value
            count += 1
    return given


def put(server, inputs, steps, outputs):
    return server.request("PUT", "/v1/programs/stored", compact({"inputs": inputs, "steps": steps, "outputs": outputs}))


def check_stored(program, server):
    """Stores the program, and compares a call of it with the separate requests for its steps. The server can refuse to store a program if
    one of its steps fails with most sizes of the letters."""
    steps = copy.deepcopy(program.steps)
    given = with_arguments(program, steps)
    inputs = {name: declared(program.values[name]) for name in program.inputs}
    lettered = with_letters(program, inputs)
    reply = put(server, lettered, steps, program.outputs)
    if reply.status == 422 and lettered != inputs:
        reply = put(server, inputs, steps, program.outputs)
    if reply.status not in (200, 201):
        raise Difference(f"the program is not stored: {reply.body.decode()[:600]}\n{steps}")
    program.compare_run(*server.post("/v1/programs/stored", {**program.inputs, **given, "response": "base64"}))


def check_plan(program, server):
    """The plan knows the shapes of the outputs, unless values decide them."""
    inputs = {name: declared(program.values[name]) for name in program.inputs}
    status, reply = server.post("/v1/programs/plan", {"inputs": inputs, "steps": program.steps, "outputs": program.outputs})
    if status != 200 or not reply["admitted"]:
        raise Difference(f"the plan: status {status}: {str(reply)[:600]}")
    for name in program.outputs:
        known, want = reply["outputs"][name], program.values[name]
        if known and known["shape"] is not None and (known["shape"], known["dtype"]) != (list(want.shape), name_of(want)):
            raise Difference(f"the plan says {known} instead of {name_of(want)}{list(want.shape)}")
