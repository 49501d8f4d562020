#!/usr/bin/env python3
"""Runs ONNX's tests of single nodes as programs: each node becomes one step, or a few steps.

    onnx_nodes.py [--binary PATH] [--only OP] [--verbose]

The tests come from the package onnx, in a virtual environment (exit status 77 where it cannot be made). Prints a line for each ONNX op
that has a counterpart, and the tests that are left out, with the reason. Tests of the function bodies of ONNX's ops ("expanded") are not
run, because they test ONNX's decomposition into other nodes.
"""
import argparse, base64, collections, importlib.util, math, os, struct, sys, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)
PACKAGES = ["onnx", "numpy", "ml_dtypes"]
oip_run.enter_venv(os.path.abspath(__file__), os.path.join(oip_run.CACHE, "onnx-venv"), PACKAGES, "import " + ", ".join(PACKAGES))

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

sys.path.insert(0, os.path.join(HERE, "..", "http"))
import daemon

DTYPES = {"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128", "string"}
LACKING = "a dtype of at most 8 bits that tensord lacks"


class Left(Exception):
    """why a test is left out"""


def dtype_of(array):
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def as_array(value):
    """strings are bytes, as in replies"""
    if isinstance(value, (list, dict)) or value is None:
        raise Left("sequences and optional values")
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    if dtype_of(array) != "string":
        return array
    out = np.empty(array.size, object)
    out[:] = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1)]
    return out.reshape(array.shape)


def typed(array):
    array = as_array(array)
    data = daemon.raw_strings(array.reshape(-1)) if array.dtype == object else array.tobytes()
    return daemon.tensor(dtype_of(array), array.shape, data)


def strings_in(data):
    at = 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def from_json(document):
    data, shape = base64.b64decode(document["base64"]), document["shape"]
    if document["dtype"] != "string":
        return np.frombuffer(data, np.dtype(getattr(ml_dtypes, document["dtype"], document["dtype"]))).reshape(shape)
    out = np.empty(math.prod(shape), object)
    out[:] = list(strings_in(data))
    return out.reshape(shape)


# ---------------------------------------------------------------- a node as steps
class Node:
    def __init__(self, node, names, arrays):
        self.attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        known = dict(zip(names, arrays))
        self.arrays = [as_array(known[name]) if name else None for name in node.input]
        self.output_count, self.inputs, self.steps = len(node.output), {}, []

    def attr(self, name, default=None):
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def array(self, i):
        """input i of the node, or None"""
        return self.arrays[i] if i < len(self.arrays) else None

    def numbers(self, i, name=None, default=None):
        """input i, or an attribute, as a list of integers"""
        array = self.array(i)
        return default if array is None and self.attr(name) is None else [int(v) for v in np.reshape(self.attr(name) if array is None else array, -1)]

    def x(self, i=0):
        """a reference to input i"""
        array = self.array(i)
        if dtype_of(array) not in DTYPES:
            raise Left(LACKING)
        self.inputs[f"x{i}"] = typed(array)
        return f"$x{i}"

    def step(self, op, names=None, **members):
        """the reference to the result, or the references to named results"""
        name = f"s{len(self.steps)}"
        self.steps.append({"op": op, **members, "as": {output: f"{name}_{output}" for output in names} if names else name})
        return [f"${name}_{output}" for output in names] if names else "$" + name

    def cast(self, x, dtype):
        if dtype not in DTYPES:
            raise Left(LACKING)
        return self.step("cast", x=x, dtype=dtype)

    def same(self, x, shape):
        """a step whose result is x"""
        return self.step("reshape", x=x, shape=list(shape))

    def number(self, value):
        """a constant of the dtype of the first input"""
        return typed(np.array(value, self.array(0).dtype))


def unary(op):
    return lambda node: node.step(op, x=node.x())


def binary(op):
    return lambda node: node.step(op, x=node.x(0), y=node.x(1))


def folded(op):
    """an op of two inputs for any number of inputs"""
    def convert(node):
        out = node.x()
        for i in range(1, len(node.arrays)):
            out = node.step(op, x=out, y=node.x(i))
        return out if node.steps else node.same(out, node.array(0).shape)
    return convert


def mean(node):
    return node.step("divide", x=folded("add")(node), y=node.number(len(node.arrays)))


def div(node):
    kind = node.array(0).dtype.kind
    if kind == "i":
        raise Left("signed integers: ONNX rounds towards 0, floor_divide rounds down")
    return binary("floor_divide" if kind == "u" else "divide")(node)


def power(node):
    x, y = (dtype_of(node.array(i)) for i in (0, 1))
    if x == y:
        return binary("power")(node)
    if node.array(1).dtype.kind in "iu":
        return node.step("power", x=node.x(0), y=node.cast(node.x(1), x))
    return node.cast(node.step("power", x=node.cast(node.x(0), y), y=node.x(1)), x)


def mod(node):
    if node.attr("fmod"):
        raise Left("fmod = 1: the remainder has the sign of x; in floor_mod, it has the sign of y")
    return binary("floor_mod")(node)


def is_inf(node):
    found = [node.step("equal", x=node.x(), y=node.number(value))
             for name, value in (("detect_positive", np.inf), ("detect_negative", -np.inf)) if node.attr(name, 1)]
    if not found:
        raise Left("nothing to detect")
    return found[0] if len(found) == 1 else node.step("logical_or", x=found[0], y=found[1])


def clip(node):
    least, most = node.array(1), node.array(2)
    if least is not None and most is not None:
        return node.step("clip", x=node.x(), min=node.x(1), max=node.x(2))
    if least is None and most is None:
        return node.same(node.x(), node.array(0).shape)
    return node.step("minimum", x=node.x(), y=node.x(2)) if least is None else node.step("maximum", x=node.x(), y=node.x(1))


def where(node):
    return node.step("where", condition=node.x(0), x=node.x(1), y=node.x(2))


def gelu(node):
    return node.step("gelu", x=node.x(), approximate=node.attr("approximate", "none") == "tanh")


# ---------------------------------------------------------------- reductions
def reduction(op, before=(), after=()):
    def convert(node):
        out, its = node.x(), op
        axes = node.numbers(1, "axes") or ([] if node.attr("noop_with_empty_axes", 0) else list(range(node.array(0).ndim)))
        if node.array(0).dtype == bool:
            its = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}[op]
        if op in ("reduce_max", "reduce_min") and 0 in [node.array(0).shape[axis] for axis in axes]:
            raise Left("a reduced dimension without elements, which tensord refuses")
        for one in before:
            out = node.step(one, x=out)
        out = node.step(its, x=out, axes=axes, keepdims=bool(node.attr("keepdims", 1)))
        for one in after:
            out = node.step(one, x=out)
        return out
    return convert


def position(op):
    def convert(node):
        axis = node.attr("axis", 0)
        if node.attr("select_last_index", 0):
            raise Left("select_last_index: among equal elements, the op returns the first")
        out = node.step(op, x=node.x(), axis=axis)
        return node.step("expand_dims", x=out, axis=axis) if node.attr("keepdims", 1) else out
    return convert


def cumsum(node):
    return node.step("cumsum", x=node.x(), axis=node.numbers(1)[0], exclusive=bool(node.attr("exclusive", 0)), reverse=bool(node.attr("reverse", 0)))


# ---------------------------------------------------------------- normalisation
def along_axis(op):
    return lambda node: node.step(op, x=node.x(), axis=node.attr("axis", -1))


def layer_norm(node):
    bias = {} if node.array(2) is None else {"bias": node.x(2)}
    return node.step("layer_norm", x=node.x(0), scale=node.x(1), axis=node.attr("axis", -1), epsilon=node.attr("epsilon", 1e-5), **bias)


def lp_normalize(node):
    if node.attr("p", 2) != 2:
        raise Left("p = 1: tensord has only l2_normalize")
    return node.step("l2_normalize", x=node.x(), axis=node.attr("axis", -1))


# ---------------------------------------------------------------- shapes
def reshape(node):
    shape = node.numbers(1)
    if not node.attr("allowzero", 0):
        shape = [node.array(0).shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return node.step("reshape", x=node.x(), shape=shape)


def unsqueeze(node):
    out, axes = node.x(), node.numbers(1, "axes")
    for axis in sorted(axis % (node.array(0).ndim + len(axes)) for axis in axes):
        out = node.step("expand_dims", x=out, axis=axis)
    return out


def squeeze(node):
    axes = node.numbers(1, "axes")
    return node.step("squeeze", x=node.x(), **({} if axes is None else {"axes": axes}))


def transpose(node):
    perm = node.attr("perm")
    return node.step("transpose", x=node.x(), **({} if perm is None else {"perm": list(perm)}))


def flatten(node):
    shape, axis = node.array(0).shape, node.attr("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return node.step("reshape", x=node.x(), shape=[math.prod(shape[:axis]), math.prod(shape[axis:])])


def identity(node):
    return node.same(node.x(), node.array(0).shape)


def slice_(node):
    members = {name: node.numbers(i) for i, name in ((1, "starts"), (2, "stops"), (3, "axes"), (4, "steps")) if node.array(i) is not None}
    return node.step("slice", x=node.x(), **members)


def concat(node):
    return node.step("concat", inputs=[node.x(i) for i in range(len(node.arrays))], axis=node.attr("axis"))


def split(node):
    axis, n = node.attr("axis", 0), node.output_count
    size = node.array(0).shape[axis]
    each = -(-size // n)
    sizes = node.numbers(1, "split") or [min(each, size - i * each) for i in range(n)]
    ends = [sum(sizes[:i + 1]) for i in range(n)]
    return [node.step("slice", x=node.x(), starts=[end - d], stops=[end], axes=[axis]) for d, end in zip(sizes, ends)]


def one_hot(node):
    indices, axis, rank = node.array(0), node.attr("axis", -1), node.array(0).ndim + 1
    if (indices < 0).any():
        raise Left("negative indices wrap; in one_hot, they give zeros")
    x = node.x() if dtype_of(indices) in ("int16", "int32", "int64") else node.cast(node.x(), "int64")
    off, on = (typed(node.array(2)[i]) for i in (0, 1))
    hot = node.step("where", condition=node.step("one_hot", indices=x, depth=node.numbers(1)[0], dtype="bool"), x=on, y=off)
    perm = list(range(rank - 1))
    perm.insert(axis % rank, rank - 1)
    return node.step("transpose", x=hot, perm=perm)


# ---------------------------------------------------------------- rows, products, dtypes
def gather(node):
    return node.step("gather", params=node.x(0), indices=node.x(1), axis=node.attr("axis", 0), bounds="wrap")


def gather_nd(node):
    return node.step("gather_nd", params=node.x(0), indices=node.x(1), batch_dims=node.attr("batch_dims", 0), bounds="wrap")


def top_k(node):
    if not node.attr("sorted", 1):
        raise Left("sorted = 0: any order")
    values, indices = node.step("top_k", names=("values", "indices"), x=node.x(), k=node.numbers(1)[0], axis=node.attr("axis", -1),
                                largest=bool(node.attr("largest", 1)))
    return [values, node.cast(indices, "int64")]


def einsum(node):
    return node.step("einsum", equation=node.attr("equation"), inputs=[node.x(i) for i in range(len(node.arrays))])


def matmul(node):
    first, second = "...j" if node.array(0).ndim == 1 else "...ij", "j" if node.array(1).ndim == 1 else "...jk"
    output = "..." + "i" * (node.array(0).ndim > 1) + "k" * (node.array(1).ndim > 1)
    return node.step("einsum", equation=f"{first},{second}->{output}", inputs=[node.x(0), node.x(1)])


def gemm(node):
    first, second = "ki" if node.attr("transA", 0) else "ik", "jk" if node.attr("transB", 0) else "kj"
    out = node.step("einsum", equation=f"{first},{second}->ij", inputs=[node.x(0), node.x(1)])
    out = node.step("multiply", x=out, y=node.number(node.attr("alpha", 1.0)))
    if node.array(2) is None:
        return out
    return node.step("add", x=out, y=node.step("multiply", x=node.x(2), y=node.number(node.attr("beta", 1.0))))


def cast(node):
    return node.cast(node.x(), helper.tensor_dtype_to_np_dtype(node.attr("to")).name.replace("object", "string"))


def cast_like(node):
    return node.cast(node.x(), dtype_of(node.array(1)))


def dequantize(node):
    if node.array(1).ndim > 1 or node.array(1).ndim == 1 and node.attr("axis", 1) != 0:
        raise Left("scales per block, or along a dimension other than the first")
    if dtype_of(node.array(0)) not in DTYPES:
        raise Left(LACKING)
    if dtype_of(node.array(0)) not in ("int8", "uint8") or dtype_of(node.array(1)) != "float32":
        raise Left("other dtypes than int8 and uint8 with scales of float32")
    zero = {} if node.array(2) is None else {"zero_point": node.x(2)}
    return node.step("dequantize", params=node.x(0), scale=node.x(1), **zero)


SAME_NAME = ("Abs", "Sign", "Exp", "Log", "Sqrt", "Reciprocal", "Tanh", "Sigmoid", "Erf", "Relu", "Floor", "Ceil", "Round")
CONVERSIONS = {
    **{name: unary(name.lower()) for name in SAME_NAME}, "Neg": unary("negative"), "Not": unary("logical_not"), "IsNaN": unary("is_nan"),
    "Add": binary("add"), "Sub": binary("subtract"), "Mul": binary("multiply"), "Div": div, "Pow": power, "Mod": mod, "Max": folded("maximum"),
    "Min": folded("minimum"), "Sum": folded("add"), "Mean": mean, "Equal": binary("equal"), "Less": binary("less"),
    "LessOrEqual": binary("less_equal"), "Greater": binary("greater"), "GreaterOrEqual": binary("greater_equal"), "And": binary("logical_and"),
    "Or": binary("logical_or"), "Xor": binary("logical_xor"), "IsInf": is_inf, "Clip": clip, "Where": where, "Gelu": gelu,
    "ReduceSum": reduction("reduce_sum"), "ReduceMean": reduction("reduce_mean"), "ReduceMax": reduction("reduce_max"),
    "ReduceMin": reduction("reduce_min"), "ReduceProd": reduction("reduce_prod"), "ReduceL1": reduction("reduce_sum", ["abs"]),
    "ReduceL2": reduction("reduce_sum", ["square"], ["sqrt"]), "ReduceLogSum": reduction("reduce_sum", (), ["log"]),
    "ReduceLogSumExp": reduction("reduce_sum", ["exp"], ["log"]), "ReduceSumSquare": reduction("reduce_sum", ["square"]),
    "ArgMax": position("argmax"), "ArgMin": position("argmin"), "CumSum": cumsum, "Softmax": along_axis("softmax"),
    "LogSoftmax": along_axis("log_softmax"), "LayerNormalization": layer_norm, "LpNormalization": lp_normalize, "Reshape": reshape,
    "Unsqueeze": unsqueeze, "Squeeze": squeeze, "Transpose": transpose, "Flatten": flatten, "Identity": identity, "Slice": slice_, "Concat": concat,
    "Split": split, "OneHot": one_hot, "Gather": gather, "GatherND": gather_nd, "TopK": top_k, "Einsum": einsum, "MatMul": matmul, "Gemm": gemm,
    "Cast": cast, "CastLike": cast_like, "DequantizeLinear": dequantize}


# ---------------------------------------------------------------- running
def program_of(case, arrays):
    """the body of the request, and the names of the outputs in order"""
    graph = case.model.graph
    node = Node(graph.node[0], [value.name for value in graph.input], arrays)
    results = CONVERSIONS[graph.node[0].op_type](node)
    names = [result[1:] for result in (results if isinstance(results, list) else [results])]
    return {"inputs": node.inputs, "steps": node.steps, "outputs": names, "response": "base64"}, names


def difference(got, want, case):
    """text, or None"""
    if got.shape != want.shape or dtype_of(got) != dtype_of(want):
        return f"{dtype_of(got)}{list(got.shape)} instead of {dtype_of(want)}{list(want.shape)}"
    if dtype_of(got) == "string" or got.dtype.kind in "biu":
        is_equal = (got == want).all()
    else:
        rtol = max(case.rtol, float(ml_dtypes.finfo(got.dtype).eps))
        is_equal = np.allclose(*(a.astype(complex) for a in (got, want)), rtol=rtol, atol=case.atol, equal_nan=True)
    return None if is_equal else f"{got.reshape(-1)[:8]} instead of {want.reshape(-1)[:8]}"


def run_case(client, case):
    """None, or why the reply is wrong"""
    for arrays, wants in case.data_sets:
        body, names = program_of(case, arrays)
        wants = [as_array(want) for want in wants][:len(names)]
        if any(dtype_of(want) not in DTYPES for want in wants):
            raise Left(LACKING)
        reply = client.post("/v1/programs/run", body)
        if reply.status != 200:
            return f"status {reply.status}: {reply.json().get('detail')}"
        outputs = reply.json()["outputs"]
        for name, want in zip(names, wants):
            wrong = difference(from_json(outputs[name]), want, case)
            if wrong:
                return wrong
    return None


def cases_of(only):
    with warnings.catch_warnings(action="ignore"):
        cases = collect_testcases(None)
    for case in sorted(cases, key=lambda case: case.name):
        op = case.model.graph.node[0].op_type
        if "_expanded" not in case.name and op in CONVERSIONS and only in (None, op):
            yield op, case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/tensord")
    parser.add_argument("--only", metavar="OP", help="runs the tests of one ONNX op")
    parser.add_argument("--verbose", action="store_true", help="prints each test")
    options = parser.parse_args()
    if options.binary:
        daemon.BINARY = options.binary
    passed, failed, left = collections.Counter(), [], collections.defaultdict(collections.Counter)
    with daemon.Daemon() as running, daemon.Client(running) as client, np.errstate(all="ignore"):
        for op, case in cases_of(options.only):
            try:
                wrong = run_case(client, case)
            except Left as reason:
                left[op][str(reason)] += 1
                wrong = f"left out: {reason}"
            else:
                passed[op] += wrong is None
                if wrong:
                    failed.append(f"{case.name}: {wrong}")
            if options.verbose:
                print(f"{case.name}: {wrong or 'ok'}")
    for op in sorted({*passed, *left}):
        reasons = "; ".join(f"{n} left out: {reason}" for reason, n in left[op].items())
        print(f"{op}: {passed[op]} passed{'; ' if reasons else ''}{reasons}")
    for text in failed:
        print(f"FAILED {text}")
    print(f"{sum(passed.values())} passed, {len(failed)} failed, {sum(sum(c.values()) for c in left.values())} left out")
    sys.exit(0 if passed.total() and not failed else 1)


if __name__ == "__main__":
    main()
