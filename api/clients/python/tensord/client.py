"""The client of the daemon and its tables.  generate.py makes client.py from async_client.py."""
from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Literal, Optional, TypeVar, Union
from urllib.parse import quote

import numpy as np

from . import calls, blocking
from .arrays import Array, Keys, Ref, Tensor, to_array
from .ops import Ops
from .calls import Call, Conditions, Description, Found, Selected, tensor_path
from .errors import IndexOutOfBounds, TensorNotFound, about_keys
from .exchange import DEFAULT_URL, Pool, Settings, exchange
from .inputs import as_input, as_row_numbers, is_text
from .progress import Progress
from .tls import Certificate, context_of

T = TypeVar("T")
Bounds = Literal["error", "zero", "clip", "wrap"]
Missing = Literal["error", "zero", "default"]


class Client(Ops[Array, list[Array], Found, Selected]):
    """The daemon at a URL, by default the one that listens on port 8080 of this machine.

    Each op is a method, which also takes `device` ("auto", "cpu" or "gpu"), and `timeout` for this call.

    timeout      seconds of a whole call, with its `retries`
    connections  idle ones that are kept, and the requests that tasks have under way; threads may have any number
    max_reply    bytes of a reply; a longer one is ReplyTooLarge
    ca_file      PEM file of the authorities that may sign the daemon's certificate, else those of the system
    certificate  PEM file of the client's certificate and key, or a file for each; `tls` is a context in place of both
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: Optional[str] = None, timeout: float = 30.0, retries: int = 3, connections: int = 16,
                 max_reply: int = 4 << 30, ca_file: Optional[str] = None, certificate: Optional[Certificate] = None,
                 tls: Optional[ssl.SSLContext] = None):
        self.settings = Settings(url, token, timeout, retries, max_reply)
        self.context = context_of(self.settings.tls, tls, ca_file, certificate)
        self.pool = Pool(connections)
        self.tables = Tables(self)

    def send(self, call: Call[T], *, timeout: Optional[float] = None) -> T:
        """runs a call of tensord.calls"""
        return blocking.run(exchange(call, self.settings, self.pool, timeout), self.settings, self.context)

    def run_op(self, call: Call[Any], timeout: Optional[float]) -> Any:
        return self.send(call, timeout=timeout)

    def store(self, name: Union[str, Table], *, ttl_s: Optional[int] = None, if_match: Optional[str] = None,
              if_none_match: Optional[str] = None) -> Store:
        """the ops, with their result stored as a table in place of sent: client.store("best").gather("planets", [2, 3]); with
        ttl_s it disappears after that many seconds.  All clients share the names of tables."""
        return Store(self, name if isinstance(name, str) else name.name, ttl_s, Conditions(if_match, if_none_match))

    def einsum_plan(self, *operands: Any, shapes: Any = None, equation: Optional[str] = None, dtype: Any = None,
                          timeout: Optional[float] = None) -> Description:
        """the steps, operations and memory of an einsum, with shapes in place of tensors: einsum_plan("ij,j->i", [2, 3], [3])"""
        shapes, equation = calls.operands(operands, shapes, equation, "shapes")
        return self.send(calls.plan_call(equation, shapes, dtype), timeout=timeout)

    def ops(self) -> list[Description]:
        return self.send(calls.list_call("/v1/ops", "ops"))

    def describe(self, op: str) -> Description:
        return self.send(calls.json_call("GET", "/v1/ops/" + quote(op, safe="")))

    def devices(self) -> Description:
        return self.send(calls.json_call("GET", "/v1/devices"))

    def ready(self) -> Description:
        return self.send(calls.json_call("GET", "/readyz"))

    def metrics(self) -> str:
        """what Prometheus reads"""
        return self.send(Call("GET", "/metrics", calls.text))

    def close(self) -> None:
        self.pool.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store(Ops[Description, list[Description], dict[str, Description], dict[str, Description]]):
    """The ops with their outputs stored; they return descriptions of tables in place of arrays."""

    def __init__(self, client: Client, name: str, ttl_s: Optional[int], conditions: Conditions):
        self.client, self.name, self.ttl_s, self.conditions = client, name, ttl_s, conditions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client!r}, {self.name!r})"

    def run_op(self, call: Call[Any], timeout: Optional[float]) -> Any:
        return self.client.send(calls.stored(call, self.name, self.ttl_s, self.conditions), timeout=timeout)


class Tables:
    """The resident tensors: tables["planets"] is one of them, tables["movies@2"] a version.

    Their names are iterated in order. An alias is contained if its version is, but it is not iterated.
    """

    def __init__(self, client: Client):
        self.client = client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client!r})"

    def __iter__(self) -> Iterator[str]:
        for one in self.list():
            yield one["name"]

    def __len__(self) -> int:
        return len(self.list())

    def __contains__(self, name: str) -> bool:
        try:
            self[name].info()
        except TensorNotFound:
            return False
        return True

    def __getitem__(self, name: str) -> Table:
        return Table(self.client, name)

    def list(self, prefix: str = "") -> list[Description]:
        """descriptions of those whose names begin so, sorted by name"""
        return self.client.send(calls.tensors_call(prefix))

    def aliases(self) -> dict[str, str]:
        """the versions that aliases name"""
        return self.client.send(calls.alias_call())

    def alias_state(self) -> Description:
        """also what they name after a restart, and which of the data folder are refused, and why"""
        return self.client.send(calls.json_call("GET", "/v1/aliases"))

    def set_aliases(self, targets: dict[str, Optional[str]], *, expected: Optional[dict[str, Optional[str]]] = None,
                          persist: bool = False) -> Description:
        """sets the aliases to their targets, None removes one; all or none, and only if they are as expected"""
        body = {"set": targets, **({} if expected is None else {"if": expected})}
        return self.client.send(calls.json_call("POST", "/v1/aliases" + ("?persist=1" if persist else ""), body))


class Table:
    """A resident tensor and the keys of its rows.

    table["king"], table[["king", "ace"]] and table.loc[7] are rows by key, table[1:3], table.iloc[3] and table.iloc[-1] by number.
    table[3] is a row of a table without keys; where it has some it is an error, also if these are strings, which may be numbers as text.
    `if_match` and `if_none_match` are ETags of its description; if_none_match="*" stores it only if there is none.
    """

    __iter__: None = None  # it would send a request for each row: [:] asks for all

    def __init__(self, client: Client, name: str):
        self.client, self.name = client, name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def reference(self) -> Ref:
        return Ref(self.name)

    @property
    def loc(self) -> Loc:
        """rows by key: loc["king"], loc[7], loc[["king", "ace"]]"""
        return Loc(self)

    @property
    def iloc(self) -> ILoc:
        """rows by number: iloc[3], iloc[-1], iloc[[1, 2]], iloc[1:3]"""
        return ILoc(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return calls.shape_of(self.info())

    @property
    def dtype(self) -> Union[np.dtype[Any], str]:
        """as in NumPy; "string" and "bfloat16", which it does not have, by these names"""
        return calls.dtype_of(self.info())

    def __len__(self) -> int:
        """the number of rows"""
        return calls.rows_of(self.info())

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        """the whole table, which numpy.asarray(table) of the blocking client fetches"""
        return np.array(self.get(), dtype=dtype, copy=copy)

    def version(self, version: Union[str, int]) -> Table:
        return Table(self.client, f"{self.name}@{version}")

    def versions(self) -> list[str]:
        """of this table, as in "movies@2", in the order of their names"""
        return [one["name"] for one in self.client.tables.list() if one["name"].startswith(self.name + "@")]

    def info(self) -> Description:
        return self.client.send(calls.json_call("GET", tensor_path(self.name)))

    def statistics(self, *, timeout: Optional[float] = None) -> Description:
        """least, greatest and mean value, deviation, counts of zeros and NaN, means of blocks"""
        return self.client.send(calls.json_call("GET", tensor_path(self.name, "statistics")), timeout=timeout)

    def put(self, value: Any, *, keys: Any = None, persist: bool = False, device: Optional[str] = None,
                  if_match: Optional[str] = None, if_none_match: Optional[str] = None,
                  progress: Union[bool, Progress, None] = None, timeout: Optional[float] = None) -> Description:
        """stores the tensor; while it is sent progress(sent, total) is called, or a bar is drawn if it is True"""
        path, conditions = tensor_path(self.name, persist=persist, device=device), Conditions(if_match, if_none_match)
        return self.client.send(calls.put_call(path, value, keys, conditions, progress), timeout=timeout)

    def get(self, *, timeout: Optional[float] = None) -> Array:
        return self._read(tensor_path(self.name), timeout)

    def delete(self, *, if_match: Optional[str] = None) -> None:
        self.client.send(calls.json_call("DELETE", tensor_path(self.name), None, Conditions(if_match)))

    def keys(self, *, timeout: Optional[float] = None) -> Array:
        return self._read(tensor_path(self.name, "keys"), timeout)

    def set_keys(self, keys: Any, *, persist: bool = False, if_match: Optional[str] = None,
                       timeout: Optional[float] = None) -> Description:
        path = tensor_path(self.name, "keys", persist=persist)
        return self.client.send(calls.put_call(path, keys, None, Conditions(if_match), None, "keys"), timeout=timeout)

    def delete_keys(self) -> None:
        self.client.send(calls.json_call("DELETE", tensor_path(self.name, "keys")))

    def upsert(self, keys: Any, rows: Any, *, persist: bool = False, if_match: Optional[str] = None,
                     timeout: Optional[float] = None) -> Description:
        """replaces the rows of the keys that are there, appends the others"""
        path = tensor_path(self.name, "upsert", persist=persist)
        call = calls.change_call(path, self.name, {"keys": calls.listed_key(keys), "rows": rows}, {}, Conditions(if_match), True)
        return self.client.send(call, timeout=timeout)

    def remove(self, keys: Any, *, persist: bool = False, if_match: Optional[str] = None,
                     timeout: Optional[float] = None) -> Description:
        """takes out the rows of these keys; the last rows move into the gaps"""
        path = tensor_path(self.name, "remove", persist=persist)
        return self.client.send(calls.change_call(path, self.name, {"keys": calls.listed_key(keys)}, {}, Conditions(if_match), False), timeout=timeout)

    def scatter(self, indices: Any, updates: Any, *, mode: str = "set", persist: bool = False,
                      if_match: Optional[str] = None, timeout: Optional[float] = None) -> Description:
        """writes or adds updates at positions [..., k] in the first k dimensions"""
        path, arguments = tensor_path(self.name, "scatter", persist=persist), {"indices": indices, "updates": updates}
        call = calls.change_call(path, self.name, arguments, {"mode": mode}, Conditions(if_match), mode == "set")
        return self.client.send(call, timeout=timeout)

    def rows(self, numbers: Any, *, bounds: Optional[Bounds] = None, timeout: Optional[float] = None) -> Array:
        return self.client.gather(self, as_row_numbers(numbers, "numbers"), bounds=bounds, timeout=timeout)

    def by_key(self, keys: Any, *, bounds: Optional[Bounds] = None, timeout: Optional[float] = None) -> Array:
        """the rows of these keys; with bounds="zero" zeros for those that are not there"""
        if is_mask(keys) and (not isinstance(keys, list) or all(isinstance(one, bool) for one in keys)):
            raise TypeError("keys: a mask, which has none; iloc[numpy.flatnonzero(mask)] has its rows")
        values = as_input(np.array(keys, dtype=object) if isinstance(keys, str) else keys, "keys")
        with about_keys():
            return self.client.gather(self, Keys(values), bounds=bounds, timeout=timeout)

    def lookup(self, keys: Any, *, missing: Optional[Missing] = None, default: Any = None, timeout: Optional[float] = None) -> Found:
        """the rows of these keys, and which of them are there

        A key that is not there is KeyNotFound, as in HTTP and in table[...]; with missing="zero" its row is zeros, with missing="default"
        it is the default, and `found` says which keys are there.
        """
        queries = as_input(calls.listed_key(keys), "keys")
        return self.client.lookup(self, queries=queries, missing=missing, default=default, timeout=timeout)

    def __getitem__(self, which: Union[str, int, slice, Any]) -> Array:
        """rows: by a key that is a str or bytes or a list of them; by number, list of numbers, or slice, unless that could mean keys"""
        if is_text(which):
            return self.loc[which]
        refuse_index(which)
        info = self.info()
        if calls.may_be_keys(which, info.get("keys")):
            raise TypeError(f"{self.name} has {info['keys']} keys, so that [{which!r}] could mean keys or row numbers; "
                            "loc[...] has rows by key, iloc[...] by number")
        return self._by_number(which, info)

    def _by_number(self, which: Any, info: Optional[Description] = None) -> Array:
        refuse_index(which)
        if isinstance(which, slice):
            which = np.arange(*which.indices(calls.rows_of(info or self.info())), dtype="<i8")
        numbers = as_input(which, "numbers", True)
        if isinstance(numbers, Tensor) and numbers.dtype.startswith("int"):
            values = to_array(numbers.dtype, numbers.shape, memoryview(numbers.data))
            if np.any(values < 0):
                count = calls.rows_of(info or self.info())
                # A number before the first row stays as it was given, for the error.
                numbers = as_input(values + np.where((values < 0) & (values >= -count), count, 0), "numbers")
        try:
            return self.rows(numbers)
        except IndexOutOfBounds as error:  # whose advice is about an option of rows()
            count = error.bound or 0
            told = f"row {error.index} of {self.name} is not one of its {count} rows, {-count} to {count - 1}"
            raise IndexOutOfBounds({**error.problem, "detail": told}, error.status) from None

    def _read(self, path: str, timeout: Optional[float]) -> Array:
        return self.client.send(calls.read_call(path), timeout=timeout)


def is_mask(which: Any) -> bool:
    return isinstance(which[0] if isinstance(which, list) and which else which, bool) or getattr(which, "dtype", None) == np.dtype(bool)


def refuse_index(which: Any) -> None:
    """table[None], a slice between keys, and table[1, 2]"""
    if which is None:
        raise TypeError("table[None]: a table is indexed by a row number, a key, a list of them, or a slice")
    if which is Ellipsis:
        raise TypeError("table[...]: table[:] has all rows")
    if isinstance(which, tuple):
        raise TypeError("a table is indexed by one value; table[[1, 2]] are two rows")
    if is_mask(which):
        raise TypeError("a table is indexed by row numbers or keys, not by a mask; numpy.flatnonzero(mask) has its row numbers")
    for one in (which.start, which.stop, which.step) if isinstance(which, slice) else ():
        if one is not None and not hasattr(one, "__index__"):
            raise TypeError(f"a slice has row numbers, not {one!r}; loc[...] has a list of keys")


class Loc:
    """The rows of a table by key."""

    def __init__(self, table: Table):
        self.table = table

    def __getitem__(self, keys: Any) -> Array:
        if keys is None:
            raise TypeError("loc[None]: loc[...] has a key or a list of keys")
        if isinstance(keys, (slice, tuple)):
            raise TypeError("loc[...] has a key or a list of keys; iloc[...] has slices, of row numbers")
        return self.table.by_key(keys)


class ILoc:
    """The rows of a table by number."""

    def __init__(self, table: Table):
        self.table = table

    def __getitem__(self, numbers: Any) -> Array:
        if is_text(numbers):
            raise TypeError(f"iloc[...] has row numbers, not {numbers!r}; loc[...] has keys")
        return self.table._by_number(numbers)
