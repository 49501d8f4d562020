#!/usr/bin/env python3
"""Makes a table of static word vectors from a sentence model: a sentence is then the mean of its words' rows.

    distill.py MODEL_FOLDER OUTPUT.npy [--columns 256]

The model is a BERT encoder with mean pooling, as from sentence-transformers: MODEL_FOLDER has config.json, model.safetensors and
vocab.txt. The output has a row of float32 for each entry of the vocabulary, in the order of vocab.txt. Needs NumPy.

The method is Model2Vec (https://github.com/MinishLab/model2vec):

1. Each entry of the vocabulary goes through the model as a sentence of its own.
2. The vectors are reduced to their principal components.
3. Row i is multiplied by log(1 + i). Vocabularies are sorted by frequency, so frequent words count less.
"""
import argparse, json, math, os, sys

import numpy as np

BATCH = 128
DTYPES = {"F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    data = np.memmap(path, "u1", "r")
    length = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:8 + length]))
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] in DTYPES:
            begin, end = (8 + length + at for at in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"]).astype("f4")
    return tensors


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def gelu(x):
    """x times the normal distribution function, approximated with tanh to 0.001"""
    inner = x * x
    inner *= np.float32(0.044715 * math.sqrt(2 / math.pi))
    inner += np.float32(math.sqrt(2 / math.pi))
    inner *= x
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner


class Encoder:
    """a BERT encoder with mean pooling"""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
            self.vocabulary = file.read().splitlines()
        self.tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.first, self.last = (self.vocabulary.index(entry) for entry in ("[CLS]", "[SEP]"))

    def dense(self, name, x):
        rows = x.reshape(-1, x.shape[-1]) @ self.tensors[name + ".weight"].T  # NumPy would multiply three dimensions batch by batch
        return (rows + self.tensors[name + ".bias"]).reshape(*x.shape[:-1], -1)

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def attention(self, layer, x):
        heads = self.config["num_attention_heads"]
        batch, length, columns = x.shape
        query, key, value = (self.dense(f"{layer}.self.{name}", x).reshape(batch, length, heads, -1).swapaxes(1, 2)
                             for name in ("query", "key", "value"))
        scores = softmax(query @ key.swapaxes(2, 3) / np.float32(math.sqrt(columns / heads)))
        return self.dense(layer + ".output.dense", (scores @ value).swapaxes(1, 2).reshape(x.shape))

    def __call__(self, ids):
        """the vectors of sentences of the same length: a matrix of vocabulary entries, without [CLS] and [SEP]"""
        ids = np.pad(ids, ((0, 0), (1, 1)), constant_values=((0, 0), (self.first, self.last)))
        x = self.tensors["embeddings.word_embeddings.weight"][ids] \
            + self.tensors["embeddings.position_embeddings.weight"][:ids.shape[1]] + self.tensors["embeddings.token_type_embeddings.weight"][0]
        x = self.norm("embeddings.LayerNorm", x)
        for i in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}"
            x = self.norm(layer + ".attention.output.LayerNorm", x + self.attention(layer + ".attention", x))
            x = self.norm(layer + ".output.LayerNorm", x + self.dense(layer + ".output.dense", gelu(self.dense(layer + ".intermediate.dense", x))))
        return x.mean(1)


def distill(encoder, columns):
    n = len(encoder.vocabulary)
    vectors = np.concatenate([encoder(np.arange(at, min(at + BATCH, n))[:, None]) for at in range(0, n, BATCH)])
    vectors -= vectors.mean(0)
    values, components = np.linalg.eigh(vectors.T @ vectors)  # in ascending order
    kept = values[::-1][:columns].sum() / values.sum()
    words = vectors @ components[:, ::-1][:, :columns] * np.log1p(np.arange(n, dtype="f4"))[:, None]
    return words, kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_FOLDER")
    parser.add_argument("output", metavar="OUTPUT.npy")
    parser.add_argument("--columns", type=int, default=256, help="number of principal components (default: 256)")
    args = parser.parse_args()
    try:
        words, kept = distill(Encoder(args.model), args.columns)
        np.save(args.output, words)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"distill.py: {error}")
    print(f"{args.output}: float32 {list(words.shape)}, {kept:.0%} of the variance")


if __name__ == "__main__":
    main()
