"""Programs that are traced from functions."""
import json

import numpy as np
import pytest
import tensord
from tensord import steps

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


@tensord.program
def best(query, ids, movies, k=10):
    rows = movies[ids]
    scores = steps.einsum("nd,d->n", rows, query)
    values, place = steps.top_k(scores, k)
    return {"who": ids[place], "best": values}


@pytest.fixture
def movies(client):
    table = client.tables["movies"]
    table.put(np.array([[0.1, 0.9], [0.8, 0.1], [0.5, 0.5], [0.2, 0.7]], "f4"))
    yield table
    table.delete()


def text(function, *args, **kwargs):
    return tensord.program(function).to_dict(*args, **kwargs)


def ops(function, *args, **kwargs):
    return [step["op"] for step in text(function, *args, **kwargs)["steps"]]


# ---------------------------------------------------------------- running
def test_a_program_is_run_with_arrays_lists_and_tables(using, daemon, movies):
    for table in ("movies", tensord.Ref("movies"), movies):
        found = using(daemon.url, lambda client: client.run(best, [0.0, 1.0], np.array([3, 1, 2]), table, k=2))
        assert found["who"].tolist() == [3, 2] and found["who"].dtype == np.int64
        np.testing.assert_array_equal(found["best"], np.array([0.7, 0.5], "f4"))


def test_the_result_has_the_structure_that_the_function_returns(client):
    one = client.run(tensord.program(lambda x: x + 1), X)
    np.testing.assert_array_equal(one, X + 1)

    def several(x):
        y = x * 2
        return {"a": [y, (x - 1, y)], "b": steps.top_k(x, 1)}
    found = client.run(tensord.program(several), X)
    np.testing.assert_array_equal(found["a"][0], X * 2)
    np.testing.assert_array_equal(found["a"][1][0], X - 1)
    assert found["a"][1][1] is found["a"][0] and isinstance(found["a"][1], tuple)
    assert isinstance(found["b"], tensord.Selected) and found["b"].indices.tolist() == [[[3]] * 3] * 2


def test_the_results_can_be_stored(using, daemon, client, movies):
    made = using(daemon.url, lambda client: client.store("kept", ttl_s=600).run(best, [0.0, 1.0], [3, 1, 2], "movies", k=2))
    assert {key: info["name"] for key, info in made.items()} == {"who": "kept.who", "best": "kept.best"}
    assert client.tables["kept.who"].get().tolist() == [3, 2]


def test_the_results_can_be_rounded(client, movies):
    assert client.run(best, [0.0, 1.0], [3, 1], movies, k=1, output_dtype="float16")["best"].dtype == np.float16


def test_each_form_of_a_program_runs_on_a_device_and_with_a_timeout(using, daemon, client, movies):
    client.programs.put("doubled", tensord.program(x=tensord.spec("float32", "n"))(lambda x: x * 2), if_none_match="*")
    run = tensord.program(lambda x: x * 2)
    for program in (run, run.to_dict(), "doubled"):
        using(daemon.url, lambda client: client.run(program, x=[1.0], device="cpu", timeout=60, output_dtype="float16"))
        assert using(daemon.url, lambda client: client.store("kept").run(program, x=[1.0], device="auto", timeout=60))
        with pytest.raises(tensord.DeviceUnavailable, match="device is 'gpu'"):
            using(daemon.url, lambda client: client.run(program, x=[1.0], device="gpu"))
        with pytest.raises(tensord.MalformedRequest, match="device"):
            using(daemon.url, lambda client: client.store("kept").run(program, x=[1.0], device="tpu"))
    client.programs.delete("doubled")


def test_a_program_given_as_a_dict_takes_its_inputs_by_name(using, daemon, movies):
    program = best.to_dict(k=2)
    found = using(daemon.url, lambda client: client.run(program, query=[0.0, 1.0], ids=[3, 1, 2], movies=movies))
    assert list(found) == ["who", "best"] and found["who"].tolist() == [3, 2]
    assert program["inputs"] == {}
    with pytest.raises(TypeError, match="takes its inputs by name"):
        using(daemon.url, lambda client: client.run(program, [0.0, 1.0]))
    declared = {**program, "inputs": {"ids": {"dtype": "int64", "shape": ["n"]}}}
    assert using(daemon.url, lambda client: client.run(declared, query=[0.0, 1.0], ids=[3, 1], movies=movies))["who"].tolist() == [3, 1]
    with pytest.raises(TypeError, match=r"missing the input 'ids' of the program, .*int64"):
        using(daemon.url, lambda client: client.run(declared, query=[0.0, 1.0], movies=movies))


def test_an_error_in_a_program_given_as_a_dict_shows_the_step(client, movies):
    with pytest.raises(tensord.IndexOutOfBounds, match=r'\n  in step 0 of the program, {"op": "gather", .*"as": "rows"}$'):
        client.run(best.to_dict(k=1), query=[0.0, 1.0], ids=[9], movies=movies)
    long = {"steps": [{"op": "reshape", "x": [0.5] * 99, "shape": [3], "as": "y"}], "outputs": ["y"]}
    with pytest.raises(tensord.ShapeMismatch) as caught:
        client.run(long)
    assert str(caught.value).endswith("0…") and len(str(caught.value)) < 400


def test_a_program_records_the_steps_of_another_one(client, movies):
    @tensord.program
    def first(query, ids, movies):
        return best(query, ids, movies, k=1)["who"][0]
    assert client.run(first, [0.0, 1.0], [3, 1, 2], movies) == 3
    with pytest.raises(TypeError, match=r"best is a program; client\.run\(best, \.\.\.\) runs it"):
        best([0.0], [1], "movies")


def test_values_keep_their_bits(client):
    values = np.array([0.1, 1e-310, -0.0, np.inf, 2 ** 53 + 2.0, np.nan])
    np.testing.assert_array_equal(client.run(tensord.program(lambda x: steps.reshape(x, [2, 3])), values).reshape(-1).view("u8"), values.view("u8"))
    np.testing.assert_array_equal(client.run(tensord.program(lambda i: steps.gather(values, i)), range(6)).view("u8"), values.view("u8"))
    big = np.array([2 ** 63 + 1, 2 ** 64 - 1], "u8")
    assert client.run(tensord.program(lambda x: x * np.uint64(1)), big).tolist() == big.tolist()
    words = client.run(tensord.program(lambda x: x[[1, 0]]), np.array(["a", "$x"], object))
    assert words.tolist() == ["$x", "a"]


def test_each_op_can_be_traced():
    for name in tensord.tracing.OPS:
        assert getattr(steps, name).__func__ is getattr(tensord.Client, name)


# ---------------------------------------------------------------- operators
@pytest.mark.parametrize("function", [
    lambda x: 2 * x + x - 1.5, lambda x: 1 - x, lambda x: 3 / (x + 1), lambda x: x // 2 % 3, lambda x: (x % 5) ** 2, lambda x: 2 ** (x % 3), lambda x: -x,
    lambda x: abs(x - 10), lambda x: 7 // (x + 1), lambda x: 7 % (x + 1), lambda x: x + np.arange(4, dtype="f4"), lambda x: np.arange(4, dtype="f4") - x,
    lambda x: np.float32(2) * x, lambda x: x == 3, lambda x: x != 3, lambda x: 3 < x, lambda x: x <= 3, lambda x: (x > 3) & (x >= 7) | ~(x != 1),
    lambda x: (x > 3) ^ True, lambda x: x @ np.ones((4, 2), "f4"), lambda x: np.ones((2, 5, 3), "f4") @ x], ids=range(21))
def test_operators_are_those_of_numpy(client, function):
    np.testing.assert_array_equal(client.run(tensord.program(function), X), function(X))


M, V, W = np.arange(6, dtype="f4").reshape(2, 3), np.array([1, -2, 3], "f4"), np.array([2, 5], "f4")
KNOWN = [  # functions whose result has a known rank, for a matrix x
    lambda x: x, lambda x: x * 2 + 1, lambda x: steps.where(x > 0, x, 0), lambda x: steps.softmax(x), lambda x: x[0], lambda x: x[:, 1:], lambda x: x[[0, 1]], lambda x: x[[[0]]],
    lambda x: x[..., None], lambda x: steps.reduce_sum(x, [1]), lambda x: steps.reduce_max(x), lambda x: steps.reduce_sum(x, keepdims=True), lambda x: steps.reshape(x, [3, 2, 1]),
    lambda x: steps.stack([x, x]), lambda x: steps.concat([x, x]), lambda x: steps.cast(x, "float64"), lambda x: steps.top_k(x, 1).values, lambda x: steps.argmax(x), lambda x: x @ V,
    lambda x: x @ x[0], lambda x: x[0] @ np.ones((3, 2), "f4"), lambda x: steps.einsum("ij->j", x), lambda x: steps.transpose(x), lambda x: steps.squeeze(x[:1], [0]),
    lambda x: steps.one_hot(steps.cast(x, "int32"), 2), lambda x: steps.layer_norm(x, V), lambda x: steps.cumsum(x), lambda x: steps.gather(x, [0], 1)]


@pytest.mark.parametrize("function", KNOWN, ids=range(len(KNOWN)))
def test_a_rank_that_is_known_is_right(client, function):
    ranks = []

    def observed(x):
        made = function(x)
        ranks.append(made._rank)
        return made + 0
    assert np.ndim(client.run(tensord.program(observed), M)) == ranks[0]


@pytest.mark.parametrize("function", [lambda x, axes=[0]: steps.reduce_sum(x, axes), lambda x, shape=[6]: steps.reshape(x, shape), lambda x: x + steps.exp("table"),
                                      lambda x: steps.gather(x, [[0], [1]], batch_dims=1), lambda x: steps.batch_gather(x, [[0], [1]])], ids=range(5))
def test_a_rank_that_depends_on_a_table_or_an_argument_is_not_known(function):
    ranks = []

    def observed(x, axes=[0], shape=[6]):
        given = {"axes": axes, "shape": shape}
        made = function(x, **{name: given[name] for name in given if name in function.__code__.co_varnames})
        ranks.append(made._rank)
        return made
    tensord.program(x=tensord.spec("float32", 2, 3))(observed).stored()
    assert ranks == [None]


@pytest.mark.parametrize("x, y", [(V, V), (M, V), (W, M), (M, M.T.copy()), (X, X.reshape(2, 4, 3)), (X, np.arange(4, dtype="f4")), (V, X), (X[:, None], X.reshape(2, 4, 3)), (M, X.transpose(1, 0, 2).reshape(2, 3, 4))], ids=range(9))
def test_the_product_of_vectors_matrices_and_batches_is_that_of_numpy(client, x, y):
    shapes = {name: tensord.spec("float32", *one.shape) for name, one in (("x", x), ("y", y))}
    for function in (tensord.program(lambda x, y: x @ y), tensord.program(**shapes)(lambda x, y: (x + 0) @ (y * 1))):
        np.testing.assert_array_equal(client.run(function, x, y), x @ y)
    np.testing.assert_array_equal(client.run(tensord.program(lambda x: x @ y), x), x @ y)
    np.testing.assert_array_equal(client.run(tensord.program(lambda y: x.tolist() @ y), y), x @ y)


def test_a_product_whose_ranks_are_not_known_is_a_product_of_matrices(client, movies):
    client.tables["vector"].put(np.array([1.0, 0.5], "f4"))
    product = tensord.program(lambda x, y: x @ y)
    rows = movies.get()
    np.testing.assert_array_equal(client.run(product, movies, [1.0, 0.5]), rows @ np.array([1, 0.5], "f4"))
    for x, y, said in ((movies, "vector", r'x and y count as matrices, .*\("\.\.\.j,j->\.\.\.", x, y\) for a vector y, \("j,\.\.\.jk->\.\.\.k", x, y\) for a vector x$'),
                       (rows, "vector", r'y counts as a matrix, .*\("\.\.\.j,j->\.\.\.", x, y\) for a vector y$'), ([1.0, 2.0], "vector", r'y counts as a matrix, .*\("j,j->", x, y\)$'),
                       ("vector", np.eye(2, dtype="f4"), r'x counts as a matrix, .*\("j,\.\.\.jk->\.\.\.k", x, y\) for a vector x$')):
        with pytest.raises(tensord.ShapeMismatch, match=r"rank 1; .*\n  File .*\n    .*\n    In x @ y, " + said):
            client.run(product, x, y)
    for x, y in ((M, 2.0), (2.0, M), (M, np.float32(2)), (M, np.array(1.0))):
        with pytest.raises(TypeError, match=r"x @ y multiplies matrices and vectors, and one operand is a number; use \*"):
            client.run(product, x, y)
    with pytest.raises(tensord.ShapeMismatch) as caught:
        client.run(product, M, M)
    assert "count" not in str(caught.value)
    client.tables["vector"].delete()


@pytest.mark.parametrize("index", [
    1, -1, (1, 2, 3), (-1, -1, -1), slice(1, None), slice(None, None, -1), slice(5, 1, -1), slice(-2, -1), (slice(None), slice(1, None)), (..., -1), (..., 0, 1),
    (..., slice(None, None, -2)), None, (..., None), (slice(None), None, 1), (0, None, ..., None, -1), (..., slice(1, 3), None, 0), (slice(0, -1), ..., slice(-2, None), None),
    [1, 0, 1], np.array(1), (slice(None), [2, 0]), (..., [1, 1]), (slice(1, None), slice(None), [[1, 2], [0, 3]]), ..., np.int64(1)], ids=str)
def test_an_index_selects_what_it_selects_in_numpy(client, index):
    np.testing.assert_array_equal(client.run(tensord.program(lambda x: x[index] + 0), X), X[index])


def test_an_index_can_be_traced(client):
    found = client.run(tensord.program(lambda x, i: (x[i], x[..., i], x[:, 1:, i])), X, [[1, 0]])
    np.testing.assert_array_equal(found[0], X[[[1, 0]]])
    np.testing.assert_array_equal(found[1], X[..., [[1, 0]]])
    np.testing.assert_array_equal(found[2], X[:, 1:, [[1, 0]]])
    with pytest.raises(tensord.IndexOutOfBounds):
        client.run(tensord.program(lambda x, i: x[i]), X, -1)


@pytest.mark.parametrize("index, message", [
    (True, "an index is the mask True"), ("a", "an index is 'a'"), ([True, False], "an index is the mask .True, False.; numpy.flatnonzero"), (([0], [1]), "several arrays"),
    (([0], 1), r"x\[:, ids\]\[0\]"), ((None, [1]), "beside integers, None"), ((..., ...), "only one ellipsis"), (1.5, "an index is 1.5")], ids=str)
def test_other_indices_are_refused(index, message):
    with pytest.raises(TypeError, match=message):
        text(lambda x: x[index])


@pytest.mark.parametrize("index", [lambda x, m: x > 2, lambda x, m: m, lambda x, m: ~(x == 1) | m, lambda x, m: steps.is_nan(x), lambda x, m: steps.cast(x, bool)], ids=range(5))
def test_a_mask_is_refused_with_ways_out_that_work(client, index):
    x = np.array([1.0, 3.0, 5.0], "f4")
    message = (r"an index is a mask, .*; use tensord\.steps\.dynamic_partition\(x, tensord\.steps\.cast\(mask, 'int32'\), 2\)\[1\] for the selected rows,"
               r" or tensord\.steps\.where\(mask, x, 0\) to keep the shape")
    with pytest.raises(TypeError, match=message):
        text(lambda x, m=np.array([True, False, True]): x[index(x, m)] + m)
    selected, zeros = client.run(tensord.program(lambda x: (steps.dynamic_partition(x, steps.cast(x > 2, "int32"), 2)[1], steps.where(x > 2, x, 0))), x)
    assert selected.tolist() == x[x > 2].tolist() and zeros.tolist() == [0, 3, 5]


def test_rows_by_key_are_refused_in_an_index_and_are_a_gather(client):
    client.tables["films"].put(np.eye(2, dtype="f4"), keys=["a", "b"])
    way = r"for rows by key, use tensord\.steps\.gather\(table, tensord\.Keys\(x\)\)$"
    for function in (lambda t, c: t[tensord.Keys(c)], lambda t, c: t[c], lambda t, c: t["b"], lambda t, c: t[["b", "a"]], lambda t, c: t[np.array(["b"])], lambda t, c: t[:, c]):
        with pytest.raises(TypeError, match="^an index is .*" + way):
            client.run(tensord.program(function), "films", ["b"])
    with pytest.raises(TypeError, match="an index is strings; " + way):
        tensord.program(t=tensord.spec("float32", 2, 2), c=tensord.spec("string", "n"))(lambda t, c: t[c]).stored()
    assert client.run(tensord.program(lambda t, c: steps.gather(t, tensord.Keys(c))), "films", ["b"]).tolist() == [[0, 1]]
    client.tables["films"].delete()


# ---------------------------------------------------------------- the text of a program
def test_numbers_stay_plain_and_arrays_and_tables_are_typed():
    assert text(lambda x: x * 2.5)["steps"][0]["y"] == 2.5
    assert text(lambda x: x * np.float32(2.5))["steps"][0]["y"] == {"dtype": "float32", "shape": [], "base64": "AAAgQA=="}
    assert text(lambda i: steps.gather("movies", i))["steps"][0]["params"] == {"ref": "movies"}
    with pytest.raises(TypeError, match="x: tensord.Keys; .*find or lookup"):
        text(lambda x: x + 1, tensord.Keys(["a"]))
    assert text(lambda x: x + 1, np.array([1.5], "f2"))["inputs"] == {"x": {"dtype": "float16", "shape": [1], "base64": "AD4="}}
    assert text(lambda x: steps.where(x > 0, x, -np.inf))["steps"][1]["y"]["dtype"] == "float32"
    assert text(lambda x: steps.where(x > 0, np.zeros(1), -np.inf))["steps"][1]["y"]["dtype"] == "float64"


def test_a_default_that_is_an_array_or_a_table_is_an_input(client, movies):
    weights = np.array([1.0, 2.0], "f4")
    assert text(lambda x, weights=weights, table=movies: x + weights + table)["inputs"]["table"] == {"ref": "movies"}
    assert client.run(tensord.program(lambda x, weights=weights: x * weights), [1.0, 1.0]).tolist() == [1, 2]


def test_steps_that_no_result_needs_are_dropped():
    def function(x):
        steps.exp(x)
        left, right = steps.dynamic_partition(x, [0, 1], 2)
        return right + steps.top_k(x, 1).values
    partition, top, _ = text(function)["steps"]
    assert partition["as"] == [None, "right"] and top["as"] == {"values": "top_k_values"}


def test_results_are_named_after_keys_and_variables():
    def function(x):
        scaled = (x +
                  1) * 2
        for _ in range(2):
            scaled = -scaled
        high = steps.top_k(scaled, 1)
        größe = high.values + 1
        outputs = größe + high.indices
        return {"sum": outputs, "scaled_4": outputs * 1}, outputs * 2
    made = text(function)
    assert [step["as"] for step in made["steps"]] == [
        "add", "scaled", "scaled_2", "scaled_3", {"values": "high_values", "indices": "high_indices"}, "result", "sum", "scaled_4", "multiply"]
    assert made["outputs"] == ["sum", "scaled_4", "multiply"]

    def unused(x):
        low, high = steps.dynamic_partition(x, [0, 1], 2)
        low = high + 1
        return low
    assert text(unused)["outputs"] == ["low"]

    def one_of_two(x):
        best = steps.top_k(x, 1).indices
        return best
    assert text(one_of_two)["steps"][0]["as"] == {"indices": "best"}
    unknown = {}
    exec(compile("def function(x):\n    y = x + 1\n    return y", "<no file>", "exec"), unknown)
    assert text(unknown["function"])["outputs"] == ["add"]


def test_keys_and_positions_below_a_key_are_names():
    top = tensord.program(x=tensord.spec("float32", "n"))(lambda x: {"a": [x + 1, {"b": x + 2}], "best": steps.top_k(x, 1), "c": {"d": x + 3}}).to_dict()
    assert top["outputs"] == ["a_0", "a_1_b", "best_values", "best_indices", "c_d"]
    assert text(lambda x: steps.top_k(x, 1))["outputs"] == ["values", "indices"]
    assert text(lambda x: (x + 1, {"add": x + 2}, [x + 3]))["outputs"] == ["add_2", "add", "add_3"]


VALID = "expected a letter or _, followed by at most 63 letters, digits or _"


@pytest.mark.parametrize("key, message", [
    ("a-b", f"the key 'a-b' is not a name; {VALID}"), ("query x", "the key 'query x' is not a name"), ("", "the key '' is not a name"), (1, "the key '1' is not a name"),
    ("größe", "the key 'größe' is not a name"), ("a" * 65, "is not a name"), ("device", f"the key 'device' is reserved for requests; {VALID}"),
    ("x", "the key 'x' is the name of a parameter; expected a new name"), ("k", "the key 'k' is the name of a parameter"), ("a_0", "two results have the key 'a_0'")], ids=str)
def test_a_key_that_cannot_be_a_name_is_refused_at_the_line(client, key, message):
    @tensord.program(x=tensord.spec("float32", "n"))
    def named(x, k=1):
        def inner():
            return 1
        y = x * 2
        return {"a": [y], key: y + inner()}
    for use in (lambda: client.run(named, [1.0]), lambda: client.programs.put("named", named)):
        with pytest.raises(TypeError, match="^named: ") as caught:
            use()
        line = named.function.__code__.co_firstlineno + 5
        assert message in str(caught.value)
        assert str(caught.value).endswith(f'\n  File "{__file__}", line {line}, in named\n    return {{"a": [y], key: y + inner()}}')


def test_the_line_of_a_function_without_a_single_return_is_its_first():
    def two(x):
        if x is None:
            return x
        return {"a-b": x + 1}
    for function, shown in ((two, "def two(x):"), (lambda x: {"a-b": x + 1}, 'for function, shown in ((two, "def two(x):"), (lambda x: ')):
        with pytest.raises(TypeError, match="not a name") as caught:
            text(function)
        assert str(caught.value).rpartition("\n    ")[2].startswith(shown)


def test_the_json_is_the_body_of_a_request(client, movies):
    made = json.loads(best.json([0.0, 1.0], [3, 1, 2], movies))
    assert made == best.to_dict([0.0, 1.0], [3, 1, 2], movies) and made["steps"][2] == {"op": "top_k", "x": "$scores", "k": 10, "as": {"values": "best", "indices": "place"}}
    assert made["inputs"] == {"query": [0.0, 1.0], "ids": [3, 1, 2], "movies": {"ref": "movies"}}
    assert best.json([0.0, 1.0], [3, 1, 2], movies).count("\n") == 7


def test_the_json_of_a_program_has_all_inputs(client, movies):
    with pytest.raises(TypeError, match=r"best: the input ids has neither a value nor a declaration, .*; pass ids, or add @tensord\.program\(ids=tensord\.spec\(\.\.\.\)\)"):
        best.json(query=[0.0, 1.0], movies="movies")
    made = tensord.program(query=tensord.spec("float32", 2), ids=tensord.spec("int64", "n"))(best.function).json(movies="movies", k=3)
    assert json.loads(made)["inputs"] == {"query": {"dtype": "float32", "shape": [2]}, "ids": {"dtype": "int64", "shape": ["n"]}, "movies": {"ref": "movies"}}
    assert client.run(json.loads(made), query=[0.0, 1.0], ids=[3, 1, 2])["who"].tolist() == [3, 2, 1]


# ---------------------------------------------------------------- declared inputs
@tensord.program(query=tensord.spec("float32", "d"), ids=tensord.spec(np.int64, "n"), rows=tensord.spec("float32", "m", "d"))
def declared(query, ids, rows):
    return steps.einsum("nd,d->n", rows[ids], query)


def test_declared_inputs_without_values_are_in_the_program():
    made = declared.to_dict(ids=[1])["inputs"]
    assert made == {"query": {"dtype": "float32", "shape": ["d"]}, "ids": {"dtype": "int64", "shape": [1], "data": [1]},
                    "rows": {"dtype": "float32", "shape": ["m", "d"]}}


def test_numbers_take_the_declared_dtype(client, movies):
    rows = np.array([[0.5, 0.25], [1, 2]], "f4")
    assert client.run(declared, [2, 1], [1, 0], rows).tolist() == [4, 1.25]
    assert client.run(declared, [0, np.inf], [1], rows).tolist() == [np.inf]
    np.testing.assert_array_equal(client.run(declared, [0, 1], [0, 3], "movies"), np.array([0.9, 0.7], "f4"))
    half = tensord.program(x=tensord.spec("bfloat16", "n"))(lambda x: steps.cast(x, "float32"))
    assert client.run(half, [1.5, np.inf]).tolist() == [1.5, np.inf] and client.run(half, tensord.bfloat16([2.5])).tolist() == [2.5]
    with pytest.raises(tensord.MalformedRequest):
        client.run(declared, [0, 1], [0.5], rows)


@pytest.mark.parametrize("query, ids, rows, message", [
    (np.ones(2), [0], [[1, 2]], r"query: an array of float64; the program declares float32; pass numpy\.asarray\(x, 'float32'\)"),
    ([[1, 2]], [0], [[1, 2]], r"query: the shape \[1, 2\]; the program declares \['d'\]"),
    ([1, 2, 3], [0], [[1, 2]], r"rows: the shape \[1, 2\]; the program declares \['m', 'd'\], where m = 1, d = 3"), ([1, 2], [0], [[1], [1, 2]], "rows: lists of different lengths")])
def test_values_that_differ_from_their_declaration_are_refused(client, query, ids, rows, message):
    with pytest.raises(TypeError, match=message):
        client.run(declared, query, ids, rows)


def test_declarations_of_something_else_are_refused():
    for use, message in ((lambda: tensord.spec("float33", 2), "dtype: 'float33'; expected one of bool"), (lambda: tensord.spec("int8", -1), "shape: -1; expected sizes"),
                         (lambda: tensord.spec("int8", "a b"), "shape: 'a b'"), (lambda: tensord.program(z=tensord.spec("int8"))(lambda x: x), "z: .*a parameter that is a tensor: x"),
                         (lambda: tensord.program(k=tensord.spec("int8"))(lambda x, k=1: x), "k: .*expected tensord.spec"), (lambda: tensord.program(x="int8")(lambda x: x), "x: 'int8'; expected")):
        with pytest.raises(TypeError, match=message):
            use()


# ---------------------------------------------------------------- errors
def test_an_error_of_a_step_shows_the_line_that_made_it(using, daemon, movies):
    with pytest.raises(tensord.IndexOutOfBounds) as caught:
        using(daemon.url, lambda client: client.run(best, [0.0, 1.0], [3, 9], "movies", k=1))
    line = best.function.__code__.co_firstlineno + 2
    assert str(caught.value) == f'indices[1] = 9 is not in [0, 4)\n  File "{__file__}", line {line}, in best\n    rows = movies[ids]'
    assert caught.value.detail == "indices[1] = 9 is not in [0, 4)" and caught.value.step == 0 and caught.value.position == [1]


def test_a_recursion_without_end_is_refused_at_the_line(client):
    @tensord.program(x=tensord.spec("float32", "n"))
    def endless(x, depth=1):
        y = x + 1
        return endless(y, depth)
    line = endless.function.__code__.co_firstlineno + 3
    for use in (lambda: client.run(endless, [1.0]), lambda: client.programs.put("endless", endless)):
        with pytest.raises(TypeError, match="^endless calls itself without end; .* such as a parameter depth=3, can end the calls\n") as caught:
            use()
        assert str(caught.value).endswith(f'\n  File "{__file__}", line {line}, in endless\n    return endless(y, depth)')

    @tensord.program(x=tensord.spec("float32", "n"))
    def power(x, depth=3):
        return x * 1 if depth == 0 else power(x * 2, depth - 1)
    assert client.run(power, [1.0]).tolist() == [8] and len(power.stored()["steps"]) == 4


def test_the_line_is_right_although_a_step_before_it_was_dropped(client):
    def function(x):
        steps.exp(x)
        return helper(x)

    def helper(x):
        return steps.reshape(x, [5])
    with pytest.raises(tensord.ShapeMismatch, match=r"in helper\n    return steps\.reshape\(x, \[5\]\)$"):
        client.run(tensord.program(function), [1.0])


@pytest.mark.parametrize("function, message", [
    (lambda x: x if x > 0 else -x, r"the result of greater .* a bool: .*tensord\.steps\.where"), (lambda x: 0 < x < 1, "chained comparisons"),
    (lambda x: x and 1, "a bool"), (lambda x: 1 in x, "reduce_any"), (lambda x: len(x), "the input x .* a length"), (lambda x: list(x), r"x\[i\]"),
    (lambda x: float(x), "a number: .*cast"), (lambda x: int(x), "a number"), (lambda x: range(x), "an integer"), (lambda x: x[:x], "the bound of a slice"),
    (lambda x: "movies"[x], r"tensord\.steps\.gather\(name, x\)"), (lambda x: np.asarray(x), "NumPy cannot compute"), (lambda x: np.exp(x), "does not support ufuncs"),
    (lambda x: {x: 1}, "unhashable"), (lambda x: x.__setitem__(0, 1), "where or dynamic_stitch"), (lambda x: steps.add(x, [x, 1]), r"y: .*steps\.stack"),
    (lambda x: steps.top_k(x, x), "k: .* cannot depend on values.*default, such as k=10"), (lambda x: steps.concat(x), "an iterator"),
    (lambda x: steps.add(x, None), "y: None"), (lambda x: steps.add(x, 1, device="cpu"), "device: .*client.run"), (lambda x: steps.add(x, 1, timeout=1), "timeout: .*client.run"),
    (lambda x: steps.add(x, 1, output_dtype="float16"), "output_dtype: .*cast"), (lambda x: tensord.bfloat16(x), r"steps\.cast\(x, 'bfloat16'\)"),
    (lambda x: x, "returns the input x"), (lambda x: {"a": 3}, "returns 3"), (lambda x: [], "returns no tensor"), (lambda x: None, "returns None"),
    (lambda x, y: x + 1, "no result depends on the input y"), (lambda x: steps.where(x > 0, np.zeros(1, "f2"), [np.inf, 1e30]), "1e.30 does not fit float16")],
    ids=range(29))
def test_what_cannot_be_traced_is_refused(function, message):
    with pytest.raises(TypeError, match=message):
        text(function)


def test_an_unknown_attribute_names_the_op():
    with pytest.raises(AttributeError, match=r"'sum'.*tensord\.steps\.reduce_sum\(x\)"):
        text(lambda x: x.sum())
    with pytest.raises(AttributeError, match="'shape': .*nor a shape until the program runs$"):
        text(lambda x: x.shape)


def test_methods_of_clients_and_tables_are_refused_in_a_function(client, movies):
    for use in (lambda x: client.exp(x), lambda x: movies.put(x), lambda x: movies.rows(x), lambda x: client.run(best, x, x, x)):
        with pytest.raises(TypeError, match=r"call the ops of tensord\.steps"):
            text(use)
    with pytest.raises(TypeError, match=r"steps\.gather\(table, x\)"):
        text(lambda x: movies[x])


def test_steps_are_refused_outside_of_a_function(client):
    with pytest.raises(TypeError, match=r"only in a function with the decorator @tensord\.program; elsewhere, use client\.exp"):
        steps.exp([1.0])
    kept = []
    text(lambda x: kept.append(x) or x + 1)
    for function in (lambda x: x + kept[0], lambda x: kept[0]):
        with pytest.raises(TypeError, match="another run of a traced function|its own steps"):
            text(function)


def test_functions_whose_inputs_have_no_names_are_refused():
    async def waits(x):
        return x
    for function, message in ((lambda *x: x, "a parameter for each input"), (lambda **x: x, "a parameter for each input"), (lambda device: device, "device: .*name"),
                              (lambda größe: größe, "größe: .*name"), (waits, "not async"), (3, "takes a function")):
        with pytest.raises(TypeError, match=message):
            tensord.program(function)
    for wrong in (lambda x: x, 3, None):
        with pytest.raises(TypeError, match="pass a function with the decorator"):
            tensord.Client().run(wrong)
