#!/usr/bin/env python3
"""Self-attention of MiniLM's first layer, computed by tensord from its resident weights: gather and einsum.

    attention.py MODEL_FOLDER        (model.safetensors and vocab.txt; run.sh fetches them, and NumPy)

The server looks up embeddings, projects them on queries, keys and values, and forms scores and weighted sums; this
client adds, applies LayerNorm and softmax, and splits heads by reshaping.  Every result of an einsum is compared
with NumPy, in float64 and in float32.

The error bound of float32: a sum of n products, each rounded and added in any order, with or without fused
multiply-add, differs from the exact one by at most g(n) * sum |a_i b_i|, where g(n) = n u / (1 - n u) and u = 2^-24
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).  So against float64, whose own error is 2^-29
of that, the bound is g(n) * sum |a_i b_i| for each element, and against NumPy in float32, which is off by as much,
twice that.  The inputs of each step are the results of the previous one, so each bound covers one einsum.
"""
import math, os, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
import numpy as np
from check import POSITIONS, SENTENCES, TABLE, File, WordPiece, require
from daemon import SAFETENSORS, Client, Daemon, read_safetensors, safetensors

MODEL = "minilm:"
TYPES = "embeddings.token_type_embeddings.weight"
LAYER = "encoder.layer.0.attention.self."
HEADS, LAYER_NORM_EPS = 12, 1e-12  # the model's config.json
U = 2.0 ** -24


class Weights:
    """the weights of the model, read from the file"""

    def __init__(self, file):
        self.file = file

    def __call__(self, name):
        shape = self.file.shape(name)
        begin, end = (self.file.begin + at for at in self.file.header[name]["data_offsets"])
        return np.frombuffer(self.file.map[begin:end], "<f4").reshape(shape)


def post(client, path, tensors, metadata):
    kinds = {np.dtype("f4"): "float32", np.dtype("i4"): "int32"}
    body = safetensors({n: (kinds[t.dtype], t.shape, t.tobytes()) for n, t in tensors.items()}, metadata)
    reply = client.post(path, body, {"Content-Type": SAFETENSORS})
    require(reply.status == 200, f"{path} {metadata}: {reply}")
    dtype, shape, raw = read_safetensors(reply.body)[0]["output"]
    require(dtype == "float32", f"{path}: a float32 tensor, not {dtype}")
    return np.frombuffer(raw, "<f4").reshape(shape)


class Attention:
    def __init__(self, client, weights):
        self.client, self.weights, self.worst, self.elements = client, weights, 0, 0

    def rows(self, table, ids):
        got = post(self.client, "/v1/gather", {"indices": np.array(ids, "i4")}, {"params.ref": MODEL + table})
        require((got == self.weights(table)[ids]).all(), f"rows of {table} equal the file's")
        return got

    def einsum(self, equation, *operands):
        """an operand is an array, or the name of a resident weight"""
        sent = {f"inputs.{i}": o for i, o in enumerate(operands) if not isinstance(o, str)}
        named = {f"inputs.{i}.ref": MODEL + o for i, o in enumerate(operands) if isinstance(o, str)}
        got = post(self.client, "/v1/einsum", sent, {"equation": equation, **named})
        values = [self.weights(o) if isinstance(o, str) else o for o in operands]
        self.compare(equation, got, values)
        return got

    def compare(self, equation, got, values):
        inputs, output = equation.split("->")
        extent = {label: n for s, v in zip(inputs.split(","), values) for label, n in zip(s, v.shape)}
        n = math.prod(extent[label] for label in set(inputs) - set(output) - {","})
        wide = [v.astype("f8") for v in values]
        exact = np.einsum(equation, *wide)
        bound = n * U / (1 - n * U) * np.einsum(equation, *map(np.abs, wide))
        require(got.shape == exact.shape, f"{equation}: {got.shape} is {exact.shape}")
        off = np.abs(got - exact)
        require((off <= bound).all(), f"{equation}: {(off > bound).sum()} elements are beyond the bound of float32")
        require((np.abs(got - np.einsum(equation, *values, optimize=True)) <= 2 * bound).all(),
                f"{equation}: equal to NumPy's float32 within rounding")
        self.worst = max(self.worst, float((off[bound > 0] / bound[bound > 0]).max(initial=0)))
        self.elements += got.size


def layer_norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True, dtype="f8")
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) / np.sqrt(variance + LAYER_NORM_EPS) * scale + shift).astype("f4")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_numpy(weights, x):
    """the whole layer in float64, to measure the accumulated rounding"""
    def heads(name):
        y = x.astype("f8") @ weights(LAYER + name + ".weight").T.astype("f8") + weights(LAYER + name + ".bias")
        return y.reshape(len(x), HEADS, -1).transpose(1, 0, 2)
    q, k, v = (heads(name) for name in ("query", "key", "value"))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    return scores, (softmax(scores) @ v).transpose(1, 0, 2)


def attend(attention, ids):
    weights = attention.weights
    x = (attention.rows(TABLE, ids) + attention.rows(POSITIONS, list(range(len(ids))))
         + attention.rows(TYPES, [0] * len(ids)))
    x = layer_norm(x, weights("embeddings.LayerNorm.weight"), weights("embeddings.LayerNorm.bias"))

    def heads(name):
        y = attention.einsum("sd,ed->se", x, LAYER + name + ".weight") + weights(LAYER + name + ".bias")
        return y.reshape(len(ids), HEADS, -1)
    q, k, v = (heads(name) for name in ("query", "key", "value"))
    scores = attention.einsum("qhd,khd->hqk", q, k) / np.float32(math.sqrt(q.shape[-1]))
    context = attention.einsum("hqk,khd->qhd", softmax(scores), v)
    # Three einsums, biases and a softmax, each accurate to some 1e-6 of the largest value: 1e-5 allows for their
    # combination, and is far below the effect of a swapped head or a missing scale.
    for what, got, wanted in zip(("scores", "context"), (scores, context), by_numpy(weights, x)):
        off = np.abs(got - wanted).max() / np.abs(wanted).max()
        require(off < 1e-5, f"{what} of the whole layer, off by {off:.1e} of the largest")
    return scores


def main():
    folder = sys.argv[1]
    path = os.path.join(folder, "model.safetensors")
    tokenize = WordPiece(os.path.join(folder, "vocab.txt"))
    with tempfile.TemporaryDirectory(prefix="tensord-real-") as data:
        os.symlink(os.path.abspath(path), os.path.join(data, MODEL.rstrip(":") + ".safetensors"))
        with Daemon("--data-dir", data) as daemon, Client(daemon) as client:
            attention = Attention(client, Weights(File(path)))
            for text in SENTENCES:
                pieces = tokenize(text)
                scores = attend(attention, [tokenize.ids[p] for p in pieces])
                most = [pieces[j] for j in softmax(scores).mean(0).argmax(-1)]
                print(f"  {' '.join(pieces)}\n    scores [{','.join(map(str, scores.shape))}]; '{pieces[2]}' looks at"
                      f" '{most[2]}' most")
            # The longest batch of the model, which several threads compute.
            attend(attention, [(i * 7919) % 30522 for i in range(512)])
    print(f"passed: {attention.elements} elements of einsums within the bound of float32 (at most"
          f" {attention.worst:.3f} of it), and NumPy's within it too")


if __name__ == "__main__":
    main()
