"""The ops as methods.  generate.py makes this file from GET /v1/ops of the daemon."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, Optional, TypeVar

from . import calls
from .calls import Call, op_call

One = TypeVar("One")
Many = TypeVar("Many")
Rows = TypeVar("Rows")
Top = TypeVar("Top")


class AsyncOps(ABC, Generic[One, Many, Rows, Top]):
    """What a call returns: of ops with one output, with a list of them, of lookup, of top_k."""

    @abstractmethod
    async def run_op(self, call: Call[Any], timeout: Optional[float]) -> Any:
        ...

    async def gather(self, params: Any, indices: Any, *, axis: Optional[int] = None,
                     batch_dims: Optional[int] = None, bounds: Optional[Literal["error", "zero",
                     "clip", "wrap"]] = None, dtype: Optional[Any] = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Picks slices of params along one axis, in the order that indices names."""
        result: One = await self.run_op(op_call(
            "gather", calls.one, {"params": params, "indices": indices}, {"axis": axis,
            "batch_dims": batch_dims, "bounds": bounds, "dtype": dtype, "device": device}, (),
            ("indices",)), timeout)
        return result

    async def batch_gather(self, params: Any, indices: Any, *, bounds: Optional[Literal["error",
                           "zero", "clip", "wrap"]] = None, device: Optional[str] = None,
                           timeout: Optional[float] = None) -> One:
        """Picks slices of params batch by batch: gather with batch_dims = axis = rank(indices) - 1."""
        result: One = await self.run_op(op_call(
            "batch_gather", calls.one, {"params": params, "indices": indices}, {"bounds": bounds,
            "device": device}, (), ("indices",)), timeout)
        return result

    async def gather_nd(self, params: Any, indices: Any, *, batch_dims: Optional[int] = None,
                        bounds: Optional[Literal["error", "zero", "clip", "wrap"]] = None,
                        device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Picks elements or slices of params by index tuples."""
        result: One = await self.run_op(op_call(
            "gather_nd", calls.one, {"params": params, "indices": indices},
            {"batch_dims": batch_dims, "bounds": bounds, "device": device}, (), ("indices",)),
            timeout)
        return result

    async def dynamic_stitch(self, indices: Any, data: Any, *, device: Optional[str] = None,
                             timeout: Optional[float] = None) -> One:
        """Assembles a tensor from the rows of several, each at its index; of equal indices the last one counts, rows without an index are zeros."""
        result: One = await self.run_op(op_call(
            "dynamic_stitch", calls.one, {"indices": indices, "data": data}, {"device": device},
            ("indices", "data",), ("indices",)), timeout)
        return result

    async def parallel_dynamic_stitch(self, indices: Any, data: Any, *,
                                      device: Optional[str] = None,
                                      timeout: Optional[float] = None) -> One:
        """As dynamic_stitch, but any of several equal indices may count."""
        result: One = await self.run_op(op_call(
            "parallel_dynamic_stitch", calls.one, {"indices": indices, "data": data},
            {"device": device}, ("indices", "data",), ("indices",)), timeout)
        return result

    async def dynamic_partition(self, data: Any, partitions: Any, *, num_partitions: int,
                                device: Optional[str] = None,
                                timeout: Optional[float] = None) -> Many:
        """Distributes the rows of data to num_partitions tensors, by number and in order."""
        result: Many = await self.run_op(op_call(
            "dynamic_partition", calls.many, {"data": data, "partitions": partitions},
            {"num_partitions": num_partitions, "device": device}, (), ("partitions",)), timeout)
        return result

    async def einsum(self, inputs: Any, *, equation: str, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> One:
        """Sums products of tensors along labelled dimensions: contractions, batched products, reductions, diagonals, transpositions."""
        result: One = await self.run_op(op_call(
            "einsum", calls.one, {"inputs": inputs}, {"equation": equation, "device": device},
            ("inputs",), ()), timeout)
        return result

    async def concat(self, inputs: Any, *, axis: Optional[int] = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> One:
        """Joins tensors along one of their dimensions."""
        result: One = await self.run_op(op_call(
            "concat", calls.one, {"inputs": inputs}, {"axis": axis, "device": device}, ("inputs",),
            ()), timeout)
        return result

    async def cast(self, x: Any, *, dtype: Any, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Converts the elements of a tensor to another dtype."""
        result: One = await self.run_op(op_call(
            "cast", calls.one, {"x": x}, {"dtype": dtype, "device": device}, (), ()), timeout)
        return result

    async def top_k(self, x: Any, *, k: int, largest: Optional[bool] = None,
                    axis: Optional[int] = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> Top:
        """Selects the k greatest or smallest elements along a dimension, in order."""
        result: Top = await self.run_op(op_call(
            "top_k", calls.selected, {"x": x}, {"k": k, "largest": largest, "axis": axis,
            "device": device}, (), ()), timeout)
        return result

    async def find(self, keys: Any, queries: Any, *, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Finds the position of each query in a list of distinct keys."""
        result: One = await self.run_op(op_call(
            "find", calls.one, {"keys": keys, "queries": queries}, {"device": device}, (), ()),
            timeout)
        return result

    async def lookup(self, params: Any, *, queries: Any, keys: Any = None, default: Any = None,
                     missing: Optional[Literal["error", "zero", "default"]] = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> Rows:
        """Picks rows of a table by their keys."""
        result: Rows = await self.run_op(op_call(
            "lookup", calls.found_rows, {"params": params, "keys": keys, "queries": queries,
            "default": default}, {"missing": missing, "device": device}, (), ()), timeout)
        return result

    async def embedding_bag(self, params: Any, indices: Any, *, offsets: Any = None,
                            segment_ids: Any = None, weights: Any = None, scale: Any = None,
                            offset: Any = None, zero_point: Any = None,
                            mode: Optional[Literal["sum", "mean", "sqrtn", "max"]] = None,
                            padding_index: Optional[int] = None, num_segments: Optional[int] = None,
                            bounds: Optional[Literal["error", "zero", "clip", "wrap"]] = None,
                            dtype: Optional[Any] = None, layout: Optional[Literal["plain",
                            "byte_rowwise"]] = None, include_last_offset: Optional[bool] = None,
                            device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Sums rows of a table, bag by bag."""
        result: One = await self.run_op(op_call(
            "embedding_bag", calls.one, {"params": params, "indices": indices, "offsets": offsets,
            "segment_ids": segment_ids, "weights": weights, "scale": scale, "offset": offset,
            "zero_point": zero_point}, {"mode": mode, "padding_index": padding_index,
            "num_segments": num_segments, "bounds": bounds, "dtype": dtype, "layout": layout,
            "include_last_offset": include_last_offset, "device": device}, (), ("indices",
            "offsets", "segment_ids",)), timeout)
        return result

    async def dequantize(self, params: Any, scale: Any, *, offset: Any = None,
                         zero_point: Any = None, dtype: Optional[Any] = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Gives the numbers that quantised rows stand for."""
        result: One = await self.run_op(op_call(
            "dequantize", calls.one, {"params": params, "scale": scale, "offset": offset,
            "zero_point": zero_point}, {"dtype": dtype, "device": device}, (), ()), timeout)
        return result
