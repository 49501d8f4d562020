"""Resident tensors against a daemon."""
import numpy as np
import pytest
import tensord


@pytest.fixture
def table(client):
    one = client.tables["movies"]
    one.put(np.arange(6, dtype="f4").reshape(3, 2), keys=["king", "queen", "ace"])
    yield one
    one.delete()


def test_rows_are_found_by_key_number_list_and_slice(table):
    rows = np.arange(6, dtype="f4").reshape(3, 2)
    for which, expected in (("king", 0), (["ace", "king"], [2, 0]), (1, 1), (-1, 2), ([0, 2], [0, 2]), (slice(1, None), slice(1, None)),
                            (slice(None, None, -1), slice(None, None, -1)), (slice(2, 9), slice(2, 9)), (np.array([1]), [1])):
        np.testing.assert_array_equal(table[which], rows[expected])


def test_a_key_that_is_not_there_is_an_exception_with_its_place(table):
    with pytest.raises(tensord.KeyNotFound) as caught:
        table[["king", "joker"]]
    assert (caught.value.key, caught.value.position) == ("joker", [1])


def test_lookup_says_which_keys_are_there(table):
    found = table.lookup(["joker", "ace"])
    assert found.found.tolist() == [False, True] and found.output.tolist() == [[0, 0], [4, 5]]


def test_upsert_remove_and_scatter_change_rows(table):
    assert table.upsert(["king", "joker"], np.array([[9, 9], [7, 8]], "f4"))["appended"] == 1
    assert table.upsert(["king"], [[5, 5]])["replaced"] == 1
    assert table["king"].tolist() == [5, 5] and table["joker"].tolist() == [7, 8]
    assert table.remove(["king", "nobody"])["removed"] == 1
    assert sorted(table.keys()) == ["ace", "joker", "queen"]
    table.scatter([[0]], [[1, 1]], mode="set")
    assert table[0].tolist() == [1, 1]


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
    client.tables["cities@1"].put(np.array([1.0]))
    client.tables.set_aliases({"cities": "cities@1"}, expected={"cities": None})
    assert client.tables.aliases()["cities"] == "cities@1" and client.tables["cities"].get().tolist() == [1]
    assert "cities@1" in [one["name"] for one in client.tables.list()]
    client.tables.set_aliases({"cities": None})
    client.tables["cities@1"].delete()
