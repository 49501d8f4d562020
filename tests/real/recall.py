#!/usr/bin/env python3
"""The op search finds every one of the nearest words in the word table of MiniLM, by each metric and in each dtype.

    recall.py MODEL_FOLDER        (model.safetensors; run.sh fetches it, and NumPy)

NumPy computes the scores of all pairs in float64. A row is right if its score is at least the k-th best score, minus the
rounding error of float32. Equal scores can therefore be in any order.
"""
import os, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http"), os.path.join(HERE, "..", "..", "deploy")]
import numpy as np
from check import TABLE, require
from daemon import Client, Daemon
from distill import read_safetensors

QUERIES, K = 500, 100
ROUNDING = 1e-5  # of the largest score: 384 additions of float32 by blocks


def scores(metric, rows, queries):
    """of all rows for each query, in float64; higher is better"""
    if metric == "l2":
        squares = (rows * rows).sum(1) - 2 * (queries @ rows.T) + (queries * queries).sum(1)[:, None]
        return -np.sqrt(np.maximum(squares, 0))
    products = queries @ rows.T
    return products if metric == "dot" else products / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(rows, axis=1)


def recall(client, name, metric, rows, numbers):
    """the share of the rows found that are among the best"""
    scale = {"scale": {"ref": "quantised.scale"}} if name == "quantised" else {}
    found = client.post(f"/v1/tensors/{name}/search",
                        {"rows": numbers.tolist(), "k": K, "metric": metric, "outputs": ["indices"], **scale}).json()
    require("outputs" in found, f"{name}, {metric}: {found}")
    indices = np.array(found["outputs"]["indices"]["data"])
    require(all(len(set(line)) == K for line in indices.tolist()), f"{name}, {metric}: {K} different rows for each query")
    exact = scores(metric, rows, rows[numbers])
    np.put_along_axis(exact, numbers[:, None], -np.inf, 1)  # no query finds itself
    least = np.partition(exact, -K, 1)[:, -K]
    tolerance = ROUNDING * np.abs(exact[np.isfinite(exact)]).max()
    return (np.take_along_axis(exact, indices, 1) >= least[:, None] - tolerance).mean()


def save_tables(folder, table):
    """saves the table in three dtypes; the rows by table, as the daemon scores them"""
    scale = np.abs(table).max(1) / 127
    saved = {"words": table, "half": table.astype("f2"), "quantised": np.rint(table / scale[:, None]).astype("i1")}
    for name, rows in saved.items():
        np.save(os.path.join(folder, name + ".npy"), rows)
    np.save(os.path.join(folder, "quantised.scale.npy"), scale)
    return {name: rows.astype("f8") * (scale[:, None] if name == "quantised" else 1) for name, rows in saved.items()}


def main():
    table = read_safetensors(os.path.join(sys.argv[1], "model.safetensors"))[TABLE]
    numbers = np.arange(0, len(table), len(table) // QUERIES)[:QUERIES]
    with tempfile.TemporaryDirectory(prefix="tensord-recall-") as data:
        tables = save_tables(data, table)
        with Daemon("--data-dir", data) as daemon, Client(daemon) as client:
            for name, rows in tables.items():
                for metric in "dot", "cosine", "l2":
                    share = recall(client, name, metric, rows, numbers)
                    require(share == 1, f"{name}, {metric}: {share} of the rows are among the best")
    print(f"passed: the best {K} of {len(table)} words for {QUERIES} queries, in {len(tables)} dtypes and by 3 metrics")


if __name__ == "__main__":
    main()
