"""The sentence model all-MiniLM-L6-v2 as an ONNX graph."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """an ONNX graph that is being built; each method adds a node, and returns the name of its result"""

    def __init__(self, weights):
        self.nodes, self.weights = [], dict(weights)

    def __getattr__(self, op):
        def add(*inputs, **attributes):
            names = [self.value(one) for one in inputs]
            self.nodes.append(helper.make_node(op, names, [f"v{len(self.nodes)}"], **attributes))
            return self.nodes[-1].output[0]
        return add

    def value(self, one):
        if isinstance(one, str):
            return one
        self.weights[f"c{len(self.weights)}"] = np.asarray(one)
        return f"c{len(self.weights) - 1}"

    def linear(self, x, name):
        return self.Add(self.MatMul(x, self.Transpose(f"{name}.weight")), f"{name}.bias")

    def norm(self, x, name):
        return self.LayerNormalization(x, f"{name}.weight", f"{name}.bias", epsilon=1e-12)

    def heads(self, x, name, perm):
        return self.Transpose(self.Reshape(self.linear(x, name), [0, -1, 12, 32]), perm=perm)


def sentence_model(weights, length):
    """all-MiniLM-L6-v2 as an ONNX graph"""
    g = Graph(weights)
    x = g.Add(g.Gather("embeddings.word_embeddings.weight", "ids"), g.Gather("embeddings.position_embeddings.weight", np.arange(length)))
    x = g.norm(g.Add(x, g.Gather("embeddings.token_type_embeddings.weight", np.array(0))), "embeddings.LayerNorm")
    kept = g.Cast("mask", to=TensorProto.FLOAT)
    ignored = g.Mul(g.Sub(g.Unsqueeze(kept, [1, 2]), np.float32(1)), np.float32(1e9))
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        query, value = (g.heads(x, f"{name}.attention.self.{part}", [0, 2, 1, 3]) for part in ("query", "value"))
        key = g.heads(x, f"{name}.attention.self.key", [0, 2, 3, 1])
        scores = g.Softmax(g.Add(g.Div(g.MatMul(query, key), np.float32(32 ** 0.5)), ignored))
        context = g.Reshape(g.Transpose(g.MatMul(scores, value), perm=[0, 2, 1, 3]), [0, -1, 384])
        x = g.norm(g.Add(x, g.linear(context, f"{name}.attention.output.dense")), f"{name}.attention.output.LayerNorm")
        inner = g.linear(x, f"{name}.intermediate.dense")
        inner = g.Mul(g.Mul(inner, np.float32(0.5)), g.Add(g.Erf(g.Div(inner, np.float32(2 ** 0.5))), np.float32(1)))
        x = g.norm(g.Add(x, g.linear(inner, f"{name}.output.dense")), f"{name}.output.LayerNorm")
    kept = g.Unsqueeze(kept, [2])
    means = g.Div(g.ReduceSum(g.Mul(x, kept), [1], keepdims=0), g.ReduceSum(kept, [1], keepdims=0))
    g.nodes.append(helper.make_node("LpNormalization", [means], ["vectors"], axis=-1))
    infos = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", length]) for name in ("ids", "mask")]
    graph = helper.make_graph(g.nodes, "minilm", infos, [onnx.ValueInfoProto(name="vectors")], [numpy_helper.from_array(one, name) for name, one in g.weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
