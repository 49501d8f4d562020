"""The client of the daemon and its tables.  generate.py makes client.py from async_client.py."""
from __future__ import annotations

import ssl
from typing import Any, Optional, TypeVar, Union

import numpy as np

from . import calls, blocking
from .arrays import Array, Keys, Ref, as_index, is_text
from .ops import Ops
from .calls import Call, Description, Found, Progress, tensor_path
from .errors import NotAcceptable
from .exchange import Pool, Settings, exchange

T = TypeVar("T")


class Client(Ops):
    """The daemon at a URL.  `timeout` is the time of a whole call in seconds, with its `retries`."""

    def __init__(self, url: str, *, token: Optional[str] = None, timeout: float = 30.0, retries: int = 3,
                 connections: int = 16, tls: Optional[ssl.SSLContext] = None):
        self.settings = Settings(url, token, timeout, retries, connections)
        self.context = (tls or ssl.create_default_context()) if self.settings.tls else None
        self.pool = Pool(connections)
        self.tables = Tables(self)

    def send(self, call: Call[T], *, timeout: Optional[float] = None) -> T:
        """runs a call of tensord.calls"""
        return blocking.run(exchange(call, self.settings, self.pool, timeout), self.settings, self.context)

    def ops(self) -> list[Description]:
        found: list[Description] = (self.send(calls.json_call("GET", "/v1/ops")))["ops"]
        return found

    def describe(self, op: str) -> Description:
        return self.send(calls.json_call("GET", "/v1/ops/" + op))

    def ready(self) -> Description:
        return self.send(calls.json_call("GET", "/readyz"))

    def close(self) -> None:
        self.pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tables:
    """The resident tensors: tables["planets"] is one of them."""

    def __init__(self, client: Client):
        self.client = client

    def __getitem__(self, name: str) -> Table:
        return Table(self.client, name)

    def list(self) -> list[Description]:
        found: list[Description] = (self.client.send(calls.json_call("GET", "/v1/tensors")))["tensors"]
        return found

    def aliases(self) -> dict[str, str]:
        found: dict[str, str] = (self.client.send(calls.json_call("GET", "/v1/aliases")))["aliases"]
        return found

    def set_aliases(self, targets: dict[str, Optional[str]], *, expected: Optional[dict[str, Optional[str]]] = None,
                          persist: bool = False) -> Description:
        """sets the aliases to their targets, None removes one; all or none, and only if they are as expected"""
        body = {"set": targets, **({} if expected is None else {"if": expected})}
        return self.client.send(calls.json_call("POST", "/v1/aliases" + ("?persist=1" if persist else ""), body))


class Table:
    """A resident tensor and the keys of its rows."""

    def __init__(self, client: Client, name: str):
        self.client, self.name = client, name

    @property
    def reference(self) -> Ref:
        return Ref(self.name)

    def info(self) -> Description:
        return self.client.send(calls.json_call("GET", tensor_path(self.name)))

    def put(self, value: Any, *, keys: Any = None, persist: bool = False, if_match: Optional[str] = None,
                  progress: Optional[Progress] = None) -> Description:
        """stores the tensor; progress(sent, total) is called while it is sent"""
        path = tensor_path(self.name, persist=persist)
        return self.client.send(calls.put_call(path, value, keys, if_match, progress))

    def get(self) -> Array:
        return self._read(tensor_path(self.name))

    def delete(self) -> None:
        self.client.send(calls.json_call("DELETE", tensor_path(self.name)))

    def keys(self) -> Array:
        return self._read(tensor_path(self.name, "keys"))

    def set_keys(self, keys: Any) -> Description:
        return self.client.send(calls.put_call(tensor_path(self.name, "keys"), keys, None, None, None))

    def delete_keys(self) -> None:
        self.client.send(calls.json_call("DELETE", tensor_path(self.name, "keys")))

    def upsert(self, keys: Any, rows: Any, *, persist: bool = False, if_match: Optional[str] = None) -> Description:
        """replaces the rows of the keys that are there, appends the others"""
        path = tensor_path(self.name, "upsert", persist=persist)
        return self.client.send(calls.change_call(path, {"keys": keys, "rows": rows}, {}, if_match, if_match is None))

    def remove(self, keys: Any, *, persist: bool = False, if_match: Optional[str] = None) -> Description:
        path = tensor_path(self.name, "remove", persist=persist)
        return self.client.send(calls.change_call(path, {"keys": keys}, {}, if_match, False))

    def scatter(self, indices: Any, updates: Any, *, mode: str = "set", persist: bool = False,
                      if_match: Optional[str] = None) -> Description:
        path, arguments = tensor_path(self.name, "scatter", persist=persist), {"indices": indices, "updates": updates}
        once = mode == "set" and if_match is None
        return self.client.send(calls.change_call(path, arguments, {"mode": mode}, if_match, once))

    def rows(self, numbers: Any, *, bounds: Optional[str] = None) -> Array:
        return self.client.gather(self, as_index(numbers), bounds=bounds)

    def by_key(self, keys: Any, *, bounds: Optional[str] = None) -> Array:
        """the rows of these keys; with bounds="zero" zeros for those that are not there"""
        values = np.asarray(keys, dtype=object) if is_text(keys) else keys
        return self.client.gather(self, Keys(values), bounds=bounds)

    def lookup(self, keys: Any, *, missing: str = "zero") -> Found:
        """the rows of these keys, and which of them are there"""
        return self.client.lookup(self, queries=[keys] if isinstance(keys, str) else keys, missing=missing)

    def __getitem__(self, which: Union[str, int, slice, Any]) -> Array:
        """rows: by a key that is a str or bytes or a list of them, by number, list of numbers, or slice"""
        if is_text(which):
            return self.by_key(which)
        if isinstance(which, slice):
            return self.rows(np.arange(*which.indices(self._length()), dtype="<i8"))
        if isinstance(which, int) and which < 0:
            which += self._length()
        return self.rows(which)

    def _length(self) -> int:
        shape: list[int] = (self.info())["shape"]
        return shape[0]

    def _read(self, path: str) -> Array:
        try:
            return self.client.send(calls.read_call(path))
        except NotAcceptable:  # a dtype that safetensors does not have
            return self.client.send(calls.read_text_call(path))
