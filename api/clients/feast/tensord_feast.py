"""TensordOnlineStore: an online store of Feast in tables of tensord. README.md describes them."""
from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Literal, NamedTuple, Optional

import numpy as np
import tensord
from feast.infra.key_encoding_utils import deserialize_entity_key, serialize_entity_key
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.supported_async_methods import SupportedAsyncMethods
from feast.protos.feast.types.EntityKey_pb2 import EntityKey as EntityKeyProto
from feast.protos.feast.types.Value_pb2 import Map
from feast.protos.feast.types.Value_pb2 import Value as ValueProto
from feast.repo_config import FeastConfigBaseModel, RepoConfig
from feast.value_type import ValueType
from pydantic import StrictBool, StrictStr

Features = dict[str, ValueProto]
ReadRow = tuple[Optional[datetime], Optional[Features]]
Written = list[tuple[EntityKeyProto, Features, datetime, Optional[datetime]]]
# Description of a table, or None if it does not exist.
Info = Optional[dict[str, Any]]
# Rows by key and a mask of the keys that exist, or None if the table does not exist. The first row
# is the row of HEADER.
Reply = Optional[tuple[np.ndarray, np.ndarray]]

# Types of the features that are columns of the table of numbers: the field of ValueProto, and the
# Python type of its values.
NUMBERS = {
    ValueType.INT32: ("int32_val", int), ValueType.INT64: ("int64_val", int),
    ValueType.FLOAT: ("float_val", float), ValueType.DOUBLE: ("double_val", float),
    ValueType.BOOL: ("bool_val", bool), ValueType.UNIX_TIMESTAMP: ("unix_timestamp_val", int)}
# Types of a feature with vector_index=True: the field of ValueProto, and the dtype of the table.
VECTORS = {ValueType.FLOAT_LIST: ("float_list_val", "float32"),
           ValueType.DOUBLE_LIST: ("double_list_val", "float64")}
# For each metric of Feast, the metric of the op search, and the distance for a score. Feast expects
# a smaller distance for a better row.
METRICS: dict[str, tuple[Any, Callable[[float], float]]] = {
    "l2": ("l2", lambda score: score), "cosine": ("cosine", lambda score: 1 - score),
    "inner_product": ("dot", lambda score: -score)}
# Key of the row that identifies the columns of a table of numbers. It cannot be the key of an
# entity, which starts with its number of join keys in four bytes.
HEADER = b"columns"
CHANGE_VECTORS = "delete the feature view and apply it again"
WRITES = 1000  # number of attempts to write a batch while other clients write
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)


class TensordOnlineStoreConfig(FeastConfigBaseModel):
    """The section online_store of feature_store.yaml."""
    type: Literal["tensord_feast.TensordOnlineStore"] = "tensord_feast.TensordOnlineStore"
    url: StrictStr = "http://127.0.0.1:8080"
    token: Optional[StrictStr] = None
    ca_file: Optional[StrictStr] = None
    timeout: float = 30.0
    persist: StrictBool = False


class TensordOnlineStore(OnlineStore):
    def __init__(self) -> None:
        self._client: Optional[tensord.Client] = None
        self._async_client: Optional[tensord.AsyncClient] = None

    @property
    def async_supported(self) -> SupportedAsyncMethods:
        return SupportedAsyncMethods(read=True)

    def update(self, config: RepoConfig, tables_to_delete: Sequence[Any],
               tables_to_keep: Sequence[Any], entities_to_delete: Sequence[Any],
               entities_to_keep: Sequence[Any], partial: bool) -> None:
        for view in tables_to_keep:
            Layout(config, view)  # refuses wrong types before any table changes
        self.teardown(config, tables_to_delete, entities_to_delete)
        for view in tables_to_keep:
            self.online_write_batch(config, view, [], None)

    def teardown(self, config: RepoConfig, tables: Sequence[Any], entities: Sequence[Any]) -> None:
        for view in tables:
            for name in table_names(config, view):
                with suppress(tensord.TensorNotFound):
                    self._table(config, name).delete()

    def online_write_batch(self, config: RepoConfig, table: Any, data: Written,
                           progress: Optional[Callable[[int], Any]]) -> None:
        layout, newest = Layout(config, table), newest_rows(config, data)
        for left in reversed(range(WRITES)):
            try:
                self._write(config, layout, newest)
                break
            except tensord.PreconditionFailed:  # another client has changed a table in the meantime
                if left == 0:
                    raise RuntimeError(
                        f"feature view {table.name}: other clients changed its tables during each "
                        f"of {WRITES} attempts to write; write the rows again, with fewer writers "
                        "at a time") from None
        if progress:
            progress(len(data))

    def online_read(self, config: RepoConfig, table: Any, entity_keys: list[EntityKeyProto],
                    requested_features: Optional[list[str]] = None) -> list[ReadRow]:
        return self._read(config, table, serialized(config, entity_keys), requested_features)

    def _read(self, config: RepoConfig, view: Any, keys: list[bytes],
              features: Optional[list[str]]) -> list[ReadRow]:
        def lookup(name: str) -> Reply:
            try:
                return self._table(config, name).lookup([HEADER, *keys], missing="zero")
            except tensord.TensorNotFound:
                return None
        layout = Layout(config, view)
        return layout.rows(features, {name: lookup(name) for name in layout.tables_of(features)},
                           len(keys))

    async def online_read_async(self, config: RepoConfig, table: Any,
                                entity_keys: list[EntityKeyProto],
                                requested_features: Optional[list[str]] = None) -> list[ReadRow]:
        if self._async_client is None:
            self._async_client = tensord.AsyncClient(**connection(config))
        layout, keys = Layout(config, table), serialized(config, entity_keys)
        tables, names = self._async_client.tables, layout.tables_of(requested_features)

        async def lookup(name: str) -> Reply:
            try:
                return await tables[name].lookup([HEADER, *keys], missing="zero")
            except tensord.TensorNotFound:
                return None
        replies = await asyncio.gather(*map(lookup, names))
        return layout.rows(requested_features, dict(zip(names, replies)), len(keys))

    async def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._async_client is not None:
            await self._async_client.close()
            self._async_client = None

    def retrieve_online_documents_v2(
            self, config: RepoConfig, table: Any, requested_features: list[str],
            embedding: Optional[list[float]], top_k: int, distance_metric: Optional[str] = None,
            query_string: Optional[str] = None, filters: Any = None,
            include_feature_view_version_metadata: bool = False) -> list[tuple[Any, Any, Any]]:
        layout, metric = Layout(config, table), (distance_metric or "l2").lower()
        if embedding is None or query_string is not None or filters is not None:
            raise NotImplementedError(f"feature view {table.name}: tensord searches only by an "
                                      "embedding; leave out query_string and filters")
        if layout.vector is None:
            raise ValueError(f"feature view {table.name} has no feature with vector_index=True")
        if metric not in METRICS:
            raise ValueError(f"feature view {table.name}: the distance metric is "
                             f"{distance_metric}; expected one of {', '.join(METRICS)}")
        op_metric, distance = METRICS[metric]
        try:
            best = self._table(config, layout.vectors_table).search(
                np.array([embedding], layout.vector_dtype), k=top_k, metric=op_metric)
        except (tensord.TensorNotFound, tensord.ShapeMismatch):
            if has_vectors(self._info(config, layout.vectors_table)):
                raise
            return []
        keys = as_bytes(best.keys[0])  # the last ones are empty if fewer than top_k rows qualify
        rows = self._read(config, table, keys, requested_features)
        return [(event, deserialize_entity_key(key, config.entity_key_serialization_version),
                 {**features, "distance": ValueProto(float_val=distance(score))})
                for key, score, (event, features) in zip(keys, best.scores[0].tolist(), rows)
                if features is not None]

    def _table(self, config: RepoConfig, name: str) -> tensord.Table:
        if self._client is None:
            self._client = tensord.Client(**connection(config))
        return self._client.tables[name]

    def _write(self, config: RepoConfig, layout: Layout, newest: dict[bytes, NewRow]) -> None:
        """Writes the rows that are not older than the stored rows.

        Of several writers, the one with the latest event wins in every table: the store reads the
        ETags of the other tables before it writes the numbers, and writes these tables afterwards.
        If the write of an earlier event comes later, one of the ETags has changed."""
        infos = {name: self._info(config, name) for name in layout.tables_of(None)[1:]}
        state = self._numbers(config, layout, list(newest))
        fresh = {key: row for (key, row), known, event in
                 zip(newest.items(), state.found, state.rows[:, 0])
                 if not known or row.event >= event}
        if fresh:
            rows = layout.table_rows(state.header, list(fresh.values()),
                                     infos.get(layout.vectors_table))
            for name, values in rows.items():
                info = state.info if name == layout.numbers_table else infos[name]
                self._upsert(config, name, list(fresh), values, info)

    def _info(self, config: RepoConfig, name: str) -> Info:
        try:
            return self._table(config, name).info()
        except tensord.TensorNotFound:
            return None

    def _upsert(self, config: RepoConfig, name: str, keys: list[bytes], rows: np.ndarray,
                info: Info) -> None:
        """Changes a table that still has the ETag of `info`, or creates it if `info` is None."""
        table = self._table(config, name)
        options: dict[str, Any] = {"persist": config.online_store.persist}
        options |= {"if_none_match": "*"} if info is None else {"if_match": info["etag"]}
        if info is None or 0 in info["shape"]:  # in a table of null vectors, rows need not be kept
            table.put(rows, keys=keys, **options)
        else:
            table.upsert(keys, rows, **options)

    def _numbers(self, config: RepoConfig, layout: Layout, keys: list[bytes]) -> State:
        """Reads rows of the table of numbers, after creating the table or columns that it lacks."""
        table, persist = self._table(config, layout.numbers_table), config.online_store.persist
        info = self._info(config, layout.numbers_table)
        if info is None:
            self._upsert(config, layout.numbers_table, [HEADER], np.array([layout.columns]), None)
            return self._numbers(config, layout, keys)
        rows, found = table.lookup([HEADER, *keys], missing="zero")
        if not found[0]:
            raise ValueError(f"the table {table.name} has no row {HEADER!r}, so another program "
                             "has stored it; delete it, or rename the project or the feature view")
        header = rows[0].tolist()
        lacking = [column for column in layout.columns if column not in header]
        if lacking:
            whole, names = table.get(), as_bytes(table.keys())
            whole = np.hstack([whole, np.full((len(whole), len(lacking)), math.nan)])
            whole[names.index(HEADER), len(header):] = lacking
            table.put(whole, keys=names, if_match=info["etag"], persist=persist)
            return self._numbers(config, layout, keys)
        return State(info, header, rows[1:], found[1:])


class NewRow(NamedTuple):
    event: int  # microseconds since 1970
    features: Features


class State(NamedTuple):
    """A table of numbers: its description, its header, and rows with a mask of existing rows."""
    info: dict[str, Any]
    header: list[float]
    rows: np.ndarray
    found: np.ndarray


class Layout:
    """The tables of a feature view, and the conversion of rows."""

    def __init__(self, config: RepoConfig, view: Any):
        types = {feature.name: feature.dtype.to_value_type() for feature in view.features}
        self.view, self.features = view.name, list(types)
        self.numbers = {name: NUMBERS[kind] for name, kind in types.items() if kind in NUMBERS}
        self.vector = next((one.name for one in view.features if one.vector_index), None)
        if self.vector is not None:
            if types[self.vector] not in VECTORS:
                raise ValueError(
                    f"feature view {view.name}: {self.vector} has vector_index=True and the type "
                    f"{types[self.vector].name}; expected Array(Float32) or Array(Float64). Change "
                    "the type, or leave out vector_index")
            self.vector_field, self.vector_dtype = VECTORS[types[self.vector]]
        self.columns = [0.0, *map(identifier, self.numbers)]  # 0.0: the event timestamp
        self.numbers_table, self.vectors_table, self.others_table = table_names(config, view)

    def is_other(self, feature: str) -> bool:
        return feature not in self.numbers and feature != self.vector

    # ---- rows to write
    def table_rows(self, header: list[float], rows: list[NewRow],
                   vectors: Info) -> dict[str, np.ndarray]:
        """Returns the rows of each table. The table of numbers comes first."""
        made = {self.numbers_table: np.array([self.number_row(header, row) for row in rows])}
        if self.vector is not None:
            made[self.vectors_table] = self.vector_rows(rows, vectors)
        if any(map(self.is_other, self.features)):
            made[self.others_table] = np.array([self.other_row(row) for row in rows], object)
        return made

    def number_row(self, header: list[float], row: NewRow) -> list[float]:
        cells = {identifier(name): self.number(name, value)
                 for name, value in row.features.items() if name in self.numbers}
        return [float(row.event), *(cells.get(column, math.nan) for column in header[1:])]

    def number(self, feature: str, value: ValueProto) -> float:
        field = self.numbers[feature][0]
        if self.is_null(feature, value, field):
            return math.nan
        given = getattr(value, field)
        if float(given) != given and not math.isnan(given):
            raise ValueError(f"feature view {self.view}: {feature} is {given}, which float64 "
                             "cannot hold exactly; declare the feature as String")
        return float(given)

    def is_null(self, feature: str, value: ValueProto, expected: str) -> bool:
        """True if the value is a null. A value of another type than the feature is an error."""
        field = value.WhichOneof("val")
        if field not in (None, "null_val", expected):
            raise TypeError(f"feature view {self.view}: a value of {feature} is a {field}; "
                            f"expected {expected}, the type of the feature. Convert the values, or "
                            "declare the feature with their type")
        return field != expected

    def vector_rows(self, rows: list[NewRow], stored: Info) -> np.ndarray:
        """Returns the vectors, with NaN for nulls, or no columns if all vectors are nulls."""
        lists = [self.vector_of(row) for row in rows]
        lengths = {len(one) for one in lists} - {0}
        if has_vectors(stored):
            lengths.add(stored["shape"][1])
            if stored["dtype"] != self.vector_dtype:
                raise ValueError(f"feature view {self.view}: the vectors of {self.vector} are "
                                 f"{self.vector_dtype}, and the stored vectors are "
                                 f"{stored['dtype']}; {CHANGE_VECTORS}")
        if len(lengths) > 1:
            raise ValueError(f"feature view {self.view}: {self.vector} has vectors of the lengths "
                             f"{sorted(lengths)}; expected a single length. If the stored vectors "
                             f"have another length, {CHANGE_VECTORS}")
        null = [math.nan] * next(iter(lengths), 0)
        return np.array([one or null for one in lists], self.vector_dtype)

    def vector_of(self, row: NewRow) -> Sequence[float]:
        value = row.features.get(self.vector, ValueProto())
        if self.is_null(self.vector, value, self.vector_field):
            return []
        return getattr(value, self.vector_field).val

    def other_row(self, row: NewRow) -> bytes:
        others = {name: value for name, value in row.features.items() if self.is_other(name)}
        return Map(val=others).SerializeToString()

    # ---- rows to read
    def tables_of(self, features: Optional[list[str]]) -> list[str]:
        wanted = self.features if features is None else features
        return [self.numbers_table, *[self.vectors_table] * (self.vector in wanted),
                *[self.others_table] * any(map(self.is_other, wanted))]

    def rows(self, features: Optional[list[str]], replies: dict[str, Reply],
             count: int) -> list[ReadRow]:
        if (numbers := replies[self.numbers_table]) is None:
            return [(None, None)] * count
        rows, found = numbers
        others = replies.get(self.others_table)
        maps = [] if others is None else [Map.FromString(one) for one in as_bytes(others[0][1:])]
        names = self.features if features is None else features
        columns = [self.column(name, rows, replies.get(self.vectors_table), maps) or
                   [ValueProto()] * count for name in names]
        return [(EPOCH + int(event) * MICROSECOND, dict(zip(names, values)))
                if known else (None, None)
                for event, known, *values in zip(rows[1:, 0], found[1:], *columns)]

    def column(self, feature: str, rows: np.ndarray, vectors: Reply,
               maps: list[Map]) -> list[ValueProto]:
        """Returns the values of a feature, or an empty list if the tables lack the feature."""
        if feature == self.vector:
            pairs = zip(*vectors) if vectors is not None else ()
            return [ValueProto(**{self.vector_field: {"val": row}})
                    if known and not np.isnan(row).all() else ValueProto()
                    for row, known in pairs][1:]
        if feature in self.numbers:
            field, kind = self.numbers[feature]
            cells = rows[1:, rows[0] == identifier(feature)].ravel().tolist()
            return [ValueProto() if math.isnan(one) else ValueProto(**{field: kind(one)})
                    for one in cells]
        return [one.val[feature] if feature in one.val else ValueProto() for one in maps]


def table_names(config: RepoConfig, view: Any) -> tuple[str, str, str]:
    """Returns the names of the tables for numbers, for vectors and for other features."""
    name = f"{config.project}:{view.name}"
    return name, name + ":vectors", name + ":others"


def has_vectors(info: Info) -> bool:
    """True if a row of the table of vectors is a vector. A table of nulls has no columns."""
    return info is not None and info["shape"][1] > 0


def connection(config: RepoConfig) -> dict[str, Any]:
    return {name: getattr(config.online_store, name)
            for name in ("url", "token", "ca_file", "timeout")}


def identifier(feature: str) -> float:
    """Returns a hash of a feature's name that float64 holds exactly."""
    return float(int.from_bytes(hashlib.sha256(feature.encode()).digest()[:6], "big"))


def serialized(config: RepoConfig, keys: Iterable[EntityKeyProto]) -> list[bytes]:
    return [serialize_entity_key(key, config.entity_key_serialization_version) for key in keys]


def newest_rows(config: RepoConfig, data: Written) -> dict[bytes, NewRow]:
    """Returns the row with the latest event timestamp of each key, the last of several rows."""
    newest: dict[bytes, NewRow] = {}
    for key, (_, features, event, _) in zip(serialized(config, (row[0] for row in data)), data):
        aware = event if event.tzinfo else event.replace(tzinfo=timezone.utc)
        row = NewRow((aware - EPOCH) // MICROSECOND, features)
        if key not in newest or row.event >= newest[key].event:
            newest[key] = row
    return newest


def as_bytes(strings: Iterable[Any]) -> list[bytes]:
    """Returns strings as bytes. The client returns str if all strings of a reply are UTF-8."""
    return [one.encode() if isinstance(one, str) else one for one in strings]
