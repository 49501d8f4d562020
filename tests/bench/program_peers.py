#!/usr/bin/env python3
"""Computes what the programs of programs.py compute, with NumPy, PyTorch, ONNX Runtime and OpenVINO.

    program_peers.py LIBRARY CASE FOLDER

FOLDER has the tables and the inputs of the case. After "ready VERSION", the process executes lines of standard input, as peers.py does:

    run FILE        computes once and writes the result to FILE as float32   -> "ran"
    time SECONDS    computes repeatedly                                      -> "timed CALLS BEST_NS MEDIAN_NS"

If there are several inputs, as in rank and bags, the calls use them in turn.
"""
import importlib, itertools, os, sys

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(HERE, "..", folder) for folder in ("http", "programs"))]
import daemon, peers

BAGS, BAG_IDS = 26, 20
# The steps of chain: (op, operand). The operand is a scalar; None: an op of one input.
CHAIN = (("multiply", 0.5), ("add", 1.0), ("maximum", 0.75), ("subtract", 0.25), ("square", None), ("minimum", 2.0), ("negative", None),
         ("abs", None))
THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))


def load(folder, name):
    return np.load(os.path.join(folder, name + ".npy"), mmap_mode="r")


def weights_of(folder):
    """the tensors of minilm.safetensors"""
    with open(os.path.join(folder, "minilm.safetensors"), "rb") as file:
        tensors = daemon.read_safetensors(file.read())[0]
    return {name: np.frombuffer(raw, dtype).reshape(shape) for name, (dtype, shape, raw) in tensors.items()}


def in_turn(calls):
    """a function that makes the calls one after another"""
    cycle = itertools.cycle(calls)
    return lambda: next(cycle)()


# ---------------------------------------------------------------- NumPy
def numpy_chain(folder):
    x, steps = np.array(load(folder, "x")), [(getattr(np, op), () if value is None else (np.float32(value),)) for op, value in CHAIN]

    def run():
        y = x
        for function, operands in steps:
            y = function(y, *operands)
        return y
    return run


# ---------------------------------------------------------------- PyTorch
def torch():
    library = importlib.import_module("torch")
    library.set_num_threads(THREADS)
    library.set_num_interop_threads(1)
    library.set_grad_enabled(False)
    return library


def torch_chain(folder):
    library = torch()
    x, steps = library.from_numpy(np.array(load(folder, "x"))), []
    for op, value in CHAIN:  # maximum and minimum of two tensors do not accept numbers; clamp does
        clamp = {"maximum": "min", "minimum": "max"}.get(op)
        steps.append((library.clamp, (), {clamp: value}) if clamp else (getattr(library, op), () if value is None else (value,), {}))

    def run():
        y = x
        for function, operands, named in steps:
            y = function(y, *operands, **named)
        return y
    return run


def torch_rank(folder):
    """The faster of the two ways to pick rows, rows[ids] and index_select, is index_select."""
    library = torch()
    items, query = (library.from_numpy(load(folder, name)) for name in ("items", "query"))

    def call(ids):
        def run():
            values, place = library.topk(library.mv(library.index_select(items, 0, ids), query), 100)
            return ids[place], values
        return run
    return in_turn([call(library.from_numpy(ids)) for ids in load(folder, "ids")])


def torch_bags(folder):
    """26 calls of embedding_bag for each request, without the concatenation, which would make PyTorch slower."""
    library = torch()
    bag, tables = library.nn.functional.embedding_bag, [library.from_numpy(load(folder, f"bag_{t}")) for t in range(BAGS)]

    def call(ids):
        pairs = list(zip(tables, library.from_numpy(ids).unbind(1)))
        return lambda: [bag(rows, table, mode="sum") for table, rows in pairs]
    return in_turn([call(ids) for ids in load(folder, "ids")])


def torch_minilm(folder):
    """The encoder of transformers.BertModel, with its fastest attention."""
    library = torch()
    f, w = library.nn.functional, {name: library.from_numpy(np.array(value)) for name, value in weights_of(folder).items()}
    ids, mask = (library.from_numpy(np.array(load(folder, name))) for name in ("ids", "mask"))

    def linear(x, name):
        return f.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x, name):
        return f.layer_norm(x, (384,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    def run():
        b, s = ids.shape
        kept = mask.to(library.float32)
        ignored = ((kept - 1) * 1e9)[:, None, None, :]
        x = f.embedding(ids, w["embeddings.word_embeddings.weight"]) + w["embeddings.position_embeddings.weight"][:s]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            heads = (linear(x, f"{name}.attention.self.{part}").view(b, s, 12, 32).transpose(1, 2) for part in ("query", "key", "value"))
            context = f.scaled_dot_product_attention(*heads, attn_mask=ignored).transpose(1, 2).reshape(b, s, 384)
            x = norm(x + linear(context, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
            inner = linear(f.gelu(linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
            x = norm(x + inner, f"{name}.output.LayerNorm")
        means = (x * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
        return f.normalize(means, dim=1)
    return run


# ---------------------------------------------------------------- ONNX Runtime and OpenVINO
def session_of(model, inputs):
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)[0]


def onnxruntime_chain(folder):
    onnx, names = importlib.import_module("onnx"), {"multiply": "Mul", "add": "Add", "maximum": "Max", "subtract": "Sub", "minimum": "Min",
                                                    "negative": "Neg", "abs": "Abs"}
    helper, x, nodes, constants = onnx.helper, np.array(load(folder, "x")), [], []
    for i, (op, value) in enumerate(CHAIN):
        operands = [f"v{i}"] * (2 if op == "square" else 1)
        if value is not None:
            constants.append(onnx.numpy_helper.from_array(np.float32(value), f"c{i}"))
            operands.append(f"c{i}")
        nodes.append(helper.make_node(names.get(op, "Mul"), operands, [f"v{i + 1}"]))
    first, last = (helper.make_tensor_value_info(f"v{i}", onnx.TensorProto.FLOAT, x.shape) for i in (0, len(CHAIN)))
    graph = helper.make_graph(nodes, "chain", [first], [last], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return session_of(model.SerializeToString(), {"v0": x})


def onnx_model(folder):
    """MiniLM as an ONNX model, and its inputs"""
    from sentence_model import sentence_model
    inputs = {name: np.array(load(folder, name)) for name in ("ids", "mask")}
    return sentence_model(weights_of(folder), inputs["ids"].shape[1]).SerializeToString(), inputs


def onnxruntime_minilm(folder):
    return session_of(*onnx_model(folder))


def openvino_minilm(folder):
    library, (model, inputs) = importlib.import_module("openvino"), onnx_model(folder)
    settings = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    core = library.Core()
    read = core.read_model(model, b"")
    read.reshape({name: list(array.shape) for name, array in inputs.items()})
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True)[0]


# ---------------------------------------------------------------- main
def raw_bytes(result):
    """The last of several results, as float32."""
    last = result[-1] if isinstance(result, (tuple, list)) else result
    return np.ascontiguousarray(last, "f4").tobytes()


def main():
    library, case, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        function = globals()[f"{library}_{case}"](folder)
        print("ready", importlib.import_module(library).__version__, file=answers, flush=True)
    except ImportError as e:
        print(f"refused cannot be imported: {e}".replace("\n", " "), file=answers, flush=True)
        return
    for line in sys.stdin:
        word, argument = line.split()
        if word == "run":
            with open(argument, "wb") as file:
                file.write(raw_bytes(function()))
            print("ran", file=answers, flush=True)
        else:
            print("timed %d %.1f %.1f" % peers.time_calls(function, float(argument)), file=answers, flush=True)


if __name__ == "__main__":
    main()
