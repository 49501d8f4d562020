#!/usr/bin/env python3
"""Computes the ops that ops.py compares, with NumPy, PyTorch or ONNX Runtime.

    op_peers.py LIBRARY

The process executes lines of standard input, as peers.py does. Each table has a function for an op: (attributes as text, inputs
{name: [tensors]}) -> a function without arguments, which computes the op.
"""
import os, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers


def functions(module, names):
    """Returns {op: call} for functions of `module` that take the op's inputs in order; names: {op: name of the function}."""
    def call_of(name):
        function = module
        for part in name.split("."):
            function = getattr(function, part)
        return lambda attrs, inputs: lambda: function(*(tensors[0] for tensors in inputs.values()))
    return {op: call_of(name) for op, name in names.items()}


# ---------------------------------------------------------------- NumPy
def numpy_calls(np):
    same = ("add", "subtract", "multiply", "divide", "floor_divide", "power", "maximum", "minimum", "equal", "not_equal", "less",
            "less_equal", "greater", "greater_equal", "logical_and", "logical_not", "negative", "abs", "sign", "square", "exp", "log",
            "sqrt", "reciprocal", "tanh", "floor", "ceil", "where", "clip")
    calls = functions(np, {**{op: op for op in same}, "floor_mod": "remainder", "round": "rint", "is_nan": "isnan"})
    one = np.float32(1)
    calls["relu"] = lambda attrs, inputs: lambda x=inputs["x"][0]: np.maximum(x, np.float32(0))
    calls["sigmoid"] = lambda attrs, inputs: lambda x=inputs["x"][0]: one / (one + np.exp(-x))
    calls["rsqrt"] = lambda attrs, inputs: lambda x=inputs["x"][0]: one / np.sqrt(x)
    return calls


# ---------------------------------------------------------------- PyTorch
def torch_calls(torch):
    same = ("add", "subtract", "multiply", "divide", "floor_divide", "maximum", "minimum", "logical_and", "logical_not", "negative",
            "abs", "sign", "square", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "erf", "relu", "floor", "ceil",
            "round", "where", "clip", "less_equal", "greater", "greater_equal", "not_equal", "less")
    return functions(torch, {**{op: op for op in same}, "power": "pow", "floor_mod": "remainder", "equal": "eq", "is_nan": "isnan",
                             "gelu": "nn.functional.gelu"})


# ---------------------------------------------------------------- ONNX Runtime
ONNX = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "maximum": "Max", "minimum": "Min",
        "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
        "logical_and": "And", "logical_not": "Not", "negative": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log",
        "sqrt": "Sqrt", "reciprocal": "Reciprocal", "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf", "relu": "Relu", "gelu": "Gelu",
        "floor": "Floor", "ceil": "Ceil", "round": "Round", "where": "Where", "is_nan": "IsNaN"}
BOOLEAN = {"equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_not", "is_nan"}


def onnx_call(onnx, session_of, op, attrs, inputs):
    """Returns a function that runs a model of one node."""
    helper, np_dtype_to_tensor = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype
    arrays = {name: tensors[0] for name, tensors in inputs.items()}
    values = [helper.make_tensor_value_info(name, np_dtype_to_tensor(array.dtype), array.shape) for name, array in arrays.items()]
    last = arrays[list(arrays)[-1]]
    result = onnx.TensorProto.BOOL if op in BOOLEAN else np_dtype_to_tensor(last.dtype)
    output = helper.make_tensor_value_info("output", result, None)
    graph = helper.make_graph([helper.make_node(ONNX[op], list(arrays), ["output"])], op, values, [output])
    session = session_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString())
    return lambda: session.run(None, arrays)[0]


# ---------------------------------------------------------------- the libraries
class NumPy(peers.Library):
    def calls(self):
        return numpy_calls(self.numpy)

    def call(self, op, attrs, inputs):
        calls = self.calls()
        if op not in calls:
            raise peers.Refused(f"has no {op}")
        return calls[op](attrs, inputs)


class Torch(NumPy, peers.Torch):
    def calls(self):
        return torch_calls(self.torch)


class OnnxRuntime(peers.Library):
    def __init__(self, threads):
        super().__init__(threads)
        import onnx, onnxruntime
        self.onnx, self.runtime, self.version = onnx, onnxruntime, onnxruntime.__version__
        self.note = f"intra_op_num_threads={threads}"

    def session(self, model):
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        return self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def call(self, op, attrs, inputs):
        if op not in ONNX:
            raise peers.Refused(f"has no {op}")
        return onnx_call(self.onnx, self.session, op, attrs, inputs)


if __name__ == "__main__":
    peers.serve(sys.argv[1], {"numpy": NumPy, "torch": Torch, "onnxruntime": OnnxRuntime})
