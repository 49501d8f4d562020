"""Builds a random program step by step. Each step also runs as a request of its own, so the next one can be chosen by its results."""
import math, random

from program_values import *

LIMIT = 6000  # elements of a tensor
COMMON_DIMENSIONS, LARGE_DIMENSIONS = (1, 1, 2, 3, 4, 5), (1, 2, 3, 7, 40, 300, 2500, 5000)


class Difference(AssertionError):
    """an answer that is wrong"""


class Operand:
    """a tensor of a step: `name` is the value of the program that it is, or None; `text` is the JSON of a constant"""

    def __init__(self, array, name=None, text=None):
        self.array, self.name, self.text = array, name, text

    @property
    def dtype(self):
        return name_of(self.array)

    @property
    def shape(self):
        return self.array.shape

    def in_program(self):
        return "$" + self.name if self.name else self.text

    def alone(self):
        return typed(self.array) if self.name else self.text


class Program:
    """server: has the functions post(path, document), which returns (status, document), and resident(array), which returns a name"""

    def __init__(self, seed, server):
        self.random, self.server = random.Random(seed), server
        self.numbers = np.random.Generator(np.random.PCG64(self.random.getrandbits(64)))
        self.dimensions = LARGE_DIMENSIONS if self.random.random() < 0.03 else COMMON_DIMENSIONS
        self.inputs, self.steps, self.bounds = {}, [], []
        self.values = {}  # name: array; inputs and results
        self.results, self.used, self.outputs = set(), set(), []
        self.names = 0
        self.problem = None  # the error of the last step

    # ------------------------------------------------------------ choices
    def chance(self, probability):
        return self.random.random() < probability

    def choice(self, options):
        return self.random.choice(options)

    def shape(self, least=0, most=4):
        empty = self.chance(0.06)
        while True:
            shape = [self.choice(self.dimensions) for _ in range(self.random.randint(least, most))]
            if shape and empty:
                shape[self.random.randrange(len(shape))] = 0
            if math.prod(max(d, 1) for d in shape) <= LIMIT:
                return shape

    def axis(self, rank):
        """an axis, and how the step writes it"""
        axis = self.random.randrange(rank)
        return axis, self.choice((axis, axis - rank))

    def some_array(self, dtype, shape):
        return random_array(self.numbers, dtype, shape)

    def existing(self, accept):
        """a value that fits, preferably a recent one, or None"""
        names = [name for name, array in self.values.items() if accept(array)]
        if not names:
            return None
        back = min(int(self.random.expovariate(0.7)), len(names) - 1)
        return Operand(self.values[names[-1 - back]], names[-1 - back])

    # ------------------------------------------------------------ operands
    def value(self, dtypes, least=0, most=4, accept=lambda a: True):
        """a tensor of one of these dtypes, with at least `least` and at most `most` dimensions"""
        fits = (lambda a: name_of(a) in dtypes and least <= a.ndim <= most and accept(a))
        found = self.existing(fits) if self.chance(0.85) else None
        while found is None:
            array = self.some_array(self.choice(dtypes), self.shape(least, most))
            found = self.fresh(array) if fits(array) else None
        return found

    def array(self, array, accept, dtype=None):
        """an existing value that fits, or else `array`; dtype: the dtype of plain JSON, if another tensor says it"""
        found = self.existing(accept) if self.chance(0.5) else None
        return found or self.fresh(array, dtype)

    def fresh(self, array, dtype=None):
        """a tensor with these elements: a constant, an input, or the result of a step"""
        form = self.random.random()
        if form < 0.25 and (dtype or inferred_dtype(array)) == name_of(array) and inferred_dtype(array):
            return Operand(array, text=lists(array))
        if form < 0.5:
            return Operand(array, text=constant(self.random, array))
        if form < 0.53:
            return Operand(array, text={"ref": self.server.resident(array)})
        if form < 0.7 and len(self.steps) < 40:
            return self.moved(array)
        return self.input(array)

    def input(self, array):
        name = self.new_name("in")
        self.inputs[name] = self.input_json(array)
        self.values[name] = array
        return Operand(array, name)

    def input_json(self, array):
        if self.chance(0.3) and inferred_dtype(array) == name_of(array):
            return lists(array)
        if self.chance(0.05):
            return {"ref": self.server.resident(array)}
        return constant(self.random, array)

    def moved(self, array):
        """the array as the result of a step that moves elements"""
        ways = [("reshape", array.reshape(-1), {"shape": list(array.shape)}), ("squeeze", array[None], {"axes": [0]}),
                ("transpose", np.array(array.T, order="C"), {})]
        if array.ndim:
            ways.append(("slice", np.concatenate([array, array]), {"starts": [len(array)], "stops": [2 * len(array)]}))
        if array.ndim and len(array) == 1:
            ways.append(("expand_dims", array[0], {"axis": 0}))
        op, x, attrs = self.choice(ways)
        x = np.array(x, array.dtype).reshape(np.shape(x) if array.dtype != object else x.shape if isinstance(x, np.ndarray) else ())
        moved = self.step(op, {"x": self.input(x)}, attrs, [Want(array)], keep_all=True)[0]
        if array.ndim == 0 or self.chance(0.6):
            return moved
        # through a step whose sizes depend on values
        zeros = np.zeros(len(array), "int32")
        return self.step("dynamic_partition", {"data": moved, "partitions": Operand(zeros, text=typed(zeros))}, {"num_partitions": 1},
                         [Want(array)], as_list=True, keep_all=True)[0]

    def indices(self, bound, shape, valid=True, dtypes=INDEX):
        """indices in [0, bound), or around it"""
        low, high = (0, bound) if valid else (-2, bound + 2)
        array = self.numbers.integers(low, max(high, low + 1), shape).astype(self.choice(dtypes))
        within = (lambda a: name_of(a) in dtypes and a.shape == array.shape and (a >= low).all() and (a < high).all())
        return self.array(array, within)

    # ------------------------------------------------------------ steps
    def new_name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def step(self, op, inputs, attrs, wants, as_list=False, names=None, keep_all=False):
        """Adds a step, and returns its named results. wants: the results in order; None: the op refuses its inputs. names: the names of
        the op's outputs."""
        each = {name: operand if isinstance(operand, list) else [operand] for name, operand in inputs.items()}
        for operand in (operand for operands in each.values() for operand in operands):
            if operand.name:
                self.used.add(operand.name)

        def body(write):
            members = {name: [write(o) for o in operand] if isinstance(operand, list) else write(operand) for name, operand in inputs.items()}
            members = list({**members, **attrs}.items())
            if len(self.steps) % 5 == 4:
                members.reverse()
            return dict(members)
        alone, step = body(Operand.alone), {"op": op, **body(Operand.in_program)}
        status, reply = self.server.post("/v1/" + op, {**alone, "response": "base64"})
        if (status == 200) != (wants is not None):
            raise Difference(f"{op} {describe(inputs)} {attrs}: status {status}: {str(reply)[:600]}")
        if wants is None:
            step["as"] = self.result_names(as_list, names, self.results_of_refused(attrs, as_list, names), True)
            self.problem = reply
        else:
            got = results_in(reply, as_list, names)
            self.compare(op, inputs, attrs, wants, got)
            step["as"] = self.result_names(as_list, names, got, keep_all)
            if "bounds" in reply:
                self.bounds.append({"step": len(self.steps), **reply["bounds"]})
        self.steps.append(step)
        return [Operand(self.values[name], name) for name in names_in(step["as"])]

    def results_of_refused(self, attrs, as_list, names):
        return [np.zeros(0)] * (attrs.get("num_partitions", 1) if as_list else len(names or [0]))

    def compare(self, op, inputs, attrs, wants, got):
        if len(got) != len(wants):
            raise Difference(f"{op} {attrs}: {len(got)} results instead of {len(wants)}")
        for number, (want, array) in enumerate(zip(wants, got)):
            differences = want.differences(array)
            if len(differences):
                raise Difference(f"{op} {describe(inputs)} {attrs}: result {number} differs: {explain(want, array, differences)}\ninputs: {show(inputs)}")

    def result_names(self, as_list, names, got, keep_all):
        """"as" of a step whose results are these"""
        def add(array):
            name = self.new_name("r")
            self.values[name] = array
            self.results.add(name)
            return name
        if not as_list and not names:
            return add(got[0])
        kept = [keep_all or self.chance(0.7) for _ in got]
        kept[0] |= not any(kept)
        if not as_list:
            return {output: add(array) for output, array, keep in zip(names, got, kept) if keep}
        return [add(array) if keep else None for array, keep in zip(got, kept)]

    # ------------------------------------------------------------ the whole
    def end(self):
        """Chooses the outputs: all results that no step uses, and some others. Removes inputs that no step uses."""
        for name in set(self.inputs) - self.used:
            del self.inputs[name], self.values[name]
        self.outputs = [name for name in self.values if name in self.results and (name not in self.used or self.chance(0.15))]
        self.outputs = self.outputs or list(self.results)[:1]
        self.random.shuffle(self.outputs)

    def document(self):
        return {"inputs": self.inputs, "steps": self.steps, "outputs": self.outputs, "response": "base64"}

    def check(self):
        """Runs the program, and compares it with the separate requests for its steps."""
        status, reply = self.server.post("/v1/programs/run", self.document())
        if self.problem:
            self.check_problem(status, reply)
        else:
            self.compare_run(status, reply)

    def compare_run(self, status, reply):
        if status != 200:
            raise Difference(f"the program is refused: {reply}")
        if list(reply["outputs"]) != self.outputs:
            raise Difference(f"the program returns {list(reply['outputs'])} instead of {self.outputs}")
        for name in self.outputs:
            got = from_json(reply["outputs"][name])
            if not same_bits(got, self.values[name]):
                raise Difference(f"output {name} differs from a request of its own: {explain_bits(got, self.values[name])}")
        if reply.get("bounds", []) != self.bounds:
            raise Difference(f"bounds are {reply.get('bounds')} instead of {self.bounds}")

    def check_problem(self, status, reply):
        """Checks that the error of the last step is the error of the separate request, with the number and the name of the step."""
        own = {"instance", "request_id", "pointer", "detail"}
        want = {**{k: v for k, v in self.problem.items() if k not in own}, "step": len(self.steps) - 1}
        got = {k: v for k, v in reply.items() if k not in own | {"as"}} if status != 200 else None
        if got != want or reply.get("as") != (names_in(self.steps[-1]["as"]) or [None])[0]:
            raise Difference(f"the program returns {reply} instead of {self.problem}")


def names_in(names):
    """the names in "as", in order"""
    names = [names] if isinstance(names, str) else list(names.values()) if isinstance(names, dict) else names
    return [name for name in names if name]


def results_in(reply, as_list, names):
    if as_list:
        return [from_json(t) for t in reply["outputs"]]
    return [from_json(reply["outputs"][name]) for name in names] if names else [from_json(reply["output"])]


# ---------------------------------------------------------------- messages
def flat(inputs):
    for name, operand in inputs.items():
        for o in operand if isinstance(operand, list) else [operand]:
            yield name, o


def describe(inputs):
    return ", ".join(f"{name} {o.dtype}{list(o.shape)}" for name, o in flat(inputs))


def show(inputs):
    return "; ".join(f"{name} = {np.array2string(o.array, threshold=60, floatmode='unique')}" for name, o in flat(inputs))


def explain(want, got, differences):
    if isinstance(differences, str):
        return differences
    at = tuple(differences[0])
    tolerance = 0 if want.tolerance is None else np.broadcast_to(want.tolerance, want.shape)[at]
    return f"at {list(map(int, at))} it is {got[at]!r} instead of {want.array[at]!r} (tolerance {tolerance}); {len(differences)} elements differ"


def explain_bits(got, want):
    if name_of(got) != name_of(want) or got.shape != want.shape:
        return f"{name_of(got)}{list(got.shape)} instead of {name_of(want)}{list(want.shape)}"
    size = got.dtype.itemsize
    bad = [i for i in range(got.size) if raw(got)[i * size:][:size] != raw(want)[i * size:][:size]] if got.dtype != object else np.argwhere(got != want)
    return f"{len(bad)} of {got.size} elements, the first at {bad[0]}:\n{got}\ninstead of\n{want}"
