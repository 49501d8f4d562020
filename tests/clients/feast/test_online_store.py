"""The online store of Feast against a daemon: rows that are written come back, and what it keeps in the tables."""
import asyncio
import itertools
import uuid
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
import tensord
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import DoubleList, FloatList, Int64List, Value
from feast.repo_config import RepoConfig
from feast.types import Array, Bool, Float32, Float64, Int32, Int64, String, UnixTimestamp
from feast.value_type import ValueType
from tensord_feast import TensordOnlineStore

NOON = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=timezone.utc)
SOURCE = FileSource(path="not_read.parquet", timestamp_field="event_timestamp")
DRIVER = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)


@pytest.fixture(scope="session")
def daemon():
    with tensord.serve() as server:
        yield server


@pytest.fixture
def config(daemon, tmp_path):
    """a project of its own for each test"""
    return RepoConfig(project=f"project_{uuid.uuid4().hex}", registry=str(tmp_path / "registry.db"), provider="local", entity_key_serialization_version=3,
                      online_store={"type": "tensord_feast.TensordOnlineStore", "url": daemon.url})


@pytest.fixture
def store():
    return TensordOnlineStore()


def view(*fields, name="drivers"):
    """a feature view with fields such as ("trips", Int32) and ("place", Array(Float32), "vector")"""
    schema = [Field(name=field, dtype=dtype, vector_index=bool(vector)) for field, dtype, *vector in fields]
    return FeatureView(name=name, entities=[DRIVER], schema=schema, source=SOURCE)


def entity(number):
    return EntityKey(join_keys=["driver_id"], entity_values=[Value(int64_val=number)])


def write(store, config, of, *rows):
    """writes rows (number of the driver, minutes after noon, features)"""
    store.online_write_batch(config, of, [(entity(number), features, NOON + timedelta(minutes=late), None) for number, late, features in rows], None)


def read(store, config, of, *numbers, features=None):
    return store.online_read(config, of, [entity(number) for number in numbers], features)


def trips(count):
    return {"trips": Value(int32_val=count)}


def place(*position):
    return {"place": Value(float_list_val=FloatList(val=position))}


def apply(store, config, *keep, delete=()):
    store.update(config, list(delete), list(keep), [], [], False)


def tables_of(daemon, config):
    return [name.removeprefix(config.project) for name in daemon.client.tables if name.startswith(config.project + ":")]


# ---------------------------------------------------------------- rows
def test_features_of_every_kind_come_back_with_the_timestamp_of_the_event(store, config):
    values = {"trips": Value(int32_val=-7), "id": Value(int64_val=-2**63), "rate": Value(float_val=np.float32(0.1)), "fare": Value(double_val=0.1),
              "active": Value(bool_val=False), "since": Value(unix_timestamp_val=1646263500), "city": Value(string_val="Zürich"),
              "visits": Value(int64_list_val=Int64List(val=[2**62, 0])), "place": Value(double_list_val=DoubleList(val=[0.1, 0.2]))}
    drivers = view(("trips", Int32), ("id", Int64), ("rate", Float32), ("fare", Float64), ("active", Bool), ("since", UnixTimestamp), ("city", String),
                   ("visits", Array(Int64)), ("place", Array(Float64), "vector"))
    write(store, config, drivers, (1, 0, values))
    store.online_write_batch(config, drivers, [(entity(2), {}, NOON.replace(tzinfo=None), None)], None)  # without a time zone, it is UTC
    assert read(store, config, drivers, 1) == [(NOON, values)]
    assert read(store, config, drivers, 2) == [(NOON, dict.fromkeys(values, Value()))]
    for name, value in values.items():
        assert read(store, config, drivers, 3, 1, features=[name]) == [(None, None), (NOON, {name: value})]
    apply(store, config, delete=[drivers])
    assert read(store, config, drivers, 1) == [(None, None)]


def test_a_row_replaces_rows_that_are_not_newer(store, config):
    drivers = view(("trips", Int32), ("city", String), ("place", Array(Float32), "vector"))
    for late, count, expected in (0, 1, 1), (-1, 2, 1), (0, 3, 3), (1, 4, 4), (0, 5, 4):
        write(store, config, drivers, (1, late, {**trips(count), **place(count, 0), "city": Value(string_val=str(count))}))
        (_, features), = read(store, config, drivers, 1)
        assert features == {**trips(expected), **place(expected, 0), "city": Value(string_val=str(expected))}, (late, count)
    write(store, config, drivers, (1, 2, trips(6)))
    assert read(store, config, drivers, 1) == [(NOON + timedelta(minutes=2), {**trips(6), "city": Value(), "place": Value()})]


def test_of_several_rows_of_an_entity_in_a_batch_the_newest_is_kept(store, config):
    drivers = view(("trips", Int32))
    write(store, config, drivers, (1, 0, trips(1)), (1, 2, trips(2)), (2, 0, trips(3)), (1, 1, trips(4)), (2, 0, trips(5)))
    assert read(store, config, drivers, 1, 2) == [(NOON + timedelta(minutes=2), trips(2)), (NOON, trips(5))]


OLD, NEW = (view(*fields, ("city", String), ("place", Array(Float32), "vector")) for fields in ([("trips", Int32)], [("rate", Float32), ("trips", Int32)]))


@pytest.mark.parametrize("before, stored", [(None, None), (OLD, place(0, 1)), (NEW, place(0, 1)), (NEW, {})],
                         ids=["without tables", "without a column", "with all columns", "without vectors"])
def test_the_newest_row_remains_in_all_tables_wherever_the_write_of_another_client_falls(store, config, daemon, before, stored):
    def features(count):
        return {**trips(count), **place(count, 0), "city": Value(string_val=str(count)), "rate": Value(float_val=count)}

    def interrupted(at, without):
        """writes rows of two entities; another client writes a newer and an older row of them before the request `at` is sent"""
        slow, sent = TensordOnlineStore(), []
        slow._client = tensord.Client(daemon.url)
        send = slow._client.send

        def send_late(call, **more):
            if len(sent) == at:
                write(store, config, NEW, (1, 1, features(2)), (2, -1, features(2)))
            sent.append(call)
            return send(call, **more)
        slow._client.send = send_late
        write(slow, config, NEW, (1, 0, features(1)), (2, 0, {**features(1), **without}))
        return at < len(sent)

    for without in {}, {"place": Value()}:
        for at in itertools.count():
            store.teardown(config, [NEW], [])
            if before:
                write(store, config, before, (1, -9, stored), (2, -9, stored))
            if not interrupted(at, without):
                break
            assert read(store, config, NEW, 1, 2) == [(NOON + timedelta(minutes=1), features(2)), (NOON, {**features(1), **without})], at
        assert at > 5


def test_a_write_that_others_always_overtake_ends_with_an_error(store, config, monkeypatch):
    def overtaken(*_):
        raise tensord.PreconditionFailed({"detail": "the tensor has changed"}, 412)
    monkeypatch.setattr(store, "_write", overtaken)
    with pytest.raises(RuntimeError, match="feature view drivers: other clients changed its tables during each of 1000 attempts"):
        write(store, config, view(("trips", Int32), name="drivers"), (1, 0, trips(1)))


def test_an_asynchronous_read_gives_the_same_rows(store, config, monkeypatch):
    closed, close = [], tensord.AsyncClient.close
    monkeypatch.setattr(tensord.AsyncClient, "close", lambda self: closed.append(self) or close(self))
    drivers = view(("trips", Int32), ("city", String), ("place", Array(Float32), "vector"))
    write(store, config, drivers, (1, 0, {**trips(1), **place(1, 2), "city": Value(string_val="Bern")}), (2, 0, trips(2)))

    async def rows(of):
        try:
            return await store.online_read_async(config, of, [entity(1), entity(3), entity(2)])
        finally:
            await store.close()
    assert asyncio.run(rows(drivers)) == read(store, config, drivers, 1, 3, 2)
    assert asyncio.run(rows(view(("trips", Int32), name="never_written"))) == [(None, None)] * 3
    assert len(closed) == 2 and store._client is None


def test_a_value_that_the_table_cannot_hold_is_refused_with_its_feature(store, config):
    drivers = view(("trips", Int32), ("id", Int64), ("place", Array(Float32), "vector"))
    for features, error, words in (({"id": Value(int64_val=2**53 + 1)}, ValueError, ["drivers", "id is 9007199254740993", "declare the feature as String"]),
                                   ({"trips": Value(string_val="1")}, TypeError, ["drivers", "trips is a string_val", "int32_val"]),
                                   ({"trips": Value(double_val=1.5)}, TypeError, ["drivers", "trips is a double_val", "int32_val"]),
                                   ({"place": Value(double_list_val=DoubleList(val=[1, 2]))}, TypeError, ["place is a double_list_val", "float_list_val"]),
                                   (place(1, 2, 3), ValueError, ["drivers", "place", "[2, 3]", "delete the feature view and apply it again"])):
        with pytest.raises(error) as caught:
            write(store, config, drivers, (1, 0, place(1, 2)), (2, 0, features))
        assert all(word in str(caught.value) for word in words), caught.value
    assert read(store, config, drivers, 1) == [(None, None)]


# ---------------------------------------------------------------- tables
def test_numbers_are_columns_of_one_table_and_are_read_with_one_request(store, config, daemon, monkeypatch):
    drivers = view(("trips", Int32), ("city", String), ("rate", Float64), ("place", Array(Float32), "vector"))
    write(store, config, drivers, (1, 0, {**trips(3), **place(1, 2), "rate": Value(double_val=0.5), "city": Value(string_val="Bern")}))
    assert tables_of(daemon, config) == [":drivers", ":drivers:others", ":drivers:vectors"]
    numbers, vectors = (daemon.client.tables[config.project + name] for name in (":drivers", ":drivers:vectors"))
    assert (numbers.dtype, numbers.get()[1].tolist()) == (np.float64, [NOON.timestamp() * 1e6, 3, 0.5])
    assert (vectors.dtype, vectors.get().tolist()) == (np.float32, [[1, 2]])
    sent, send = [], tensord.Client.send
    monkeypatch.setattr(tensord.Client, "send", lambda self, call, **more: sent.append(call.path) or send(self, call, **more))
    read(store, config, drivers, 1, 2, features=["rate", "trips"])
    assert sent == ["/v1/lookup"]


def test_a_view_with_another_schema_keeps_the_values_of_its_features(store, config):
    old, new = view(("trips", Int32), ("rate", Float32)), view(("fare", Float64), ("rate", Float32), ("city", String))
    apply(store, config, old)
    write(store, config, old, (1, 0, {**trips(1), "rate": Value(float_val=0.5)}))
    apply(store, config, new)
    assert read(store, config, new, 1) == [(NOON, {"fare": Value(), "rate": Value(float_val=0.5), "city": Value()})]
    write(store, config, new, (2, 0, {"fare": Value(double_val=9), "rate": Value(float_val=0.25), "city": Value(string_val="Bern")}))
    assert read(store, config, old, 1, 2) == [(NOON, {**trips(1), "rate": Value(float_val=0.5)}), (NOON, {"trips": Value(), "rate": Value(float_val=0.25)})]


def test_a_vector_of_another_type_is_refused_before_any_table_changes(store, config, daemon):
    with pytest.raises(ValueError, match=r"feature view b: place has vector_index=True and the type STRING; expected Array\(Float32\)"):
        apply(store, config, view(("trips", Int32), name="a"), view(("place", String, "vector"), name="b"))
    assert tables_of(daemon, config) == []


def test_vectors_that_the_stored_table_cannot_hold_are_refused_before_any_table_changes(store, config):
    singles, doubles = view(("trips", Int32), ("place", Array(Float32), "vector")), view(("trips", Int32), ("place", Array(Float64), "vector"))
    write(store, config, singles, (1, 0, {**trips(1), **place(1, 2)}))
    with pytest.raises(ValueError, match="drivers: the vectors of place are float64, and the stored vectors are float32; delete the feature view and apply"):
        write(store, config, doubles, (1, 1, {**trips(2), "place": Value(double_list_val=DoubleList(val=[0.1, 2]))}))
    assert read(store, config, singles, 1) == [(NOON, {**trips(1), **place(1, 2)})]


def test_nulls_leave_the_length_and_type_of_the_vectors_open(store, config):
    singles, doubles = view(("place", Array(Float32), "vector")), view(("place", Array(Float64), "vector"))
    write(store, config, singles, (1, 0, {}), (2, 0, {}))
    write(store, config, singles, (3, 0, {}))
    written = {"place": Value(double_list_val=DoubleList(val=[0.1, 2]))}
    write(store, config, doubles, (2, 0, written))
    assert [features for _, features in read(store, config, doubles, 1, 2, 3)] == [{"place": Value()}, written, {"place": Value()}]


def test_the_tables_of_another_program_are_left_alone(store, config, daemon):
    table = daemon.client.tables[config.project + ":drivers"]
    table.put(np.eye(2), keys=["a", "b"])
    with pytest.raises(ValueError, match="another program has stored it; delete it, or rename"):
        apply(store, config, view(("trips", Int32)))
    assert table.get().tolist() == np.eye(2).tolist()


def test_only_the_tables_of_a_deleted_view_are_deleted(store, config, daemon):
    drivers, more = (view(("trips", Int32), ("city", String), name=name) for name in ("drivers", "drivers_more"))
    for one in drivers, more:
        write(store, config, one, (1, 0, trips(1)))
    apply(store, config, more, delete=[drivers])
    assert tables_of(daemon, config) == [":drivers_more", ":drivers_more:others"]
    store.teardown(config, [drivers, more], [])
    assert tables_of(daemon, config) == []


def test_persisted_rows_are_there_after_a_restart(store, config, tmp_path):
    fields = ("trips", Int32), ("city", String), ("place", Array(Float32), "vector")
    drivers, once, nulls = (view(*fields, name=name) for name in ("drivers", "once", "nulls"))
    features = {**trips(1), **place(1, 2), "city": Value(string_val="Bern")}
    folder = tmp_path / "tables"
    folder.mkdir()
    with tensord.serve(str(folder)) as server:
        config.online_store.url, config.online_store.persist = server.url, True
        write(store, config, drivers, (1, 0, features), (2, 0, features))
        write(store, config, drivers, (2, 1, trips(2)))
        write(store, config, once, (1, 0, features))
        write(store, config, nulls, (1, 0, {}))
    with tensord.serve(str(folder)) as server:
        config.online_store.url = server.url
        assert [features for _, features in read(TensordOnlineStore(), config, drivers, 1, 2)] == [features, {**trips(2), "city": Value(), "place": Value()}]
        assert read(TensordOnlineStore(), config, once, 1) == [(NOON, features)]
        assert read(TensordOnlineStore(), config, nulls, 1) == [(NOON, dict.fromkeys(features, Value()))]


# ---------------------------------------------------------------- search
def test_a_search_finds_the_nearest_entities_with_their_features(store, config):
    drivers = view(("trips", Int32), ("place", Array(Float32), "vector"))
    assert search(store, config, drivers, "L2") == []
    write(store, config, drivers, (6, 0, trips(6)))
    assert search(store, config, drivers, "L2") == []
    write(store, config, drivers, (4, 0, trips(4)), (5, 0, place(float("nan"), 0)),
          *((number, 0, {**trips(number), **place(*position)}) for number, position in {1: (1, -1), 2: (4, 4), 3: (1, 1)}.items()))
    for metric, expected in ("L2", {3: 0, 1: 2}), (None, {3: 0, 1: 2}), ("COSINE", {2: 0, 3: 0}), ("inner_product", {2: -8, 3: -2}):
        found = [(event, key, features["trips"], features["distance"].float_val) for event, key, features in search(store, config, drivers, metric)]
        assert found == [(NOON, entity(number), Value(int32_val=number), pytest.approx(distance, abs=1e-6)) for number, distance in expected.items()], metric
    assert len(search(store, config, drivers, "L2", k=9)) == 3


def test_a_search_compares_float64_vectors_without_rounding_the_embedding(store, config):
    drivers = view(("place", Array(Float64), "vector"))
    write(store, config, drivers, (1, 0, {"place": Value(double_list_val=DoubleList(val=[0.1, 0.2]))}))
    (_, _, features), = store.retrieve_online_documents_v2(config, drivers, ["place"], [0.1, 0.2], 1, "L2")
    assert features["distance"].float_val == 0


def search(store, config, of, metric, k=2):
    return store.retrieve_online_documents_v2(config, of, ["trips"], [1.0, 1.0], k, metric)


def test_a_search_that_is_not_possible_is_refused_with_the_reason(store, config):
    given = {"table": view(("place", Array(Float32), "vector")), "requested_features": ["place"], "embedding": [1.0], "top_k": 1}
    for changed, error, words in (({"distance_metric": "L1"}, ValueError, "drivers: the distance metric is L1; expected one of l2, cosine, inner_product"),
                                  ({"query_string": "Bern"}, NotImplementedError, "drivers: .* leave out query_string and filters"),
                                  ({"embedding": None}, NotImplementedError, "drivers: tensord searches only by an embedding"),
                                  ({"table": view(("trips", Int32))}, ValueError, "drivers has no feature with vector_index=True")):
        with pytest.raises(error, match=words):
            store.retrieve_online_documents_v2(config, **{**given, **changed})
    write(store, config, given["table"], (1, 0, place(1, 2)))
    with pytest.raises(tensord.ShapeMismatch, match="expected queries of 2 elements"):
        store.retrieve_online_documents_v2(config, **given)


# ---------------------------------------------------------------- Feast
def test_a_feature_store_applies_writes_and_reads(config):
    feast = FeatureStore(config=config)
    feast.apply([DRIVER, view(("trips", Int64), ("city", String))])
    feast.write_to_online_store("drivers", pd.DataFrame({"driver_id": [1, 2], "trips": [3, None], "city": ["Bern", "Basel"], "event_timestamp": [NOON, NOON]}))
    got = feast.get_online_features(["drivers:trips", "drivers:city"], [{"driver_id": number} for number in (2, 1, 3)]).to_dict()
    assert got == {"driver_id": [2, 1, 3], "trips": [None, 3, None], "city": ["Basel", "Bern", None]}
    feast.teardown()
