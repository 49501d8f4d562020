#!/usr/bin/env python3
"""Writes the programs of this folder: NAME.json for each function with the decorator @tensord.program.

    programs.py [--check]

With --check, the script writes nothing and exits with status 1 if a file would change. Needs the package tensord. The files have the
form of PUT /v1/programs/{name}: inputs have dtypes and shapes, and parameters with a default are arguments of the program.
"""
import sys
from pathlib import Path

import numpy as np
import tensord
from tensord import spec, steps
from tensord.programs import program_text

HERE = Path(__file__).resolve().parent


def linear(x, layer, equation="bi,oi->bo"):
    """A linear layer, whose weight has a row for each output, as in PyTorch."""
    return steps.einsum(equation, x, f"{layer}.weight") + f"{layer}.bias"


# ---------------------------------------------------------------- small programs
@tensord.program(x=spec("float32", "n"), positions=spec("int32", "n"))
def partition_stitch(x, positions):
    """Adds 1 to the elements that are not -1."""
    part = steps.cast(x != -1.0, "int32")
    left, chosen = steps.dynamic_partition(x, part, 2)
    left_at, chosen_at = steps.dynamic_partition(positions, part, 2)
    raised = chosen + 1.0
    result = steps.dynamic_stitch([left_at, chosen_at], [left, raised])
    return {"result": result}


@tensord.program(query=spec("float32", 64), ids=spec("int64", "n"))
def rank(query, ids, k=100):
    """The k rows of `items` among `ids` with the largest products with the query."""
    best, who, _ = steps.search("items", query, k, candidates=ids)
    return {"who": who, "best": best}


@tensord.program(words=spec("int64", "n"), offsets=spec("int64", "b"))
def semantic_search(words, offsets, k=5):
    """The texts nearest to sentences. `words` has the rows of their words in `words:rows`, and `offsets` where each sentence starts.

    Row i of `messages` is the vector of element i of `texts`."""
    means = steps.embedding_bag("words:rows", words, offsets=offsets, mode="mean")
    queries = steps.l2_normalize(means)
    scores, rows, _ = steps.search("messages", queries, k)
    return {"texts": steps.gather("texts", rows), "scores": scores}


# ---------------------------------------------------------------- recommendation models
def tower(x, name):
    hidden = steps.relu(linear(x, f"two_tower:{name}_0"))
    return steps.l2_normalize(linear(hidden, f"two_tower:{name}_1"))


@tensord.program(user=spec("float32", "b", 32), items=spec("int64", "n"))
def two_tower(user, items, k=10):
    """The k best items for each user: two networks compute vectors of the users and of the items, whose products are the scores."""
    users = tower(user, "user")
    candidates = tower(steps.gather("two_tower:items", items), "item")
    scores = steps.einsum("bd,nd->bn", users, candidates)
    best, place = steps.top_k(scores, k)
    return {"who": items[place], "best": best}


TABLES = 26


@tensord.program(dense=spec("float32", "b", 13), ids=spec("int64", "b", TABLES, "h"))
def dlrm(dense, ids):
    """Facebook's deep learning recommendation model: sums of embeddings from 26 tables interact with dense features.

    ids[:, t] are rows of the table dlrm:embedding_t; row 0 is padding."""
    bottom = dense
    for layer in range(3):
        bottom = steps.relu(linear(bottom, f"dlrm:bottom_{layer}"))
    pooled = [steps.embedding_bag(f"dlrm:embedding_{t}", ids[:, t], padding_index=0) for t in range(TABLES)]
    vectors = steps.stack([bottom, *pooled], 1)
    products = steps.einsum("bid,bjd->bij", vectors, vectors)
    n = TABLES + 1
    pairs = steps.gather(steps.reshape(products, [-1, n * n]), np.flatnonzero(np.tri(n, k=-1)).astype("i4"), 1)
    top = steps.concat([bottom, pairs], 1)
    for layer in range(2):
        top = steps.relu(linear(top, f"dlrm:top_{layer}"))
    return {"click": steps.sigmoid(linear(top, "dlrm:top_2"))}


# ---------------------------------------------------------------- a sentence model
def norm(x, name):
    return steps.layer_norm(x, f"{name}.weight", bias=f"{name}.bias", epsilon=1e-12)


def project(x, name, heads, size):
    """A linear layer, whose outputs are divided among the heads."""
    weight = steps.reshape(f"{name}.weight", [heads, size, heads * size])
    return steps.einsum("bsd,hkd->bshk", x, weight) + steps.reshape(f"{name}.bias", [heads, size])


def attention(x, name, ignored, heads, size):
    query, key = (project(x, f"{name}.self.{part}", heads, size) for part in ("query", "key"))
    weights = steps.softmax(steps.einsum("bshk,bthk->bhst", query, key) / size ** 0.5 + ignored)
    value = project(x, f"{name}.self.value", heads, size)  # only now, so it takes no memory beside the scores
    context = steps.einsum("bhst,bthk->bshk", weights, value)
    weight = steps.reshape(f"{name}.output.dense.weight", [heads * size, heads, size])
    output = steps.einsum("bshk,ohk->bso", context, weight) + f"{name}.output.dense.bias"
    return norm(x + output, f"{name}.output.LayerNorm")


@tensord.program(ids=spec("int64", "b", "s"), mask=spec("int64", "b", "s"))
def minilm(ids, mask, model="minilm:", layers=6, heads=12, size=32):
    """The vectors of sentences: the BERT encoder all-MiniLM-L6-v2 with mean pooling. `mask` is 1 for the tokens of a sentence, and 0 behind them.

    The tables are the tensors of the model's file, model.safetensors, which is in the data folder as minilm.safetensors."""
    positions = steps.cumsum(ids * 0 + 1, 1, exclusive=True)
    words = steps.gather(f"{model}embeddings.word_embeddings.weight", ids) + steps.gather(f"{model}embeddings.position_embeddings.weight", positions)
    x = norm(words + steps.gather(f"{model}embeddings.token_type_embeddings.weight", 0), f"{model}embeddings.LayerNorm")
    kept = steps.cast(mask, "float32")
    ignored = ((kept - 1) * 1e9)[:, None, None, :]
    for layer in range(layers):
        name = f"{model}encoder.layer.{layer}"
        x = attention(x, f"{name}.attention", ignored, heads, size)
        inner = steps.gelu(linear(x, f"{name}.intermediate.dense", "bsd,id->bsi"))
        x = norm(x + linear(inner, f"{name}.output.dense", "bsi,di->bsd"), f"{name}.output.LayerNorm")
    sums = steps.einsum("bsd,bs->bd", x, kept)
    means = sums / steps.reduce_sum(kept, [1], keepdims=True)
    return {"vectors": steps.l2_normalize(means)}


PROGRAMS = {one.__name__: one for one in (partition_stitch, rank, semantic_search, two_tower, dlrm, minilm)}


def main():
    check = sys.argv[1:] == ["--check"]
    for name, program in PROGRAMS.items():
        path, made = HERE / f"{name}.json", program_text(program.stored())
        if check and path.read_text(encoding="utf-8") != made:
            sys.exit(f"{path} is out of date; run programs.py")
        if not check:
            path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
