"""The ops as methods.  generate.py makes this file from GET /v1/ops of the daemon."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Optional, TypeVar

from . import calls
from .arrays import Array
from .calls import Call, Found, Selected, op_call

T = TypeVar("T")


class Ops(ABC):
    @abstractmethod
    def send(self, call: Call[T], *, timeout: Optional[float] = None) -> T:
        ...

    def gather(self, params: Any, indices: Any, *, axis: Optional[int] = None,
                     batch_dims: Optional[int] = None, bounds: Optional[str] = None,
                     dtype: Optional[Any] = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> Array:
        """Picks slices of params along one axis, in the order that indices names."""
        return self.send(op_call(
            "gather", calls.one, {"params": params, "indices": indices}, {"axis": axis,
            "batch_dims": batch_dims, "bounds": bounds, "dtype": dtype, "device": device}, (),
            ("indices",)), timeout=timeout)

    def batch_gather(self, params: Any, indices: Any, *, bounds: Optional[str] = None,
                           device: Optional[str] = None, timeout: Optional[float] = None) -> Array:
        """Picks slices of params batch by batch: gather with batch_dims = axis = rank(indices) - 1."""
        return self.send(op_call(
            "batch_gather", calls.one, {"params": params, "indices": indices}, {"bounds": bounds,
            "device": device}, (), ("indices",)), timeout=timeout)

    def gather_nd(self, params: Any, indices: Any, *, batch_dims: Optional[int] = None,
                        bounds: Optional[str] = None, device: Optional[str] = None,
                        timeout: Optional[float] = None) -> Array:
        """Picks elements or slices of params by index tuples."""
        return self.send(op_call(
            "gather_nd", calls.one, {"params": params, "indices": indices},
            {"batch_dims": batch_dims, "bounds": bounds, "device": device}, (), ("indices",)),
            timeout=timeout)

    def dynamic_stitch(self, indices: Any, data: Any, *, device: Optional[str] = None,
                             timeout: Optional[float] = None) -> Array:
        """Assembles a tensor from the rows of several, each at its index; of equal indices the last one counts, rows without an index are zeros."""
        return self.send(op_call(
            "dynamic_stitch", calls.one, {"indices": indices, "data": data}, {"device": device},
            ("indices", "data",), ("indices",)), timeout=timeout)

    def parallel_dynamic_stitch(self, indices: Any, data: Any, *,
                                      device: Optional[str] = None,
                                      timeout: Optional[float] = None) -> Array:
        """As dynamic_stitch, but any of several equal indices may count."""
        return self.send(op_call(
            "parallel_dynamic_stitch", calls.one, {"indices": indices, "data": data},
            {"device": device}, ("indices", "data",), ("indices",)), timeout=timeout)

    def dynamic_partition(self, data: Any, partitions: Any, *, num_partitions: int,
                                device: Optional[str] = None,
                                timeout: Optional[float] = None) -> list[Array]:
        """Distributes the rows of data to num_partitions tensors, by number and in order."""
        return self.send(op_call(
            "dynamic_partition", calls.many, {"data": data, "partitions": partitions},
            {"num_partitions": num_partitions, "device": device}, (), ("partitions",)),
            timeout=timeout)

    def einsum(self, inputs: Any, *, equation: str, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> Array:
        """Sums products of tensors along labelled dimensions: contractions, batched products, reductions, diagonals, transpositions."""
        return self.send(op_call(
            "einsum", calls.one, {"inputs": inputs}, {"equation": equation, "device": device},
            ("inputs",), ()), timeout=timeout)

    def concat(self, inputs: Any, *, axis: Optional[int] = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> Array:
        """Joins tensors along one of their dimensions."""
        return self.send(op_call(
            "concat", calls.one, {"inputs": inputs}, {"axis": axis, "device": device}, ("inputs",),
            ()), timeout=timeout)

    def cast(self, x: Any, *, dtype: Any, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> Array:
        """Converts the elements of a tensor to another dtype."""
        return self.send(op_call(
            "cast", calls.one, {"x": x}, {"dtype": dtype, "device": device}, (), ()),
            timeout=timeout)

    def top_k(self, x: Any, *, k: int, largest: Optional[bool] = None,
                    device: Optional[str] = None, timeout: Optional[float] = None) -> Selected:
        """Selects the k greatest or smallest elements along the last dimension, in order."""
        return self.send(op_call(
            "top_k", calls.selected, {"x": x}, {"k": k, "largest": largest, "device": device}, (),
            ()), timeout=timeout)

    def find(self, keys: Any, queries: Any, *, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> Array:
        """Finds the position of each query in a list of distinct keys."""
        return self.send(op_call(
            "find", calls.one, {"keys": keys, "queries": queries}, {"device": device}, (), ()),
            timeout=timeout)

    def lookup(self, params: Any, *, queries: Any, keys: Any = None, default: Any = None,
                     missing: Optional[str] = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> Found:
        """Picks rows of a table by their keys."""
        return self.send(op_call(
            "lookup", calls.found_rows, {"params": params, "keys": keys, "queries": queries,
            "default": default}, {"missing": missing, "device": device}, (), ()), timeout=timeout)

    def embedding_bag(self, params: Any, indices: Any, *, offsets: Any = None,
                            segment_ids: Any = None, weights: Any = None, scale: Any = None,
                            offset: Any = None, mode: Optional[str] = None,
                            padding_index: Optional[int] = None, num_segments: Optional[int] = None,
                            bounds: Optional[str] = None, dtype: Optional[Any] = None,
                            layout: Optional[str] = None, device: Optional[str] = None,
                            timeout: Optional[float] = None) -> Array:
        """Sums rows of a table, bag by bag."""
        return self.send(op_call(
            "embedding_bag", calls.one, {"params": params, "indices": indices, "offsets": offsets,
            "segment_ids": segment_ids, "weights": weights, "scale": scale, "offset": offset},
            {"mode": mode, "padding_index": padding_index, "num_segments": num_segments,
            "bounds": bounds, "dtype": dtype, "layout": layout, "device": device}, (), ("indices",
            "offsets", "segment_ids",)), timeout=timeout)

    def dequantize(self, params: Any, scale: Any, offset: Any, *, dtype: Optional[Any] = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> Array:
        """Gives the numbers that quantised rows stand for."""
        return self.send(op_call(
            "dequantize", calls.one, {"params": params, "scale": scale, "offset": offset},
            {"dtype": dtype, "device": device}, (), ()), timeout=timeout)
