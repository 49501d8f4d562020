"""Resident tensors against a daemon."""
import warnings

import numpy as np
import pytest
import tensord
from conftest import asynchronous


@pytest.fixture
def table(client):
    one = client.tables["movies"]
    one.put(np.arange(6, dtype="f4").reshape(3, 2), keys=["king", "queen", "ace"])
    yield one
    one.delete()


def test_rows_are_found_by_key_number_list_and_slice(table):
    rows = np.arange(6, dtype="f4").reshape(3, 2)
    for which, expected in (("king", 0), (["ace", "king"], [2, 0]), (slice(1, None), slice(1, None)),
                            (slice(None, None, -1), slice(None, None, -1)), (slice(2, 9), slice(2, 9))):
        np.testing.assert_array_equal(table[which], rows[expected])
    for which in 1, -1, [0, 2], np.array([1]):
        np.testing.assert_array_equal(without_keys(table)[which], rows[which])


def test_a_key_that_is_not_there_is_an_exception_with_its_place(table):
    with pytest.raises(tensord.KeyNotFound) as caught:
        table[["king", "joker"]]
    assert (caught.value.key, caught.value.position) == ("joker", [1])


def test_the_nearest_rows_are_found_for_keys_and_vectors(client, table):
    best = table.search("king", 2)
    assert (best.keys.tolist(), best.indices.tolist(), best.scores.tolist()) == (["ace", "queen"], [2, 1], [5.0, 3.0])
    best = table.search(["king"], 2)
    assert (best.keys.tolist(), best.indices.tolist(), best.scores.tolist()) == ([["ace", "queen"]], [[2, 1]], [[5.0, 3.0]])
    assert str(best) == "query  key    row  score\n    0  ace      2      5\n    0  queen    1      3"
    best = table.search([2.0, 3.0], 2, metric="l2", exclude=["king"])
    assert (best.keys.tolist(), best.scores.tolist()) == (["queen", "ace"], [0.0, np.float32(8 ** 0.5)])
    assert str(best) == "key    row    score\nqueen    1        0\nace      2  2.82843"
    assert table.search(np.eye(2, dtype="f8"), 1, candidates=[0, 1]).indices.tolist() == [[1], [1]]
    assert table.search(tensord.Keys(["ace"]), 1, candidates=tensord.Keys(["queen", "king"]), exclude=tensord.Keys("king")).keys.tolist() == [["queen"]]
    with pytest.raises(tensord.KeyNotFound) as caught:
        table.search(["king", "joker"])
    assert (caught.value.key, caught.value.input, caught.value.position) == ("joker", "rows", [1])
    assert client.search(without_keys(table), rows=0, k=1).keys is None


def test_the_outputs_of_a_search_that_are_stored_can_be_selected(client, table):
    stored = client.store("best", outputs=["scores", "indices"], ttl_s=60).search(table, rows=tensord.Keys(["king"]), k=2)
    assert [stored[name]["name"] for name in stored] == ["best.scores", "best.indices"]
    assert client.tables["best.indices"].get().tolist() == [[2, 1]]
    with pytest.raises(tensord.InvalidArgument, match="leave the output out with the member outputs"):
        client.store("best").search(table, rows=[0], k=2)


def test_floats_that_are_searched_for_are_float32_beside_any_table(client):
    half = client.tables["half"]
    half.put(np.ones((1, 1), "f2"))
    assert half.search([2049.0], 1).scores.tolist() == [2049.0]
    assert client.search(half, np.float64([2049.0]), 1).scores.dtype == "f8"
    half.delete()


def test_names_are_in_any_script(client):
    films = client.tables["映画:é@1"]
    films.put([[1.0, 2.0]], keys=["東京"], persist=True)
    client.tables.set_aliases({"ciné": "映画:é@1"})
    np.testing.assert_array_equal(client.tables["ciné"]["東京"], [1, 2])
    assert [one["name"] for one in client.tables.list(prefix="映")] == ["映画:é@1"] and "映画:é@1" in list(client.tables)
    copy = client.store("複製").gather(client.tables["ciné"], [0])
    assert copy["name"] == "複製"
    with pytest.raises(tensord.InvalidArgument, match="expected 'café', in a path caf%C3%A9"):
        client.tables["cafe\u0301"].put([1.0])
    client.tables.set_aliases({"ciné": None})
    for one in films, client.tables["複製"]:
        one.delete()


def test_the_rows_of_a_table_are_not_iterated(client, table):
    """each would be a request"""
    for wrong in (lambda: list(table), lambda: client.concat(table)):
        with pytest.raises(TypeError):
            wrong()
    assert table[:].shape == (3, 2)


def test_a_table_is_fetched_where_an_array_is_wanted(table, daemon):
    rows = np.arange(6, dtype="f4").reshape(3, 2)
    for made in np.asarray(table), np.array(table, copy=True), np.asarray(table, "f4"):
        assert made.dtype == "f4"
        np.testing.assert_array_equal(made, rows)
    assert np.asarray(table, "f8").dtype == "f8" and (np.asarray(table) + 1).tolist() == (rows + 1).tolist()
    assert asynchronous(daemon.url, lambda client: client.tables["movies"].array("f8")).tolist() == rows.tolist()


@pytest.mark.parametrize("keys, what", [(np.array([1.0, 2.0, 3.0]), "an array of float64"), (np.zeros(3, "f4"), "an array of float32"), ([1.0, 2.0, 3.0], "floats"),
                                        ([1, 2.5, 3], "floats"), ([np.float32(1)], "an array of float32")])
def test_keys_that_are_floats_are_refused_before_anything_is_sent(table, keys, what):
    for use in (lambda: table.put(np.zeros((3, 2)), keys=keys), lambda: table.set_keys(keys), lambda: table.loc[keys], lambda: table.lookup(keys),
                lambda: table.upsert(keys, np.zeros((3, 2), "f4")), lambda: table.remove(keys)):
        with pytest.raises(TypeError) as caught:
            use()
        assert str(caught.value) == f"keys: {what}; keys must be int64, uint64 or strings. If all keys are integers, pass numpy.asarray(x, 'int64')"


@pytest.mark.parametrize("keys", [["king", None], [1, None]])
def test_a_missing_key_is_not_nan(table, keys):
    for use in lambda: table.upsert(keys, np.zeros((2, 2), "f4")), lambda: table.loc[keys], lambda: table.set_keys(keys), lambda: table.iloc[[1, None]]:
        with pytest.raises(TypeError, match="a list with a NoneType; leave it out, or pass a key or a row number instead$"):
            use()


def test_tables_are_a_collection_of_names(client, table):
    client.tables["cities@1"].put([1.0], persist=True)
    client.tables.set_aliases({"cities": "cities@1"})
    names = list(client.tables)
    assert names == sorted(names) == [one["name"] for one in client.tables.list()] and {"cities@1", "movies", "planets"} <= set(names)
    assert len(client.tables) == len(names)
    assert "movies" in client.tables and "cities@1" in client.tables and "cities" in client.tables and "films" not in client.tables
    assert repr(client.tables) == f"Tables({client!r})" and repr(client.store("best")) == f"Store({client!r}, 'best')"
    client.tables.set_aliases({"cities": None})
    client.tables["cities@1"].delete()


def test_a_table_has_a_shape_a_dtype_and_a_length(client, table):
    assert (table.shape, table.dtype, len(table)) == ((3, 2), np.dtype("float32"), 3) and table.dtype == np.float32
    names, half = client.tables["names"], client.tables["half"]
    names.put(np.array(["a"]))
    client.store(half).cast([1.5], "bfloat16")
    assert (names.dtype, half.dtype) == ("string", "bfloat16")
    half.put(2.5)
    assert half.shape == ()
    with pytest.raises(TypeError, match="half is a scalar"):
        len(half)
    names.delete()
    half.delete()
    with pytest.raises(tensord.TensorNotFound):
        len(half)


def test_an_asyncio_client_has_the_same_by_methods(daemon, client, table):
    async def use(client):
        movies = client.tables["movies"]
        return ([name async for name in client.tables], await client.tables.length(), await client.tables.contains("films"),
                await movies.shape, await movies.dtype, await movies.length(), await movies.loc["ace"], await movies.iloc[-1],
                await client.einsum("ij->j", movies))
    names, count, there, shape, dtype, length, by_key, by_number, sums = asynchronous(daemon.url, use)
    assert (names, count, there) == (list(client.tables), len(client.tables), False)
    assert (shape, dtype, length) == ((3, 2), np.float32, 3)
    assert by_key.tolist() == by_number.tolist() == [4, 5] and sums.tolist() == [6, 9]


def test_rows_by_key_and_by_number_have_names_of_their_own(table):
    assert table.loc["ace"].tolist() == table.iloc[2].tolist() == table.iloc[-1].tolist() == [4, 5]
    assert table.loc[["ace", "king"]].tolist() == table.iloc[[2, 0]].tolist() == table.iloc[np.array([-1, -3], "i4")].tolist() == [[4, 5], [0, 1]]
    assert table.loc[np.array(["ace"])].tolist() == table[np.array(["ace"])].tolist() == table.iloc[2:].tolist() == [[4, 5]]
    for wrong, said in ((lambda: table.iloc["ace"], "loc"), (lambda: table.loc[1:2], "iloc"), (lambda: table.loc["king", "ace"], "list of keys"),
                        (lambda: table.iloc[1, 2], "one index"), (lambda: table.iloc[[0, None]], "^numbers: ")):
        with pytest.raises(TypeError, match=said):
            wrong()


def without_keys(table):
    table.client.tables["keyless"].put(table.get())
    return table.client.tables["keyless"]


def test_an_error_about_a_row_before_the_first_has_the_number_that_was_given(table):
    for wrong in -4, 3:
        for use in table.iloc, without_keys(table):
            with pytest.raises(tensord.IndexOutOfBounds, match=rf"^row {wrong} of \w+ is not one of its 3 rows, -3 to 2$") as caught:
                use[[0, wrong]]
            assert (caught.value.index, caught.value.bound) == (wrong, 3)


def test_what_is_no_row_leads_on(table):
    for use in table, table.iloc:
        with pytest.raises(TypeError, match=r"use table\[:\] for all rows"):
            use[...]
    for keys in float("nan"), [1, float("nan")]:
        with pytest.raises(TypeError, match="^keys: floats with a NaN; NaN cannot be a key: leave it out"):
            table.loc[keys]


def test_a_mask_and_strings_are_no_row_numbers(client, table):
    for mask in (np.array([True, False, True]), [True, False, True], True):
        for use in table, table.iloc:
            with pytest.raises(TypeError, match=r"not by a mask; numpy\.flatnonzero\(mask\) gives the row numbers"):
                use[mask]
    for use in (lambda: client.gather(table, ["king"]), lambda: table.rows(["king"]), lambda: client.embedding_bag(table, np.array(["king"]), offsets=[0])):
        with pytest.raises(TypeError, match=r"^(indices|numbers): strings, where integers are expected; pass tensord\.Keys\(x\)"):
            use()


def test_a_str_in_place_of_row_numbers_leads_to_keys(client, table):
    for use in lambda given: client.gather(table, given), lambda given: client.embedding_bag(table, given, offsets=[0]):
        with pytest.raises(tensord.TensorNotFound, match=r"a str is the name of a resident tensor\. .* tensord\.Keys\(\[KEY\]\)$"):
            use("king")
        assert use(tensord.Keys(["king"])).tolist() == [[0, 1]]
    for other in lambda: client.gather("absent", [0]), lambda: client.gather_nd(table, "king"):
        with pytest.raises(tensord.TensorNotFound, match="lists them$"):
            other()


def test_a_number_is_ambiguous_where_there_are_keys(client, table):
    for which in (0, -1, [0], np.array([1])):  # keys of a CSV file may be numbers as text
        with pytest.raises(TypeError, match=r"movies has string keys.*; use loc\[\.\.\.\] .* iloc\[\.\.\.\]"):
            table[which]
    assert table[1:].tolist() == table.iloc[1:].tolist()
    one = client.tables["numbers"]
    one.put([[10.0], [20.0], [30.0]], keys=[2, 1, 0])
    for which in (0, -1, [0], np.array([1]), slice(1, None)):
        with pytest.raises(TypeError, match=r"numbers has int64 keys.*; use loc\[\.\.\.\] .* iloc\[\.\.\.\]"):
            one[which]
    assert one.loc[0].tolist() == one.iloc[2].tolist() == [30] and one.loc[[1, 2]].tolist() == [[20], [10]]
    assert one[:].tolist() == one.iloc[:].tolist() == [[10], [20], [30]]
    one.delete()


def test_lookup_says_which_keys_are_there(table):
    found = table.lookup(["joker", "ace"], missing="zero")
    assert found.found.tolist() == [False, True] and found.output.tolist() == [[0, 0], [4, 5]]
    assert table.lookup(["joker"], missing="default", default=[8, 9]).output.tolist() == [[8, 9]]


def test_a_key_that_is_not_there_is_an_error_however_it_is_looked_up_unless_the_call_says_otherwise(client, table):
    for lookup in (lambda: table["joker"], lambda: table.loc[["ace", "joker"]], lambda: table.by_key(["joker"]), lambda: table.lookup(["joker"]),
                   lambda: client.lookup(table, ["joker"]), lambda: client.gather(table, tensord.Keys(["joker"]))):
        with pytest.raises(tensord.KeyNotFound) as caught:
            lookup()
        assert caught.value.key == "joker"
    assert table.lookup(["ace"]).found.tolist() == [True]


def test_upsert_remove_and_scatter_change_rows(table):
    assert table.upsert(["king", "joker"], np.array([[9, 9], [7, 8]], "f4"))["appended"] == 1
    assert table.upsert(["king"], [[5, 5]])["replaced"] == 1
    assert table["king"].tolist() == [5, 5] and table["joker"].tolist() == [7, 8]
    assert table.remove(["king", "nobody"])["removed"] == 1
    assert sorted(table.keys()) == ["ace", "joker", "queen"]
    table.scatter([[0]], [[1, 1]], mode="set")
    assert table.iloc[0].tolist() == [1, 1]


def test_a_str_for_keys_is_one_key(client, table):
    """as in lookup; a resident tensor of keys is a reference"""
    assert table.upsert("joker", [[7, 8]])["appended"] == 1 and table.lookup("joker").output.tolist() == [[7, 8]]
    assert table.remove("joker")["removed"] == 1
    client.tables["gone"].put(np.array(["king", "queen"]))
    assert table.remove(tensord.Ref("gone"))["removed"] == 2
    client.tables["gone"].delete()


def test_integer_keys(client):
    one = client.tables["numbers"]
    one.put(np.array([10.0, 20.0]))
    one.set_keys(np.array([7, -7]))
    assert one.by_key([-7, 7]).tolist() == [20, 10] and one.keys().tolist() == [7, -7]
    one.delete_keys()
    one.delete()
    with pytest.raises(tensord.TensorNotFound):
        one.info()


def test_a_table_of_strings_is_stored_and_read(client):
    one = client.tables["names"]
    one.put(np.array([["a", "b"], ["c", "ö"]]))
    assert one.get().tolist() == [["a", "b"], ["c", "ö"]]
    one.delete()


def test_put_reports_its_progress(client):
    seen, one = [], client.tables["large"]
    value = np.arange(1_000_000, dtype="f4")
    one.put(value, progress=lambda sent, total: seen.append((sent, total)))
    assert len(seen) > 3 and seen[-1][0] == seen[-1][1] >= value.nbytes
    np.testing.assert_array_equal(one.get(), value)
    one.delete()


def test_a_condition_that_is_false_changes_nothing(client, table):
    with pytest.raises(tensord.PreconditionFailed) as caught:
        table.put(np.zeros(1), if_match='"other"')
    assert caught.value.etag == table.info()["etag"]


def test_aliases_name_versions(client):
    client.tables["cities@1"].put(np.array([1.0]), persist=True)
    client.tables.set_aliases({"cities": "cities@1"}, expected={"cities": None})
    assert client.tables.aliases()["cities"] == "cities@1" and client.tables["cities"].get().tolist() == [1]
    assert "cities@1" in [one["name"] for one in client.tables.list()]
    assert [one["name"] for one in client.tables.list(prefix="cities@")] == ["cities@1"]
    client.tables.set_aliases({"cities": None})
    client.tables["cities@1"].delete()


def test_an_op_stores_its_result_as_a_table(client):
    made = client.store("best").gather("planets", [3, 2])
    assert (made["name"], made["shape"]) == ("best", [2, 4])
    np.testing.assert_array_equal(client.tables["best"].get(), client.gather("planets", [3, 2]))
    with pytest.raises(tensord.PreconditionFailed):
        client.store("best", if_none_match="*").gather("planets", [0])
    client.store(client.tables["best"], if_match=made["etag"]).einsum(["best"], equation="ij->i")
    assert client.tables["best"].info()["shape"] == [2]


def test_a_result_has_a_time_to_live(client):
    short, stays = client.store("short", ttl_s=60).gather("planets", [0]), client.store("stays").gather("planets", [0])
    assert 0 < short["ttl_s"] <= 60 and "ttl_s" not in stays
    for name in ("short", "stays"):
        client.tables[name].delete()


def test_lists_and_named_outputs_are_stored_under_names_of_their_own(client):
    parts = client.store("part").dynamic_partition([1.5, 2.5], [1, 0], num_partitions=2)
    assert [one["name"] for one in parts] == ["part.0", "part.1"] and client.tables["part.0"].get().tolist() == [2.5]
    top = client.store("top").top_k("part.1", k=1)
    assert {name: one["name"] for name, one in top.items()} == {"values": "top.values", "indices": "top.indices"}


def test_statistics_of_a_table(client, table):
    found = table.statistics()
    assert (found["min"], found["max"], found["mean"], found["numel"]) == (0, 5, 2.5, 6)


def test_versions_of_a_table(client):
    song = client.tables["songs"]
    for version in 1, 2:
        song.version(version).put(np.array([float(version)]), persist=True)
    assert song.versions() == ["songs@1", "songs@2"]
    with pytest.raises(tensord.Conflict):
        song.version(2).put(np.array([3.0]))
    client.tables.set_aliases({"songs": "songs@2"})
    assert song.get().tolist() == [2] and client.tables.alias_state()["aliases"]["songs"] == "songs@2"
    client.tables.set_aliases({"songs": None})
    for version in 1, 2:
        song.version(version).delete()
    assert song.versions() == []


def test_a_plan_an_inventory_and_metrics_are_documents(client):
    plan = client.einsum_plan([[100, 5], [5, 50], [50, 2]], equation="ij,jk,kl->il", dtype=np.float64)
    assert plan["path"] == [[1, 2], [0, 1]] and plan["output"]["dtype"] == "float64"
    assert client.devices() and "tensord_requests_total" in client.metrics()
    assert "gather" in [op["name"] for op in client.ops()] and client.describe("gather")["name"] == "gather"


def test_embedding_bags_with_all_their_options(client):
    params, indices = np.arange(8, dtype="f4").reshape(4, 2), [0, 1, 3, 3]
    assert client.embedding_bag(params, indices, offsets=[0, 2]).tolist() == [[2, 4], [12, 14]]
    assert client.embedding_bag(params, indices, segment_ids=[0, 0, 0, 2], num_segments=3, mode="mean").tolist() == [
        pytest.approx([8 / 3, 11 / 3]), [0, 0], [6, 7]]
    assert client.embedding_bag(params, indices, offsets=[0, 3], weights=[1, 2, 0.5, 1], padding_index=0).tolist() == [[7, 9.5], [6, 7]]
    quantised = np.array([[0, 4], [2, 8]], "u1")
    assert client.dequantize(quantised, np.array([0.5, 1], "f4"), offset=np.array([1, 0], "f4")).tolist() == [[1, 3], [2, 8]]
    assert client.embedding_bag(quantised, [0, 1], offsets=[0], scale=np.array([0.5, 1], "f4"), offset=np.array([1, 0], "f4"),
                                bounds="zero").tolist() == [[3, 11]]


def test_rows_of_a_bag_may_be_keys(client, table):
    for keys in (tensord.Keys(["king", "ace"]), {"keys": ["king", "ace"]}):  # as a request in JSON has them
        assert client.embedding_bag(table, keys, offsets=[0]).tolist() == [[4, 6]]


def test_a_table_with_string_keys_is_sent_in_binary(client):
    calls_, one = [], client.tables["binary"]
    sent = client.send
    client.send = lambda call, **options: (calls_.append(call), sent(call, **options))[1]
    one.put(np.arange(6, dtype="f4").reshape(3, 2), keys=np.array(["a", "", "ö"]))
    assert calls_[0].headers["Content-Type"] == "application/vnd.safetensors"
    assert one.keys().tolist() == ["a", "", "ö"] and one["ö"].tolist() == [4, 5]
    one.put(np.zeros((0, 2), "f4"), keys=np.array([], dtype=object))
    assert one.get().shape == (0, 2)
    one.delete()


def test_numbers_below_zero_count_from_the_end(table):
    table = without_keys(table)
    assert table[[-1, 0]].tolist() == table[np.array([-1, 0])].tolist() == [[4, 5], [0, 1]]
    assert table[np.int64(-1)].tolist() == [4, 5]
    with pytest.raises(TypeError, match="one index"):
        table[1, 2]
    with pytest.raises(tensord.IndexOutOfBounds):
        table[-4]


def test_a_put_that_drops_the_keys_warns(client, table):
    with pytest.warns(UserWarning, match=r"^movies: the put dropped the table's 3 keys because it had none; to set new keys, use put\(value, keys=...\)$"):
        assert table.put([[1.0, 2.0]])["dropped_keys"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.put([[1.0, 2.0]], keys=["a"])
        table.put([[3.0, 4.0]], keys=["a"])
        table.delete_keys()
        assert "dropped_keys" not in table.put([[1.0, 2.0]])


def test_a_table_is_stored_only_if_there_is_none(client, table):
    with pytest.raises(tensord.PreconditionFailed):
        table.put(np.zeros(2), if_none_match="*")
    with pytest.raises(tensord.PreconditionFailed):
        table.delete(if_match='"other"')
    shared = client.tables["shared"]
    shared.put("movies", if_none_match="*")
    np.testing.assert_array_equal(shared.get(), table.get())
    shared.delete()


@pytest.mark.parametrize("dtype, integer", [("f4", 2 ** 24 + 1), ("f8", 2 ** 53 + 1)])
def test_integers_that_the_dtype_of_a_table_rounds_are_refused(client, dtype, integer):
    one = client.tables["wide"]
    one.put(np.zeros((1, 2), dtype), keys=["a"])
    for use in (lambda: one.upsert(["a"], [[integer, 2]]), lambda: one.scatter([[0]], [[integer, 2]]),
                lambda: one.lookup(["b"], missing="default", default=[integer, 2])):
        with pytest.raises(tensord.MalformedRequest, match=f"^{integer} is not exact in {np.dtype(dtype).name}"):
            use()
    one.upsert(["a"], [[integer - 1, 2]])
    one.delete()


def test_advice_of_the_daemon_is_written_as_python_calls_the_op(client):
    client.tables["quantised"].put(np.array([[1], [2]], "i1"))
    client.tables["quantised.scale"].put(np.array([1, 1], "f4"))
    client.tables["quantised.offset"].put(np.array([0, 1], "f4"))
    with pytest.raises(tensord.InvalidArgument, match='give offset="quantised.offset"') as raised:
        client.embedding_bag("quantised", [[0]], scale="quantised.scale")
    assert ".ref" in raised.value.detail  # is the daemon's own
    assert client.embedding_bag("quantised", [[0]], scale="quantised.scale", offset="quantised.offset").tolist() == [[1]]


def test_errors_about_keys_name_the_argument(client, using, daemon):
    client.tables["named"].put([[1.5], [2]], keys=["a", "b"])
    with pytest.raises(tensord.KeyNotFound, match=r'^keys\[1\] = "z" is not one of the keys') as caught:
        client.tables["named"].by_key(["a", "z"])
    assert caught.value.input == "keys" and caught.value.request_id
    with pytest.raises(tensord.KeyNotFound, match=r'^keys\[0\] = "z"'):
        using(daemon.url, lambda one: one.tables["named"].by_key(["z"]))
    with pytest.raises(TypeError, match=r"inputs\[0\]: tensord.Keys; pass the rows with these keys: table\[KEYS\], or client.gather"):
        client.einsum("vd,d->v", tensord.Keys(["a"]), [1.0])
    client.tables["named"].delete()


def test_a_mask_is_no_list_of_keys(client):
    """Made integers, as an error about dtypes may suggest, it would be the keys 0 and 1."""
    table = client.tables["masked"]
    table.put([[1.5], [2]], keys=np.array([1, 0]))
    for mask in np.array([True, False]), [True, False]:
        with pytest.raises(TypeError, match=r"^keys is a mask; expected keys. For the rows of a mask, use iloc\[numpy.flatnonzero\(mask\)\]$"):
            table.loc[mask]
    with pytest.raises(tensord.UnsupportedDtype, match="a mask has no keys; use the positions where it is true as row numbers"):
        table.remove(np.array([True]))
    table.delete()


def test_keys_for_a_table_without_keys_lead_to_row_numbers(client):
    client.tables["keyless"].put([[1.5], [2]])
    with pytest.raises(tensord.InvalidArgument, match=r"has no keys to find rows by; pass row numbers to table.iloc\[...\], or to lookup --rows, or set keys"):
        client.tables["keyless"].by_key([0])
    client.tables["keyless"].delete()
