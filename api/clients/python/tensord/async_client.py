"""Client of the daemon and its tables. generate.py generates client.py from async_client.py."""
from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal, Optional, TypeVar, Union, cast
from urllib.parse import quote

import numpy as np

from . import calls, programs, streams
from .arrays import Array, Keys, Ref, Symbol, Tensor, to_array
from .async_ops import AsyncOps
from .calls import Call, Conditions, Description, Found, Matches, OpCall, Selected, tensor_path
from .errors import IndexOutOfBounds, TensorNotFound, about_keys, about_steps
from .exchange import DEFAULT_URL, Pool, Settings, exchange
from .inputs import as_input, as_row_numbers, is_text
from .programs import Program
from .progress import Progress
from .tls import Certificate, context_of

T = TypeVar("T")
Bounds = Literal["error", "zero", "clip", "wrap"]
Missing = Literal["error", "zero", "default"]
Metric = Literal["dot", "cosine", "l2"]


class AsyncClient(AsyncOps[Array, list[Array], Found, Selected, Matches]):
    """Client of the daemon at a URL, by default the daemon on port 8080 of this machine. unix:///PATH is a Unix socket.

    Each op is a method; help(tensord.ops.Ops) lists the ops by family. In addition to its own arguments, an op takes
    `device` ("auto", "cpu" or "gpu"), `output_dtype`, to which the daemon rounds floating-point outputs ("float16",
    "bfloat16", "float32" or "float64"), and `timeout`, which applies to this call only.

    timeout      seconds allowed for a whole call, including its retries
    retries      maximum number of times that a request is sent again
    connections  maximum number of idle connections kept, and of concurrent requests by asyncio tasks; threads have no limit
    max_reply    maximum size of a reply in bytes; a longer reply raises ReplyTooLarge
    ca_file      PEM file of the authorities trusted to sign the daemon's certificate; default: the system's authorities
    certificate  PEM file with the client's certificate and key, or a pair of files
    tls          ssl.SSLContext to use instead of `ca_file` and `certificate`
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: Optional[str] = None, timeout: float = 30.0, retries: int = 3, connections: int = 16,
                 max_reply: int = 4 << 30, ca_file: Optional[str] = None, certificate: Optional[Certificate] = None,
                 tls: Optional[ssl.SSLContext] = None):
        self.settings = Settings(url, token, timeout, retries, max_reply)
        self.context = context_of(self.settings.tls, tls, ca_file, certificate)
        self.pool = Pool(connections)
        self.tables, self.programs = AsyncTables(self), AsyncPrograms(self)

    async def send(self, call: Call[T], *, timeout: Optional[float] = None) -> T:
        """Runs a call made by tensord.calls."""
        return await streams.run(exchange(call, self.settings, self.pool, timeout), self.settings, self.context)

    async def run_op(self, call: OpCall, timeout: Optional[float]) -> Any:
        return await self.send(calls.op_request(call), timeout=timeout)

    async def run(self, program: Union[Program, Mapping[str, Any], str], /, *args: Any, device: Optional[str] = None, output_dtype: Any = None,
                  timeout: Optional[float] = None, **inputs: Any) -> Any:
        """Runs a function with the decorator @tensord.program in the daemon, in one request.

        Example: client.run(best, query, ids, k=5). The result has the structure that the function returns, with arrays instead of
        tensors. The program can also be the name of a stored program, or a program in JSON as a dict. It then takes its inputs by
        name, and the result is a dict. For a stored program, Python numbers and str are arguments, and other values are inputs.

        device        runs the program: "auto", "cpu" or "gpu"
        output_dtype  rounds floating-point results, as for an op
        timeout       seconds allowed for this call"""
        call, about_program = programs.call_of(program, args, inputs, device, output_dtype)
        with about_program:
            return await self.send(call, timeout=timeout)

    def store(self, name: Union[str, AsyncTable], *, outputs: Optional[Iterable[str]] = None, ttl_s: Optional[int] = None,
              if_match: Optional[str] = None, if_none_match: Optional[str] = None) -> AsyncStore:
        """Returns the ops with their results stored as a table instead of returned.

        Example: client.store("best").gather("planets", [2, 3]). An op with several outputs stores each of them as name.output,
        or only those in `outputs`, such as ["scores", "indices"]. With ttl_s, the tables expire after that many seconds.
        All clients of a daemon share the same table names."""
        return AsyncStore(self, name if isinstance(name, str) else name.name, outputs, ttl_s, Conditions(if_match, if_none_match))

    async def einsum_plan(self, *operands: Any, shapes: Any = None, equation: Optional[str] = None, dtype: Any = None,
                          timeout: Optional[float] = None) -> Description:
        """Returns the steps, operations and memory of an einsum, given shapes instead of tensors.

        Example: einsum_plan("ij,j->i", [2, 3], [3])."""
        shapes, equation = calls.operands(operands, shapes, equation, "shapes")
        return await self.send(calls.plan_call(equation, shapes, dtype), timeout=timeout)

    async def ops(self) -> list[Description]:
        return await self.send(calls.list_call("/v1/ops", "ops"))

    async def describe(self, op: str) -> Description:
        return await self.send(calls.json_call("GET", "/v1/ops/" + quote(op, safe="")))

    async def devices(self) -> Description:
        return await self.send(calls.json_call("GET", "/v1/devices"))

    async def ready(self) -> Description:
        return await self.send(calls.json_call("GET", "/readyz"))

    async def metrics(self) -> str:
        """Returns the daemon's metrics in the Prometheus text format."""
        return await self.send(Call("GET", "/metrics", calls.text))

    async def close(self) -> None:
        self.pool.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncStore(AsyncOps[Description, list[Description], dict[str, Description], dict[str, Description], dict[str, Description]]):
    """The ops with their outputs stored as tables. They return descriptions of the tables instead of arrays."""

    def __init__(self, client: AsyncClient, name: str, outputs: Optional[Iterable[str]], ttl_s: Optional[int], conditions: Conditions):
        self.client, self.name, self.outputs, self.ttl_s, self.conditions = client, name, outputs, ttl_s, conditions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client!r}, {self.name!r})"

    async def run_op(self, call: OpCall, timeout: Optional[float]) -> Any:
        return await self._send(calls.op_request(call), timeout)

    async def run(self, program: Union[Program, Mapping[str, Any], str], /, *args: Any, device: Optional[str] = None, output_dtype: Any = None,
                  timeout: Optional[float] = None, **inputs: Any) -> dict[str, Description]:
        """Runs a program as Client.run does, and stores its results. Returns their descriptions by the names of the program's outputs."""
        call, about_program = programs.call_of(program, args, inputs, device, output_dtype)
        with about_program:
            return cast("dict[str, Description]", await self._send(call, timeout))

    async def _send(self, call: Call[Any], timeout: Optional[float]) -> Any:
        return await self.client.send(calls.stored(call, self.name, self.outputs, self.ttl_s, self.conditions), timeout=timeout)


class AsyncPrograms:
    """The stored programs. Iteration gives their names in order."""

    def __init__(self, client: AsyncClient):
        self.client = client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client!r})"

    async def __aiter__(self) -> AsyncIterator[str]:
        for one in await self.list():
            yield one["name"]

    async def length(self) -> int:
        return len(await self.list())

    async def contains(self, name: str) -> bool:
        try:
            await self.info(name)
        except TensorNotFound:
            return False
        return True

    async def list(self) -> list[Description]:
        return await self.client.send(calls.list_call("/v1/programs", "programs"))

    async def put(self, name: str, program: Union[Program, Mapping[str, Any]], *, persist: bool = False, if_match: Optional[str] = None,
                  if_none_match: Optional[str] = None, **fixed: Any) -> Description:
        """Stores a program; client.run(name, ...) runs it. All inputs of a function must be declared with tensord.spec.

        Parameters of a function that have a default and are attributes of ops become arguments of the program, which each call can set.
        All other parameters with a default are fixed: at the value in `fixed`, or at the default. The returned description lists the
        arguments."""
        request, path = programs.stored_request(program, fixed), calls.program_path(name, persist=persist)
        with about_steps(request.places):
            return await self.client.send(calls.json_call("PUT", path, request.program, Conditions(if_match, if_none_match)))

    async def info(self, name: str) -> Description:
        return await self.client.send(calls.json_call("GET", calls.program_path(name)))

    async def delete(self, name: str, *, if_match: Optional[str] = None) -> None:
        await self.client.send(calls.json_call("DELETE", calls.program_path(name), None, Conditions(if_match)))


class AsyncTables:
    """The resident tensors: tables["planets"] is a tensor, tables["movies@2"] is a version.

    Iteration gives the names of the tensors in order, without aliases. `in` also finds an alias if its version exists.
    """

    def __init__(self, client: AsyncClient):
        self.client = client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client!r})"

    async def __aiter__(self) -> AsyncIterator[str]:
        for one in await self.list():
            yield one["name"]

    async def length(self) -> int:
        return len(await self.list())

    async def contains(self, name: str) -> bool:
        try:
            await self[name].info()
        except TensorNotFound:
            return False
        return True

    def __getitem__(self, name: str) -> AsyncTable:
        return AsyncTable(self.client, name)

    async def list(self, prefix: str = "") -> list[Description]:
        """Returns descriptions of the tensors whose names start with `prefix`, sorted by name."""
        return await self.client.send(calls.tensors_call(prefix))

    async def aliases(self) -> dict[str, str]:
        """Returns the version that each alias names."""
        return await self.client.send(calls.alias_call())

    async def alias_state(self) -> Description:
        """Returns the aliases and the problems of the data folder: its refused parts, with the reasons."""
        return await self.client.send(calls.json_call("GET", "/v1/aliases"))

    async def set_aliases(self, targets: dict[str, Optional[str]], *, expected: Optional[dict[str, Optional[str]]] = None,
                          persist: bool = False) -> Description:
        """Sets all the aliases to their targets, or none of them. A target of None removes the alias.

        With `expected`, the aliases change only if their current targets are as expected. A daemon with a data
        folder always keeps the aliases there. With `persist`, a daemon without a data folder refuses the call."""
        body = {"set": targets, **({} if expected is None else {"if": expected})}
        return await self.client.send(calls.json_call("POST", "/v1/aliases" + ("?persist=1" if persist else ""), body))


class AsyncTable:
    """A resident tensor and the keys of its rows.

    table["king"], table[["king", "ace"]] and table.loc[7] are rows by key. table[1:3], table.iloc[3] and table.iloc[-1]
    are rows by number. table[3] is a row by number if the table has no keys. If the table has keys, table[3] is an error,
    even if they are strings, because these can be numbers as text.

    `if_match` and `if_none_match` are ETags from the tensor's description. With if_none_match="*", a tensor is stored only
    if the name does not exist.
    """

    __iter__: None = None  # Iterating would send a request for each row; [:] fetches all rows.

    def __init__(self, client: AsyncClient, name: str):
        self.client, self.name = client, name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def reference(self) -> Ref:
        return Ref(self.name)

    @property
    def loc(self) -> AsyncLoc:
        """Rows by key: loc["king"], loc[7], loc[["king", "ace"]]."""
        return AsyncLoc(self)

    @property
    def iloc(self) -> AsyncILoc:
        """Rows by number: iloc[3], iloc[-1], iloc[[1, 2]], iloc[1:3]."""
        return AsyncILoc(self)

    @property
    async def shape(self) -> tuple[int, ...]:
        return calls.shape_of(await self.info())

    @property
    async def dtype(self) -> Union[np.dtype[Any], str]:
        """The dtype of the tensor as a NumPy dtype, or the str "string" or "bfloat16", which NumPy lacks."""
        return calls.dtype_of(await self.info())

    async def length(self) -> int:
        """Returns the number of rows."""
        return calls.rows_of(await self.info())

    async def array(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        """Fetches the whole table. In the blocking client, numpy.asarray(table) does the same."""
        return np.array(await self.get(), dtype=dtype, copy=copy)

    def version(self, version: Union[str, int]) -> AsyncTable:
        return AsyncTable(self.client, f"{self.name}@{version}")

    async def versions(self) -> list[str]:
        """Returns the versions of this table, such as "movies@2", sorted by name."""
        return [one["name"] for one in await self.client.tables.list() if one["name"].startswith(self.name + "@")]

    async def info(self) -> Description:
        return await self.client.send(calls.json_call("GET", tensor_path(self.name)))

    async def statistics(self, *, timeout: Optional[float] = None) -> Description:
        """Returns the minimum, maximum, mean and standard deviation, the counts of zeros and NaN, and the means of blocks."""
        return await self.client.send(calls.json_call("GET", tensor_path(self.name, "statistics")), timeout=timeout)

    async def put(self, value: Any, *, keys: Any = None, persist: bool = False, device: Optional[str] = None,
                  if_match: Optional[str] = None, if_none_match: Optional[str] = None,
                  progress: Union[bool, Progress, None] = None, timeout: Optional[float] = None) -> Description:
        """Stores the tensor. During the upload, progress(sent, total) is called; with progress=True, a bar is drawn."""
        path, conditions = tensor_path(self.name, persist=persist, device=device), Conditions(if_match, if_none_match)
        return await self.client.send(calls.put_call(path, value, keys, conditions, progress), timeout=timeout)

    async def get(self, *, timeout: Optional[float] = None) -> Array:
        return await self._read(tensor_path(self.name), timeout)

    async def delete(self, *, if_match: Optional[str] = None) -> None:
        await self.client.send(calls.json_call("DELETE", tensor_path(self.name), None, Conditions(if_match)))

    async def keys(self, *, timeout: Optional[float] = None) -> Array:
        return await self._read(tensor_path(self.name, "keys"), timeout)

    async def set_keys(self, keys: Any, *, persist: bool = False, if_match: Optional[str] = None,
                       timeout: Optional[float] = None) -> Description:
        path = tensor_path(self.name, "keys", persist=persist)
        return await self.client.send(calls.put_call(path, keys, None, Conditions(if_match), None, "keys"), timeout=timeout)

    async def delete_keys(self) -> None:
        await self.client.send(calls.json_call("DELETE", tensor_path(self.name, "keys")))

    async def upsert(self, keys: Any, rows: Any, *, persist: bool = False, if_match: Optional[str] = None,
                     timeout: Optional[float] = None) -> Description:
        """Replaces the rows whose keys exist and appends the other rows."""
        path = tensor_path(self.name, "upsert", persist=persist)
        call = calls.change_call(path, self.name, {"keys": calls.listed_key(keys), "rows": rows}, {}, Conditions(if_match), True)
        return await self.client.send(call, timeout=timeout)

    async def remove(self, keys: Any, *, persist: bool = False, if_match: Optional[str] = None,
                     timeout: Optional[float] = None) -> Description:
        """Removes the rows with these keys. The last rows of the table move into the gaps."""
        path = tensor_path(self.name, "remove", persist=persist)
        return await self.client.send(calls.change_call(path, self.name, {"keys": calls.listed_key(keys)}, {}, Conditions(if_match), False), timeout=timeout)

    async def scatter(self, indices: Any, updates: Any, *, mode: str = "set", persist: bool = False,
                      if_match: Optional[str] = None, timeout: Optional[float] = None) -> Description:
        """Writes or adds `updates` at the positions `indices`, of shape [..., k], in the first k dimensions."""
        path, arguments = tensor_path(self.name, "scatter", persist=persist), {"indices": indices, "updates": updates}
        call = calls.change_call(path, self.name, arguments, {"mode": mode}, Conditions(if_match), mode == "set")
        return await self.client.send(call, timeout=timeout)

    async def rows(self, numbers: Any, *, bounds: Optional[Bounds] = None, output_dtype: Any = None,
                   timeout: Optional[float] = None) -> Array:
        return await self.client.gather(self, as_row_numbers(numbers, "numbers"), bounds=bounds, output_dtype=output_dtype,
                                        timeout=timeout)

    async def by_key(self, keys: Any, *, bounds: Optional[Bounds] = None, output_dtype: Any = None,
                     timeout: Optional[float] = None) -> Array:
        """Returns the rows with these keys. With bounds="zero", a key that does not exist gives a row of zeros."""
        if is_mask(keys) and (not isinstance(keys, list) or all(isinstance(one, bool) for one in keys)):
            raise TypeError("keys is a mask; expected keys. For the rows of a mask, use iloc[numpy.flatnonzero(mask)]")
        with about_keys():
            return await self.client.gather(self, calls.one_or_more_keys(keys), bounds=bounds, output_dtype=output_dtype, timeout=timeout)

    async def lookup(self, keys: Any, *, missing: Optional[Missing] = None, default: Any = None, output_dtype: Any = None,
                     timeout: Optional[float] = None) -> Found:
        """Returns the rows with these keys, and a mask of the keys that exist.

        A key that does not exist raises KeyNotFound, as in table[...]. With missing="zero" its row is zeros, and with
        missing="default" its row is `default`; in both cases `found` is False for the key.
        """
        queries = as_input(calls.listed_key(keys), "keys")
        return await self.client.lookup(self, queries=queries, missing=missing, default=default, output_dtype=output_dtype,
                                        timeout=timeout)

    async def search(self, what: Any, k: int = 10, *, metric: Optional[Metric] = None, candidates: Any = None, exclude: Any = None,
                     timeout: Optional[float] = None, **more: Any) -> Matches:
        """Returns the best k rows for each query.

        what        vectors, or the keys of rows: str, bytes or tensord.Keys([...]). For row numbers, use client.search(table, rows=...).
        metric      "dot" (default), "cosine", or "l2", where smaller is better
        candidates  the only rows to score: row numbers, or keys (str, bytes or tensord.Keys)
        exclude     rows that are not returned: row numbers or keys
        more        further arguments of the op search, such as scale and offset of a quantised table

        The results of a single vector or str are vectors; otherwise they have a row for each query. A query given by key does not
        return its own row, unless exclude_self is False.
        """
        if is_text(what) and not isinstance(what, Keys):
            what = calls.one_or_more_keys(what)
        given = {"rows" if isinstance(what, Keys) else "queries": what}
        with about_keys():
            return await self.client.search(self, k=k, metric=metric, candidates=calls.rows_or_keys(candidates), exclude=calls.rows_or_keys(exclude),
                                            timeout=timeout, **given, **more)

    async def __getitem__(self, which: Union[str, int, slice, Any]) -> Array:
        """Returns rows by key or by number.

        A str, bytes, or a list of them are keys. A number, a list of numbers or a slice are row numbers; if they could mean
        keys, the call raises TypeError."""
        if is_text(which):
            return await self.loc[which]
        refuse_index(which)
        info = await self.info()
        if calls.may_be_keys(which, info.get("keys")):
            raise TypeError(f"{self.name} has {info['keys']} keys, so [{which!r}] could mean keys or row numbers; "
                            "use loc[...] for keys, or iloc[...] for row numbers")
        return await self._by_number(which, info)

    async def _by_number(self, which: Any, info: Optional[Description] = None) -> Array:
        refuse_index(which)
        if isinstance(which, slice):
            which = np.arange(*which.indices(calls.rows_of(info or await self.info())), dtype="<i8")
        numbers = as_input(which, "numbers", True)
        if isinstance(numbers, Tensor) and numbers.dtype.startswith("int"):
            values = to_array(numbers.dtype, numbers.shape, memoryview(numbers.data))
            if np.any(values < 0):
                count = calls.rows_of(info or await self.info())
                # A number before the first row is left negative, so that the error shows the number that was passed.
                numbers = as_input(values + np.where((values < 0) & (values >= -count), count, 0), "numbers")
        try:
            return await self.rows(numbers)
        except IndexOutOfBounds as error:  # The daemon's advice is about an option of rows(), which does not apply here.
            count = error.bound or 0
            told = f"row {error.index} of {self.name} is not one of its {count} rows, {-count} to {count - 1}"
            raise IndexOutOfBounds({**error.problem, "detail": told}, error.status) from None

    async def _read(self, path: str, timeout: Optional[float]) -> Array:
        return await self.client.send(calls.read_call(path), timeout=timeout)


def is_mask(which: Any) -> bool:
    return isinstance(which[0] if isinstance(which, list) and which else which, bool) or getattr(which, "dtype", None) == np.dtype(bool)


def refuse_index(which: Any) -> None:
    """Raises TypeError for an invalid index, such as table[None], table[1, 2], a mask or a slice of keys."""
    if isinstance(which, Symbol):
        raise TypeError("a table is not indexed by a tensor of a traced function; use tensord.steps.gather(table, x), or make the table a parameter of the function")
    if which is None:
        raise TypeError("table[None]: expected a row number, a key, a list of row numbers or keys, or a slice")
    if which is Ellipsis:
        raise TypeError("table[...] is not supported; use table[:] for all rows")
    if isinstance(which, tuple):
        raise TypeError("a table has one index; use table[[1, 2]] for two rows")
    if is_mask(which):
        raise TypeError("a table is indexed by row numbers or keys, not by a mask; numpy.flatnonzero(mask) gives the row numbers")
    for one in (which.start, which.stop, which.step) if isinstance(which, slice) else ():
        if one is not None and not hasattr(one, "__index__"):
            raise TypeError(f"a slice takes row numbers, not {one!r}; use loc[...] with a list of keys")


class AsyncLoc:
    """Access to the rows of a table by key."""

    def __init__(self, table: AsyncTable):
        self.table = table

    async def __getitem__(self, keys: Any) -> Array:
        if keys is None:
            raise TypeError("loc[None]: loc[...] takes a key or a list of keys")
        if isinstance(keys, (slice, tuple)):
            raise TypeError("loc[...] takes a key or a list of keys; iloc[...] takes slices of row numbers")
        return await self.table.by_key(keys)


class AsyncILoc:
    """Access to the rows of a table by number."""

    def __init__(self, table: AsyncTable):
        self.table = table

    async def __getitem__(self, numbers: Any) -> Array:
        if is_text(numbers):
            raise TypeError(f"iloc[...] takes row numbers, not {numbers!r}; loc[...] takes keys")
        return await self.table._by_number(numbers)
