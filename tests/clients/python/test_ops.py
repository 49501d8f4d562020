"""The ops against a daemon."""
import inspect
import subprocess
import sys
import urllib.request
import json

import numpy as np
import pytest
import tensord
from conftest import ROOT
from tensord import errors

SHARED = {"self", "operands", "output_dtype", "device", "timeout"}
OPTIONAL = {("einsum", "equation"), ("search", "k")}  # it may be the first operand


def described(daemon):
    def get(path):
        with urllib.request.urlopen(daemon.url + path) as reply:
            return json.load(reply)
    return [get("/v1/ops/" + op["name"]) for op in get("/v1/ops")["ops"]]


@pytest.mark.parametrize("kind", [tensord.Client, tensord.AsyncClient])
def test_each_op_of_the_daemon_has_a_method_with_its_inputs_and_attributes(daemon, kind):
    for op in described(daemon):
        signature = inspect.signature(getattr(kind, op["name"]))
        assert set(signature.parameters) - SHARED == {one["name"] for one in op["inputs"] + op["attributes"]}, op["name"]
        for one in op["attributes"]:
            required = one["required"] and (op["name"], one["name"]) not in OPTIONAL
            assert (signature.parameters[one["name"]].default is inspect.Parameter.empty) == required


def test_each_method_says_what_the_daemon_says_of_its_inputs_attributes_and_outputs(daemon):
    for op in described(daemon):
        text = " ".join(inspect.getdoc(getattr(tensord.Client, op["name"])).split())
        for one in op["inputs"] + op["attributes"]:
            assert f" {one['name']} {one['summary']}" in text, op["name"]
        assert all(one["summary"] in text for one in [op, *op["outputs"]])
    assert "Default: batch_dims." in tensord.Client.gather.__doc__


def test_attributes_that_other_libraries_take_by_position_are_taken_by_position(client):
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(client.gather(a, [2, 0], 1), np.take(a, [2, 0], 1))
    np.testing.assert_array_equal(client.gather_nd(a[None], [[1]], 1), a[None, 1])
    np.testing.assert_array_equal(client.concat([a, a], 1), np.concatenate([a, a], 1))
    assert client.cast(a, np.int8).dtype == np.int8
    assert client.top_k(a, 1).indices.tolist() == [[2], [2]]
    assert [len(part) for part in client.dynamic_partition(a, [1, 1], 2)] == [0, 2]


def test_einsum_is_called_as_in_numpy(client):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    expected = np.einsum("ij,j->i", a, b)
    for made in (client.einsum("ij,j->i", a, b), client.einsum("ij,j->i", [a, b]), client.einsum([a, b], equation="ij,j->i"),
                 client.einsum(inputs=[a, b], equation="ij,j->i"), client.einsum(a, b, equation="ij,j->i"),
                 client.einsum("ij,j->i", inputs=[a, b])):
        np.testing.assert_array_equal(made, expected)
    assert client.einsum("ij->j", [[1, 2], [3, 4]]).tolist() == [4, 6]  # one list alone is a tensor, as in NumPy
    assert client.einsum("ij->j", "planets")[3] == 288
    assert client.store("sums").einsum("ij->j", "planets")["shape"] == [4]
    client.tables["sums"].delete()
    assert client.einsum_plan("ij,jk,kl->il", [100, 5], [5, 50], [50, 2]) == client.einsum_plan(
        [[100, 5], [5, 50], [50, 2]], equation="ij,jk,kl->il") == client.einsum_plan(shapes=[[100, 5], [5, 50], [50, 2]], equation="ij,jk,kl->il")
    assert client.einsum_plan("ij->j", [3, 4])["output"]["shape"] == [4]


@pytest.mark.parametrize("use, what", [
    (lambda client: client.einsum([[1]]), "equation: None; pass it first"), (lambda client: client.einsum(), "equation: None; pass it first"),
    (lambda client: client.einsum("i->", [1], inputs=[[1]]), "inputs: given twice"),
    (lambda client: client.einsum_plan("i->", [1], shapes=[[1]]), "shapes: given twice")])
def test_an_einsum_without_an_equation_or_with_its_inputs_twice(client, use, what):
    with pytest.raises(TypeError, match=what):
        use(client)


def test_keys_are_what_is_looked_up_unless_there_are_queries(client):
    rows, names = [[1, 2], [3, 4]], ["a", "b"]
    assert client.lookup(rows, names, queries=["b"]).output.tolist() == [[3, 4]]
    client.tables["named"].put(rows, keys=names)
    for found in (client.lookup("named", ["b"]), client.lookup("named", keys=["b"]), client.lookup("named", queries=["b"]),
                  client.lookup("named", "b")):
        assert found.output.tolist() == [[3, 4]] and found.found.tolist() == [True]
    client.tables["named"].delete()
    with pytest.raises(TypeError, match="^keys: None; "):
        client.lookup("named")


def test_generated_modules_are_what_the_generator_makes_of_the_op_table(daemon):
    subprocess.run([sys.executable, ROOT / "api/clients/python/generate.py", "--check", daemon.url], check=True)


def test_each_code_of_the_daemon_has_a_class():
    text = (ROOT / "kernels/status.h").read_text()
    codes = {word.split(")")[0] for word in text.split("TD_STATUSES(X)")[1].split("typedef")[0].split("X(")[1:]}
    assert set(errors.CLASSES) == codes


NUMPY_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
                "complex64", "complex128"]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_arrays_of_each_dtype_go_and_come_unchanged(client, dtype):
    table = np.arange(6).reshape(3, 2).astype(dtype)
    got = client.gather(table, [2, 0])
    assert got.dtype == table.dtype
    np.testing.assert_array_equal(got, table[[2, 0]])


@pytest.mark.parametrize("table", [
    np.arange(12, dtype="f4").reshape(3, 4).T, np.arange(12, dtype=">i4").reshape(4, 3), np.arange(24.0)[::2].reshape(4, 3),
    np.zeros((4, 0), "f4")], ids=["Fortran order", "big-endian", "strided", "empty"])
def test_the_memory_layout_of_an_array_does_not_matter(client, table):
    np.testing.assert_array_equal(client.gather(table, np.array([3, 1])), table[[3, 1]])


def test_strings_go_and_come_as_strings_and_as_bytes_if_they_are_not_utf8(client):
    assert client.gather(np.array(["a", "ö", ""]), [1, 2]).tolist() == ["ö", ""]
    assert client.gather(np.array([b"\xff", b"b"], dtype=object), [1, 0]).tolist() == [b"b", b"\xff"]


def test_nan_and_infinities_in_lists_are_float32(client):
    got = client.gather([float("nan"), float("inf"), 1.5], [1, 0])
    assert got.dtype == np.float32 and got[0] == np.inf and np.isnan(got[1])


def test_bfloat16_is_read_as_float32(client):
    np.testing.assert_array_equal(client.cast(np.array([1.5, -2]), dtype="bfloat16"), np.array([1.5, -2], "f4"))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("asked", [np.float16, np.float32, np.float64])
def test_output_dtype_rounds_as_numpy_does(client, dtype, asked):
    halves = np.arange(0x7c00, dtype="u2").view("f2").astype("f8")
    ties = (halves[:-1] + halves[1:]) / 2
    some = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, 0), [65519.99, 65520, 1e30, -1e30, np.nan, np.inf, -0.0, 1e-9, 1e-40]]).astype(dtype)
    got = client.gather(some, np.arange(len(some)), output_dtype=asked)
    with np.errstate(over="ignore", under="ignore"):
        expected = some.astype(asked)
    assert got.dtype == asked
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_output_dtype_applies_to_tables_and_stored_results(client):
    table = client.tables["keyed_floats"]
    table.put(np.array([[0.1], [0.2]], "f4"), keys=["a", "b"])
    assert table.rows([0], output_dtype="float16").dtype == np.float16
    assert table.by_key("a", output_dtype=np.float64).dtype == np.float64
    assert table.lookup(["a"], output_dtype="float16").output.dtype == np.float16
    table.delete()
    assert client.top_k([0.5, 2.5], 1, output_dtype="float64").values.dtype == np.float64
    assert client.store("of_half").cast([0.1], "float32", output_dtype="float16")["dtype"] == "float16"
    client.tables["of_half"].delete()
    with pytest.raises(tensord.TensordError, match='output_dtype is "int8"'):
        client.gather([0.5], [0], output_dtype=np.int8)


def test_lists_of_tensors_and_several_outputs(client):
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(client.einsum([a, a.T], equation="ij,jk->ik"), a @ a.T)
    np.testing.assert_array_equal(client.concat([a, a], axis=1), np.concatenate([a, a], 1))
    parts = client.dynamic_partition(a, [1, 0], num_partitions=2)
    assert [part.tolist() for part in parts] == [[[3, 4, 5]], [[0, 1, 2]]]
    top = client.top_k(a, k=1)
    assert top.values.tolist() == [[2], [5]] and top.indices.tolist() == [[2], [2]]
    assert client.dynamic_stitch([[0, 2], [1]], [[[1, 2], [5, 6]], [[3, 4]]]).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_name_in_place_of_a_list_of_tensors_is_a_type_error(client):
    with pytest.raises(TypeError, match="^inputs: a str; pass a list of tensors"):
        client.einsum("planets", equation="ij->")


def test_an_index_out_of_bounds_is_an_exception_with_its_place(client):
    with pytest.raises(tensord.IndexOutOfBounds) as caught:
        client.gather("planets", [[0, 70]])
    error = caught.value
    assert (error.position, error.index, error.bound, error.input, error.status) == ([0, 1], 70, 8, "indices", 422)
    assert error.request_id and isinstance(error, tensord.TensordError) and isinstance(error, IndexError)
    assert error.key is None


def test_what_the_daemon_has_no_dtype_for_is_a_type_error(client):
    with pytest.raises(TypeError, match="datetime64"):
        client.cast(np.array(["2026-01-01"], dtype="datetime64[D]"), dtype="int64")
