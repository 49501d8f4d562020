#!/usr/bin/env python3
"""Converts an ONNX model to a program of tensord.

    from_onnx.py MODEL.onnx [-o PROGRAM.json] [--shape INPUT=2,128 ...] [--output NAME ...] [--tables FOLDER [--larger-than BYTES]]

The program has a step for each op of the model. "inputs" declares the inputs of the model with their dtypes and shapes. Store the program
with PUT /v1/programs/{name}, or replace the declarations with values and send it to POST /v1/programs/run.

--shape       gives an input a shape. A model that computes with its own shapes, as most models do, needs the shapes of all inputs.
--output      computes only these outputs. By default, the program has all outputs of the model.
--tables      writes weights of at least --larger-than bytes (default 4096) to FOLDER/MODEL.safetensors, a file for the data folder of
              the server, so that requests do not carry them. The program refers to them by name. The script creates FOLDER, but not its
              parent.

Names in the program have only letters, digits and _. The script prints a note for each input and output whose name it changes.

If the model has ops that programs cannot compute, the script lists them, with the node and the reason, and exits with status 1.
Needs the packages onnx and numpy.
"""
import argparse, base64, json, os, re, struct, sys

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

DTYPES = {TensorProto.BOOL: "bool", TensorProto.INT8: "int8", TensorProto.INT16: "int16", TensorProto.INT32: "int32", TensorProto.INT64: "int64",
          TensorProto.UINT8: "uint8", TensorProto.UINT16: "uint16", TensorProto.UINT32: "uint32", TensorProto.UINT64: "uint64",
          TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16", TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}
CODES = {"bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32",
         "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}
FLOATS = ("float16", "bfloat16", "float32", "float64")
END = 2 ** 63 - 1  # a bound of a slice beyond any tensor
LEAST_OPSET = 13  # before it, Softmax and others had other definitions
MOST_STEPS = 256
MOST_TEXT = 1 << 20  # bytes of a stored program
# Members of requests and parameters of the Open Inference Protocol, which the server reserves.
RESERVED = {"inputs", "outputs", "steps", "ttl_s", "priority", "timeout", "headers", "binary_data_output", "sequence_id", "sequence_start",
            "sequence_end", "complex", "content_type", "device", "response", "timing", "store", "output_dtype"}


class Refused(Exception):
    """The reason why a node cannot be converted."""


class Unsupported(Exception):
    """A model that cannot be converted. `found` has rows of (op, node, reason); op and node are "" if the reason is not about a node."""

    def __init__(self, found):
        super().__init__("\n".join(f"{op} {node}: {why}" if op else why for op, node, why in found))
        self.found = found

    def title(self):
        nodes = sum(op != "" for op, _, _ in self.found)
        return f"has {nodes} node{'s' if nodes > 1 else ''} that programs cannot compute" if nodes else "cannot be converted"


# ---------------------------------------------------------------- the model before its conversion
def opset_of(model):
    return next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)


def prepare(model, shapes, outputs):
    """Gives the inputs their shapes, selects the outputs, and replaces constant expressions with their values."""
    model = inliner.inline_local_functions(model)
    set_shapes(model, shapes)
    known = {one.name: one for one in model.graph.output}
    missing = [name for name in outputs if name not in known]
    if missing:
        raise ValueError(f"the model has no output {missing[0]}; it has {', '.join(known)}")
    if outputs:
        del model.graph.output[:]
        model.graph.output.extend(known[name] for name in outputs)
    count = -1
    while count != len(model.graph.node):  # A folded shape can make other shapes known.
        count = len(model.graph.node)
        model = shape_inference.infer_shapes(model, data_prop=True)
        fold(model)
    return model


def set_shapes(model, shapes):
    weights = {one.name for one in model.graph.initializer}
    inputs = {one.name: one for one in model.graph.input if one.name not in weights}
    for name, shape in shapes.items():
        if name not in inputs:
            raise ValueError(f"the model has no input {name}; it has {', '.join(inputs)}")
        dims = inputs[name].type.tensor_type.shape.dim
        if len(shape) != len(dims):
            raise ValueError(f"the input {name} has {len(dims)} dimensions; expected as many in its shape {shape}")
        for dim, extent in zip(dims, shape):
            dim.dim_value = extent
    del model.graph.value_info[:]  # They are inferred again from the shapes of the inputs.


def fold(model):
    """Computes the nodes whose inputs are constant, and turns their results into initializers."""
    values = {one.name: one for one in model.graph.initializer}
    shapes, kept = {info.name: dims_of(info) for info in infos(model)}, []
    for node in model.graph.node:
        found = folded(model, node, values, shapes)
        if found is None:
            kept.append(node)
            continue
        made = [numpy_helper.from_array(np.asarray(value), name) for name, value in zip(node.output, found) if name]
        model.graph.initializer.extend(made)
        values.update((one.name, one) for one in made)
    del model.graph.node[:]
    model.graph.node.extend(kept)


def folded(model, node, values, shapes):
    """Returns the results of a node that does not depend on the inputs of the model, otherwise None."""
    shape = shapes.get(node.input[0]) if node.op_type == "Shape" else None
    if shape is not None and None not in shape:
        given = {one.name: one.i for one in node.attribute}
        return [np.array(shape[given.get("start", 0):given.get("end")], "i8")]
    if not all(name in values for name in node.input if name) or node.op_type.startswith(("Random", "Bernoulli", "Multinomial")) \
            or node.domain not in ("", "ai.onnx") or any(one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for one in node.attribute):
        return None
    graph = helper.make_graph([node], "constant", [], [onnx.ValueInfoProto(name=name) for name in node.output if name],
                              [values[name] for name in dict.fromkeys(node.input) if name])
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=model.opset_import)).run(None, {})


def infos(model):
    return [*model.graph.input, *model.graph.value_info, *model.graph.output]


def dims_of(info):
    """Returns the shape, with None for an extent that is not known; None if the rank is not known."""
    kind = info.type.tensor_type
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim] if kind.HasField("shape") else None


def used_nodes(graph):
    """Returns the nodes that the outputs depend on, in order."""
    wanted, used = {one.name for one in graph.output}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            used.append(node)
    return used[::-1]


def unique(base, taken):
    """Returns the name, with a number at its end if it is taken."""
    return next(one for one in (base, *(f"{base}_{n}" for n in range(2, len(taken) + 3))) if one not in taken)


# ---------------------------------------------------------------- the program
class Converter:
    """A program that is being made from a model. A value of the model is given by its name, or "" for a missing optional input."""

    def __init__(self, model, larger_than, prefix):
        graph = model.graph
        self.values = {one.name: one for one in graph.initializer}
        self.info = {one.name: one for one in infos(model)}
        self.larger_than, self.prefix = larger_than, prefix
        self.steps, self.tables, self.table_names, self.aliases, self.names, self.taken = [], {}, {}, {}, {}, set(RESERVED)
        self.inputs = [one for one in graph.input if one.name not in self.values]
        self.outputs = [one.name for one in graph.output]
        self.consumers = {name for node in used_nodes(graph) for name in node.input} | set(self.outputs)
        for name in (*(one.name for one in self.inputs), *self.outputs):
            self.name_of(name)
        self.makers = {name: node for node in graph.node for name in node.output}
        makers = {node.output[0]: node for node in graph.node if passes_on(node)}
        for name in self.outputs:  # The value that becomes an output has the output's name.
            source = name
            while source in makers:
                source = makers[source].input[0]
            self.names.setdefault(source, self.names[name])

    def name_of(self, value):
        """Returns the name of a value in the program: the end of its name in the model, as letters, digits and _."""
        if value not in self.names:
            self.names[value] = self.new_name(value.removesuffix("_output_0"))
        return self.names[value]

    def renamed(self):
        """Returns the inputs and outputs whose names in the program differ from their names in the model: (what, old, new)."""
        given = [("input", one.name, self.name_of(one.name)) for one in self.inputs] + [("output", name, self.output_name(name)) for name in self.outputs]
        return [one for one in given if one[1] != one[2]]

    def new_name(self, text):
        whole = re.sub(r"\W+", "_", text, flags=re.A).strip("_")
        base = re.sub(r"^(?=[0-9])", "_", whole if len(whole) <= 56 else whole[-56:].partition("_")[2] or whole[-56:]) or "result"
        name = unique(base, self.taken)
        self.taken.add(name)
        return name

    # -------- facts about values
    def dtype(self, value):
        value = self.root(value)
        code = self.values[value].data_type if value in self.values else self.info[value].type.tensor_type.elem_type if value in self.info else 0
        if code not in DTYPES:
            raise Refused(f"{value} has the dtype {TensorProto.DataType.Name(code).lower()}")
        return DTYPES[code]

    def shape(self, value):
        """Returns the shape, with None for unknown extents."""
        value = self.root(value)
        if value in self.values:
            return list(self.values[value].dims)
        dims = dims_of(self.info[value]) if value in self.info else None
        if dims is None:
            raise Refused(f"the rank of {value} is not known; {self.way_out()}")
        return dims

    def extent(self, value, axis):
        found = self.shape(value)[axis]
        if found is None:
            raise Refused(f"the size of dimension {axis} of {value} is not known; {self.way_out()}")
        return found

    def array(self, value, what):
        """Returns the elements of a constant."""
        value = self.root(value)
        if value not in self.values:
            raise Refused(f"{what} is not constant; {self.way_out(value)}")
        return numpy_helper.to_array(self.values[value])

    def integers(self, value, what):
        return [int(one) for one in self.array(value, what).reshape(-1)]

    def way_out(self, value=""):
        """Returns how to make a shape or a value known, or why that is not possible."""
        source = self.source(value)
        if source:
            return f"it depends on the values of the input {source}, which programs do not support"
        if any(None in (dims_of(one) or [None]) for one in self.inputs):
            return "--shape gives the shapes of inputs"
        return "it depends on a size that is known only when the program runs, which programs do not support"

    def source(self, value):
        """Returns an input on whose elements the value depends, or "" if it depends only on constants and shapes."""
        todo, seen, inputs = [value], set(), {one.name for one in self.inputs}
        while todo:
            name = todo.pop()
            if name in inputs:
                return name
            node = self.makers.get(name)
            if node is not None and name not in seen and node.op_type not in ("Shape", "Size"):
                todo.extend(node.input)
            seen.add(name)
        return ""

    # -------- making steps
    def root(self, value):
        while value in self.aliases:
            value = self.aliases[value]
        return value

    def operand(self, value):
        """Returns a value of the model, a result of `step`, an array, or plain numbers as an input of a step. Plain numbers take the
        dtype of the step's other tensors."""
        if not isinstance(value, str):
            return constant(value) if isinstance(value, np.ndarray) else value
        value = self.root(value)
        if value in self.values:
            return self.weight(value)
        return value if value.startswith("$") else "$" + self.name_of(value)

    def weight(self, value):
        proto = self.values[value]
        dtype, data = self.dtype(value), raw(proto)
        if self.larger_than is None or len(data) < self.larger_than:
            return typed(dtype, list(proto.dims), data)
        name = self.table_names.setdefault(value, unique(re.sub(r"[^A-Za-z0-9_.-]", "_", value), self.table_names.values()))
        self.tables[name] = (dtype, list(proto.dims), data)
        return {"ref": f"{self.prefix}:{name}"}

    def step(self, op, result=None, **members):
        """Adds a step, and returns a reference to its result. `result` is the value of the model that it computes, if any."""
        name = self.name_of(result) if result else self.new_name(op)
        given = {key: [self.operand(one) for one in value] if key == "inputs" else self.operand(value) if key in INPUTS else value
                 for key, value in members.items() if value is not None}
        self.steps.append({"op": op, **given, "as": name})
        return "$" + name

    def same(self, node):
        """The node returns its first input."""
        self.aliases[node.output[0]] = node.input[0]

    def convert(self, node):
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.domain not in ("", "ai.onnx"):
            raise Refused(f"the op is not of ONNX, but of {node.domain}")
        if node.op_type not in OPS and not passes_on(node):
            raise Refused("programs have no such op")
        extra = [name for name in node.output[1:] if name in self.consumers]
        if extra and node.op_type not in SEVERAL:
            raise Refused(f"only the first output is supported, but {extra[0]} is used")
        if passes_on(node):
            return self.same(node)
        return OPS[node.op_type](self, node, attributes)

    def program(self):
        declared = {}
        used = set(re.findall(r'"\$(\w+)"', json.dumps(self.steps)))
        for one in self.inputs:
            if self.name_of(one.name) in used:
                declared[self.name_of(one.name)] = {"dtype": self.dtype(one.name), "shape": self.declared_shape(one)}
        named = {}
        for name in self.outputs:
            other = named.setdefault(self.output_name(name), name)
            if other != name:
                raise Refused(f"the outputs {other} and {name} are the same value; a program returns it once; --output selects one of them")
        return {"inputs": declared, "steps": self.steps, "outputs": list(named)}

    def declared_shape(self, one):
        """Returns the shape of an input, with a name for an extent that each request chooses."""
        names = [re.sub(r"\W", "_", dim.dim_param, flags=re.A) for dim in one.type.tensor_type.shape.dim]
        return [name if re.match("[A-Za-z_]", name) else f"{self.name_of(one.name)}_{axis}" if extent is None else extent
                for axis, (name, extent) in enumerate(zip(names, dims_of(one)))]

    def output_name(self, value):
        root = self.root(value)
        if root in self.values or root in {one.name for one in self.inputs}:
            raise Refused(f"the output {value} is an input or a constant; programs return results of steps; --output selects other outputs")
        return self.name_of(root)


# Members of steps that are tensors.
INPUTS = {"x", "y", "inputs", "params", "indices", "condition", "min", "max", "scale", "bias"}


def raw(proto):
    """Returns the elements of an initializer as little-endian bytes."""
    return proto.raw_data if proto.HasField("raw_data") else np.ascontiguousarray(numpy_helper.to_array(proto)).tobytes()


def typed(dtype, shape, data):
    """Returns a tensor in JSON: a single number as text, which is exact, and everything else as base64."""
    if shape == [] and dtype != "bfloat16" and np.isfinite(np.frombuffer(data, dtype)[0]):
        return {"dtype": dtype, "shape": [], "data": np.frombuffer(data, dtype)[0].item()}
    return {"dtype": dtype, "shape": shape, "base64": base64.b64encode(data).decode()}


def constant(values):
    return typed(values.dtype.name, list(values.shape), np.ascontiguousarray(values).tobytes())


def passes_on(node):
    """True if the node returns its first input."""
    return node.op_type in ("Identity", "Dropout") or node.op_type in ("Concat", "Max", "Min", "Sum") and len(node.input) == 1


# ---------------------------------------------------------------- elementwise ops
def unary(op):
    return lambda c, node, attributes: c.step(op, node.output[0], x=node.input[0])


def binary(op):
    return lambda c, node, attributes: c.step(op, node.output[0], x=node.input[0], y=node.input[1])


def variadic(op):
    """An op with any number of inputs, as a chain of an op with two."""
    def convert(c, node, attributes):
        inputs = list(node.input)
        x = inputs[0]
        for y in inputs[1:-1]:
            x = c.step(op, x=x, y=y)
        return c.step(op, node.output[0], x=x, y=inputs[-1])
    return convert


def divide(c, node, attributes):
    if c.dtype(node.input[0]) not in FLOATS:
        raise Refused("integers are divided; ONNX rounds the quotient towards zero, and floor_divide rounds it down")
    c.step("divide", node.output[0], x=node.input[0], y=node.input[1])


def modulo(c, node, attributes):
    if attributes.get("fmod"):
        raise Refused("fmod=1 gives the remainder the sign of the dividend, and floor_mod gives it the sign of the divisor")
    binary("floor_mod")(c, node, attributes)


def power(c, node, attributes):
    x, y = node.input
    if c.dtype(x) != c.dtype(y):
        if "int" in c.dtype(x) and "float" in c.dtype(y):
            raise Refused(f"an integer base with an exponent of {c.dtype(y)} is not supported")
        y = c.step("cast", x=y, dtype=c.dtype(x))
    c.step("power", node.output[0], x=x, y=y)


def clip(c, node, attributes):
    x, low, high = (*node.input, "", "")[:3]
    if not low and not high:
        return c.same(node)
    if low and high:
        return c.step("clip", node.output[0], x=x, min=low, max=high)
    return c.step("maximum" if low else "minimum", node.output[0], x=x, y=low or high)


def gelu(c, node, attributes):
    c.step("gelu", node.output[0], x=node.input[0], approximate=attributes.get("approximate", b"none") == b"tanh")


def leaky(slope):
    """x, or x times a slope where it is negative. `slope` returns the slope."""
    def convert(c, node, attributes):
        x = node.input[0]
        negative = c.step("less", x=x, y=0)
        c.step("where", node.output[0], condition=negative, x=c.step("multiply", x=x, y=slope(node, attributes)), y=x)
    return convert


def cast(c, node, attributes):
    if attributes["to"] not in DTYPES:
        raise Refused(f"the dtype {TensorProto.DataType.Name(attributes['to']).lower()}")
    c.step("cast", node.output[0], x=node.input[0], dtype=DTYPES[attributes["to"]])


def where(c, node, attributes):
    condition, x, y = node.input
    c.step("where", node.output[0], condition=condition, x=x, y=y)


# ---------------------------------------------------------------- products
def matmul(c, node, attributes):
    ranks = [len(c.shape(value)) for value in node.input]
    left, right = ("...ij" if ranks[0] > 1 else "j"), ("...jk" if ranks[1] > 1 else "j")
    result = "..." * (max(ranks) > 2 or min(ranks) > 1) + "i" * (ranks[0] > 1) + "k" * (ranks[1] > 1)
    if min(ranks) == 1 and max(ranks) > 1:
        result = "..." + result
    c.step("einsum", node.output[0], equation=f"{left},{right}->{result.replace('......', '...')}", inputs=list(node.input))


def gemm(c, node, attributes):
    a, b, bias = (*node.input, "")[:3]
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    equation = f"{'ji' if attributes.get('transA') else 'ij'},{'kj' if attributes.get('transB') else 'jk'}->ik"
    steps = [("multiply", alpha)] * (alpha != 1)
    if bias:
        steps.append(("add", c.step("multiply", x=bias, y=beta) if beta != 1 else bias))
    x = c.step("einsum", None if steps else node.output[0], equation=equation, inputs=[a, b])
    for number, (op, y) in enumerate(steps, 1):
        x = c.step(op, node.output[0] if number == len(steps) else None, x=x, y=y)


def einsum(c, node, attributes):
    c.step("einsum", node.output[0], equation=attributes["equation"].decode(), inputs=list(node.input))


# ---------------------------------------------------------------- reductions and normalisations
def axes_of(c, node, attributes, at=1):
    """Returns the axes, an input or an attribute, or None."""
    if len(node.input) > at and node.input[at]:
        return c.integers(node.input[at], "the list of axes")
    return list(attributes["axes"]) if "axes" in attributes else None


def reduction(op, before=None, after=None):
    """A reduction, with an op before it and one after it."""
    def convert(c, node, attributes):
        axes = axes_of(c, node, attributes)
        if not axes:
            axes = [] if attributes.get("noop_with_empty_axes") else None
        x = c.step(before, x=node.input[0]) if before else node.input[0]
        x = c.step(op, None if after else node.output[0], x=x, axes=axes, keepdims=bool(attributes.get("keepdims", 1)))
        if after:
            c.step(after, node.output[0], x=x)
    return convert


def arg(op):
    def convert(c, node, attributes):
        if attributes.get("select_last_index"):
            raise Refused("select_last_index=1 is not supported; argmax and argmin return the first index")
        axis, keep = attributes.get("axis", 0), attributes.get("keepdims", 1)
        if axis < 0 and keep:
            axis += len(c.shape(node.input[0]))
        x = c.step(op, None if keep else node.output[0], x=node.input[0], axis=axis)
        if keep:
            c.step("expand_dims", node.output[0], x=x, axis=axis)
    return convert


def cumsum(c, node, attributes):
    c.step("cumsum", node.output[0], x=node.input[0], axis=c.integers(node.input[1], "the axis")[0],
           exclusive=bool(attributes.get("exclusive")), reverse=bool(attributes.get("reverse")))


def softmax(op):
    return lambda c, node, attributes: c.step(op, node.output[0], x=node.input[0], axis=attributes.get("axis", -1))


def layer_norm(c, node, attributes):
    x, scale, bias = (*node.input, "")[:3]
    c.step("layer_norm", node.output[0], x=x, scale=scale, bias=bias or None, axis=attributes.get("axis", -1), epsilon=attributes.get("epsilon", 1e-5))


def lp_normalization(c, node, attributes):
    if attributes.get("p", 2) != 2:
        raise Refused("p=1 is not supported; l2_normalize divides by the square root of the sum of squares")
    c.step("l2_normalize", node.output[0], x=node.input[0], axis=attributes.get("axis", -1), epsilon=0)


def batch_normalization(c, node, attributes):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with the constants combined to a factor and a summand."""
    if attributes.get("training_mode"):
        raise Refused("training_mode=1 computes statistics of the batch")
    scale, bias, mean, variance = (c.array(value, "a parameter").astype("f8") for value in node.input[1:])
    factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    shape = [-1] + [1] * (len(c.shape(node.input[0])) - 2)
    scaled = c.step("multiply", x=node.input[0], y=factor.reshape(shape).tolist())
    c.step("add", node.output[0], x=scaled, y=(bias - mean * factor).reshape(shape).tolist())


# ---------------------------------------------------------------- selecting elements
def gather(c, node, attributes):
    axis, indices = attributes.get("axis", 0), node.input[1]
    if c.root(indices) in c.values and (c.array(indices, "") < 0).any():
        found = c.array(indices, "")
        indices = np.where(found < 0, found + c.extent(node.input[0], axis), found)
    c.step("gather", node.output[0], params=node.input[0], indices=indices, axis=axis)


def gather_nd(c, node, attributes):
    c.step("gather_nd", node.output[0], params=node.input[0], indices=node.input[1], batch_dims=attributes.get("batch_dims", 0))


def slices(c, node, attributes):
    given = [c.integers(value, what) if value else None
             for value, what in zip((*node.input[1:], "", "")[:4], ("a start", "an end", "the list of axes", "a step"))]
    starts, stops, axes, steps = given
    stops = [END if stop > 2 ** 31 - 2 else stop for stop in stops]
    c.step("slice", node.output[0], x=node.input[0], starts=starts, stops=stops, steps=steps, axes=axes or list(range(len(starts))))


def split(c, node, attributes):
    axis, n = attributes.get("axis", 0), len(node.output)
    if len(node.input) > 1 and node.input[1]:
        sizes = c.integers(node.input[1], "the list of sizes")
    else:
        sizes = [-(-c.extent(node.input[0], axis) // n)] * n  # The last part can be smaller: slices end with the dimension.
    ends = np.cumsum(sizes)
    for result, size, end in zip(node.output, sizes, ends):
        if result in c.consumers:
            c.step("slice", result, x=node.input[0], starts=[int(end - size)], stops=[int(end)], axes=[axis])


def top_k(c, node, attributes):
    k, axis = c.integers(node.input[1], "k")[0], attributes.get("axis", -1)
    values, indices = (name if name in c.consumers else None for name in (*node.output, "")[:2])
    named, wide = {}, c.new_name("positions") if indices else None
    if values:
        named["values"] = c.name_of(values)
    if indices:
        named["indices"] = wide
    c.steps.append({"op": "top_k", "x": c.operand(node.input[0]), "k": k, "axis": axis, "largest": bool(attributes.get("largest", 1)), "as": named})
    if indices:
        c.step("cast", indices, x="$" + wide, dtype="int64")


def one_hot(c, node, attributes):
    if attributes.get("axis", -1) != -1:
        raise Refused("the axis is not the last one")
    depth, values = c.integers(node.input[1], "depth")[0], node.input[2]
    indices, dtype = node.input[0], c.dtype(node.input[0])
    if dtype not in ("int32", "int64"):
        raise Refused(f"the indices are {dtype}; expected int32 or int64")
    negative = c.step("less", x=indices, y=0)
    wrapped = c.step("where", condition=negative, x=c.step("add", x=indices, y=depth), y=indices)
    hot = c.step("one_hot", indices=wrapped, depth=depth, dtype="bool")
    off, on = (c.step("gather", params=values, indices=at) for at in (0, 1))
    c.step("where", node.output[0], condition=hot, x=on, y=off)


# ---------------------------------------------------------------- shapes
def reshape(c, node, attributes):
    x, shape = node.input[0], c.integers(node.input[1], "the shape")
    if not attributes.get("allowzero"):
        shape = [c.extent(x, axis) if extent == 0 else extent for axis, extent in enumerate(shape)]
    c.step("reshape", node.output[0], x=x, shape=shape)


def flatten(c, node, attributes):
    x, axis = node.input[0], attributes.get("axis", 1)
    shape = [c.extent(x, at) for at in range(len(c.shape(x)))]
    axis = axis + len(shape) if axis < 0 else axis
    c.step("reshape", node.output[0], x=x, shape=[int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))])


def transpose(c, node, attributes):
    c.step("transpose", node.output[0], x=node.input[0], perm=list(attributes["perm"]) if "perm" in attributes else None)


def squeeze(c, node, attributes):
    c.step("squeeze", node.output[0], x=node.input[0], axes=axes_of(c, node, attributes))


def unsqueeze(c, node, attributes):
    axes, x = axes_of(c, node, attributes), node.input[0]
    if min(axes) < 0:
        axes = [axis % (len(c.shape(x)) + len(axes)) for axis in axes]
    for axis in sorted(axes):
        x = c.step("expand_dims", node.output[0] if axis == max(axes) else None, x=x, axis=axis)


def concat(c, node, attributes):
    c.step("concat", node.output[0], inputs=list(node.input), axis=attributes["axis"])


def expand(c, node, attributes):
    """`where` with a condition of the new shape broadcasts any dtype without a change of bits."""
    target = c.integers(node.input[1], "the shape")
    if target == c.shape(node.input[0]) or all(extent == 1 for extent in target) and len(target) <= len(c.shape(node.input[0])):
        return c.same(node)
    return c.step("where", node.output[0], condition=np.ones(target, "?"), x=node.input[0], y=node.input[0])


def not_folded(c, node, attributes):
    way_out = c.way_out("" if node.op_type in ("Shape", "Size") else node.output[0])
    raise Refused(f"its result depends on the shape or the values of {node.input[0]}; {way_out}")


SEVERAL = {"Split", "TopK"}  # ops with several outputs
OPS = {
    **{name: unary(op) for name, op in (("Abs", "abs"), ("Ceil", "ceil"), ("Erf", "erf"), ("Exp", "exp"), ("Floor", "floor"), ("IsNaN", "is_nan"), ("Log", "log"),
                                        ("Neg", "negative"), ("Not", "logical_not"), ("Reciprocal", "reciprocal"), ("Relu", "relu"), ("Round", "round"),
                                        ("Sigmoid", "sigmoid"), ("Sign", "sign"), ("Sqrt", "sqrt"), ("Tanh", "tanh"))},
    **{name: binary(op) for name, op in (("Add", "add"), ("Sub", "subtract"), ("Mul", "multiply"), ("Equal", "equal"), ("Less", "less"), ("LessOrEqual", "less_equal"),
                                         ("Greater", "greater"), ("GreaterOrEqual", "greater_equal"), ("And", "logical_and"), ("Or", "logical_or"), ("Xor", "logical_xor"))},
    **{name: variadic(op) for name, op in (("Max", "maximum"), ("Min", "minimum"), ("Sum", "add"))},
    **{"Reduce" + name: reduction(op) for name, op in (("Sum", "reduce_sum"), ("Mean", "reduce_mean"), ("Max", "reduce_max"), ("Min", "reduce_min"), ("Prod", "reduce_prod"))},
    "ReduceL1": reduction("reduce_sum", before="abs"), "ReduceSumSquare": reduction("reduce_sum", before="square"),
    "ReduceL2": reduction("reduce_sum", before="square", after="sqrt"), "ReduceLogSum": reduction("reduce_sum", after="log"),
    "ArgMax": arg("argmax"), "ArgMin": arg("argmin"), "BatchNormalization": batch_normalization, "Cast": cast, "Clip": clip, "Concat": concat,
    "CumSum": cumsum, "Div": divide, "Einsum": einsum, "Expand": expand, "Flatten": flatten,
    "Gather": gather, "GatherND": gather_nd, "Gelu": gelu, "Gemm": gemm,
    "LayerNormalization": layer_norm, "LeakyRelu": leaky(lambda node, attributes: attributes.get("alpha", 0.01)),
    "LogSoftmax": softmax("log_softmax"), "LpNormalization": lp_normalization, "MatMul": matmul, "Mod": modulo, "OneHot": one_hot, "PRelu": leaky(lambda node, attributes: node.input[1]),
    "Pow": power, "Reshape": reshape, **dict.fromkeys(("ConstantOfShape", "Range", "Shape", "Size"), not_folded), "Slice": slices, "Softmax": softmax("softmax"), "Split": split, "Squeeze": squeeze, "TopK": top_k,
    "Transpose": transpose, "Unsqueeze": unsqueeze, "Where": where}


def convert(model, shapes=None, outputs=(), larger_than=None, prefix="model"):
    """Returns the program, and the tables that it refers to: dtype, shape and bytes by name. Raises Unsupported.

    `shapes` has shapes of inputs by name. Weights of at least `larger_than` bytes become tables, named prefix:NAME; with None, no weight does."""
    converter = converted(model, shapes, outputs, larger_than, prefix)
    return converter.program(), converter.tables


def converted(model, shapes=None, outputs=(), larger_than=None, prefix="model"):
    """Returns the converter, with the steps of the model."""
    if opset_of(model) < LEAST_OPSET:
        raise ValueError(f"the model has opset {opset_of(model)}; expected {LEAST_OPSET} or later: onnx.version_converter.convert_version(model, {LEAST_OPSET}) converts it")
    model = prepare(model, shapes or {}, outputs)
    converter, found = Converter(model, larger_than, prefix), []
    for node in used_nodes(model.graph):
        try:
            converter.convert(node)
        except Refused as error:
            found.append((node.op_type, node.name or node.output[0], str(error)))
    if not found and len(converter.steps) > MOST_STEPS:
        found = [("", "", f"the model has {len(converter.steps)} steps; a program has at most {MOST_STEPS}")]
    if not found:
        try:
            converter.program()
        except Refused as error:
            found = [("", "", str(error))]
    if found:
        raise Unsupported(found)
    return converter


# ---------------------------------------------------------------- the command
def write_tables(tables, path):
    """Writes a safetensors file."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tables.items():
        header[name] = {"dtype": CODES[dtype], "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tables.values():
            file.write(data)


def make_folder(path):
    """Creates the last folder of a path. A missing parent is probably a mistake in its name."""
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise ValueError(f"--tables {path}: the folder {parent} does not exist")
    if not os.path.isdir(path):
        os.mkdir(path)


def program_text(program):
    """Returns the program as JSON, with a line for each step."""
    steps = ",\n".join("  " + json.dumps(step) for step in program["steps"])
    return f'{{"inputs": {json.dumps(program["inputs"])},\n "steps": [\n{steps}],\n "outputs": {json.dumps(program["outputs"])}}}\n'


def shape_argument(text):
    name, equals, extents = text.rpartition("=")
    if not equals or not re.fullmatch(r"\d+(,\d+)*|", extents):
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=EXTENTS, such as ids=2,128")
    return name, [int(extent) for extent in extents.split(",") if extent]


def note(text):
    print(f"note: {text}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("-o", metavar="PROGRAM.json", help="the file to write (default: standard output)")
    parser.add_argument("--shape", action="append", default=[], type=shape_argument, metavar="INPUT=EXTENTS", help="the shape of an input, such as ids=2,128")
    parser.add_argument("--output", action="append", default=[], metavar="NAME", help="an output to compute (default: all)")
    parser.add_argument("--tables", metavar="FOLDER", help="the folder for weights")
    parser.add_argument("--larger-than", type=int, default=4096, metavar="BYTES", help="the smallest weight that becomes a table (default: 4096)")
    args = parser.parse_args()
    prefix = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.splitext(os.path.basename(args.model))[0])
    try:
        converter = converted(onnx.load(args.model), dict(args.shape), args.output, args.larger_than if args.tables else None, prefix)
        text = program_text(converter.program())
        if converter.tables:
            make_folder(args.tables)
            write_tables(converter.tables, os.path.join(args.tables, prefix + ".safetensors"))
        with open(args.o, "w", encoding="utf-8") if args.o else os.fdopen(os.dup(1), "w") as file:
            file.write(text)
        for what, old, new in converter.renamed():
            note(f"the {what} {old} is {new} in the program")
        if len(text) > MOST_TEXT:
            note(f"the program has {len(text)} bytes, and the server stores at most {MOST_TEXT}; "
                 + ("a smaller --larger-than keeps more weights out of the text" if args.tables else "--tables FOLDER keeps the weights out of the text"))
    except Unsupported as error:
        sys.exit(f"from_onnx.py: {args.model} {error.title()}:\n{error}")
    except (OSError, ValueError, DecodeError, shape_inference.InferenceError) as error:
        sys.exit(f"from_onnx.py: {error}")


if __name__ == "__main__":
    main()
