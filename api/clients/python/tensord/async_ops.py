"""The ops as methods. generate.py generates this file from GET /v1/ops of the daemon."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, Optional, Sequence, TypeVar

from . import calls
from .calls import OpCall, op_call

One = TypeVar("One")
Many = TypeVar("Many")
Rows = TypeVar("Rows")
Top = TypeVar("Top")
Best = TypeVar("Best")


class AsyncOps(ABC, Generic[One, Many, Rows, Top, Best]):
    """The ops as methods. The type parameters are the results of ops with one output, of ops with a list of outputs,
    of lookup, of top_k, and of search.

    gather, batch_gather, gather_nd, dynamic_stitch, parallel_dynamic_stitch, dynamic_partition, einsum, concat,
    cast, top_k, find, lookup, embedding_bag, dequantize, search.

    elementwise: add, subtract, multiply, divide, floor_divide, floor_mod, power, maximum, minimum, equal,
    not_equal, less, less_equal, greater, greater_equal, logical_and, logical_or, logical_xor, logical_not,
    negative, abs, sign, square, exp, log, sqrt, rsqrt, reciprocal, tanh, sigmoid, erf, relu, gelu, floor, ceil,
    round, is_nan, is_finite, where, clip.

    normalisation: softmax, log_softmax, layer_norm, l2_normalize.

    shapes: reshape, expand_dims, squeeze, transpose, slice, stack, one_hot.

    reductions: reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_any, reduce_all, argmax,
    argmin, cumsum.

    segments: segment_sum, segment_mean, segment_max, segment_min, segment_prod, unsorted_segment_sum,
    unsorted_segment_mean, unsorted_segment_max, unsorted_segment_min, unsorted_segment_prod.
    """

    @abstractmethod
    async def run_op(self, call: OpCall, timeout: Optional[float]) -> Any:
        ...

    async def gather(self, params: Any, indices: Any, axis: Optional[int] = None, *,
                     batch_dims: Optional[int] = None, bounds: Optional[Literal["error", "zero",
                     "clip", "wrap"]] = None, dtype: Optional[Any] = None, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Picks slices of params along one axis, in the order of indices.

        params      The tensor to pick from, of rank 1 or more. Its first batch_dims dimensions are the same as in
                    indices.
        indices     Positions along axis, each in [0, params.shape[axis]): a tensor whose rank is at least batch_dims.
        axis        The dimension of params to pick along. A negative number counts from the end. Default: batch_dims.
        batch_dims  The number of leading dimensions that params and indices share, at most axis. A negative number
                    counts from the rank of indices. Default: 0.
        bounds      How indices out of range are handled: error refuses the request, zero gives zeros or empty strings,
                    clip uses the nearest valid index, wrap counts modulo the size, so that -1 is the last. Default:
                    error.
        dtype       The dtype of the output. Rows are converted as in cast while they are copied. To scale quantised
                    rows, use dequantize. Default: the dtype of params.
        Returns     The slices, in the order of indices.
        """
        result: One = await self.run_op(op_call(
            "gather", calls.one, {"params": params, "indices": indices}, {"axis": axis,
            "batch_dims": batch_dims, "bounds": bounds, "dtype": dtype,
            "output_dtype": output_dtype, "device": device}, (), ("indices",), (), ()), timeout)
        return result

    async def batch_gather(self, params: Any, indices: Any, *, bounds: Optional[Literal["error",
                           "zero", "clip", "wrap"]] = None, output_dtype: Any = None,
                           device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Picks slices of params batch by batch: gather with batch_dims = axis = rank(indices) - 1.

        params   The tensor to pick from, of rank 1 or more. Its shape starts with all dimensions of indices except the
                 last.
        indices  Positions in dimension rank(indices) - 1 of params: a tensor whose rank is at least 1 and at most the
                 rank of params.
        bounds   How indices out of range are handled: error refuses the request, zero gives zeros or empty strings,
                 clip uses the nearest valid index, wrap counts modulo the size, so that -1 is the last. Default: error.
        Returns  The slices, in the order of indices.
        """
        result: One = await self.run_op(op_call(
            "batch_gather", calls.one, {"params": params, "indices": indices}, {"bounds": bounds,
            "output_dtype": output_dtype, "device": device}, (), ("indices",), (), ()), timeout)
        return result

    async def gather_nd(self, params: Any, indices: Any, batch_dims: Optional[int] = None, *,
                        bounds: Optional[Literal["error", "zero", "clip", "wrap"]] = None,
                        output_dtype: Any = None, device: Optional[str] = None,
                        timeout: Optional[float] = None) -> One:
        """Picks elements or slices of params by index tuples.

        params      The tensor to pick from, of rank 1 or more. Its first batch_dims dimensions are the same as in
                    indices.
        indices     Index tuples along the last dimension, of rank 1 or more: component c is a position in dimension
                    batch_dims + c of params. If the tuples are shorter than the remaining rank of params, they pick
                    slices. [] is one tuple without components, which picks all of params. To give no tuples, pass an
                    int32 tensor of shape [0, 1].
        batch_dims  The number of leading dimensions that params and indices share; less than the rank of indices.
                    Default: 0.
        bounds      How indices out of range are handled: error refuses the request, zero gives zeros or empty strings,
                    clip uses the nearest valid index, wrap counts modulo the size, so that -1 is the last. Default:
                    error.
        Returns     The slices or elements, in the order of indices.
        """
        result: One = await self.run_op(op_call(
            "gather_nd", calls.one, {"params": params, "indices": indices},
            {"batch_dims": batch_dims, "bounds": bounds, "output_dtype": output_dtype,
            "device": device}, (), ("indices",), (), ()), timeout)
        return result

    async def dynamic_stitch(self, indices: Any, data: Any, *, output_dtype: Any = None,
                             device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Assembles one tensor from the rows of several tensors, placing each row at its index. If an index is repeated,
        the last row is kept. Rows without an index are zeros.

        indices  Row numbers in the output, each at least 0: tensors of any rank, including scalars.
        data     The rows: one tensor for each tensor of indices, all of the same dtype. The shape of data[m] starts
                 with the shape of indices[m]; the remaining dimensions are the same for all.
        Returns  The rows, each at its index.
        """
        result: One = await self.run_op(op_call(
            "dynamic_stitch", calls.one, {"indices": indices, "data": data},
            {"output_dtype": output_dtype, "device": device}, ("indices", "data",), ("indices",),
            (), ()), timeout)
        return result

    async def parallel_dynamic_stitch(self, indices: Any, data: Any, *, output_dtype: Any = None,
                                      device: Optional[str] = None,
                                      timeout: Optional[float] = None) -> One:
        """Assembles one tensor from the rows of several tensors, as dynamic_stitch does. If an index is repeated, any of
        its rows is kept.

        indices  Row numbers in the output, each at least 0: tensors of any rank, including scalars.
        data     The rows: one tensor for each tensor of indices, all of the same dtype. The shape of data[m] starts
                 with the shape of indices[m]; the remaining dimensions are the same for all.
        Returns  The rows, each at its index.
        """
        result: One = await self.run_op(op_call(
            "parallel_dynamic_stitch", calls.one, {"indices": indices, "data": data},
            {"output_dtype": output_dtype, "device": device}, ("indices", "data",), ("indices",),
            (), ()), timeout)
        return result

    async def dynamic_partition(self, data: Any, partitions: Any, num_partitions: int, *,
                                output_dtype: Any = None, device: Optional[str] = None,
                                timeout: Optional[float] = None) -> Many:
        """Distributes the rows of data among num_partitions tensors by number, keeping their order.

        data            The tensor to distribute. Its shape starts with the shape of partitions.
        partitions      For each row of data, the number of its output, in [0, num_partitions): a tensor of any rank.
        num_partitions  The number of outputs, from 1 to 16384. Outputs without rows are empty.
        Returns         For each partition, its rows of data in their original order.
        """
        result: Many = await self.run_op(op_call(
            "dynamic_partition", calls.many, {"data": data, "partitions": partitions},
            {"num_partitions": num_partitions, "output_dtype": output_dtype, "device": device}, (),
            ("partitions",), (), ()), timeout)
        return result

    async def einsum(self, *operands: Any, inputs: Any = None, equation: Optional[str] = None,
                     output_dtype: Any = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> One:
        """Sums products of tensors along labelled dimensions: contractions, batched products, reductions, diagonals,
        transpositions. Call it as einsum("ij,j->i", a, b), or as einsum([a, b], equation="ij,j->i").

        inputs    1 to 16 tensors of one dtype, in the order of the equation's subscripts. Sums of integers wrap around
                  in this dtype, as in NumPy and TensorFlow. If sums might not fit, cast the inputs to int64 or float64
                  first.
        equation  Subscripts of the inputs and of the output, as in ij,jk->ik. Any character except , . - > and space is
                  a label; ... stands for the dimensions without a label. Without ->, the output has the ellipsis and
                  the labels that occur once, sorted.
        Returns   The sums of products, in the dtype of the inputs.
        """
        inputs, equation = calls.operands(operands, inputs, equation)
        result: One = await self.run_op(op_call(
            "einsum", calls.one, {"inputs": inputs}, {"equation": equation,
            "output_dtype": output_dtype, "device": device}, ("inputs",), (), (), ()), timeout)
        return result

    async def concat(self, inputs: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Joins tensors along one of their dimensions.

        inputs   The tensors to join, in order. They have the same dtype, and their shapes can differ only along axis.
        axis     The dimension to join along. A negative number counts from the end. Default: 0.
        Returns  The tensors, one after the other along axis.
        """
        result: One = await self.run_op(op_call(
            "concat", calls.one, {"inputs": inputs}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, ("inputs",), (), (), ()), timeout)
        return result

    async def cast(self, x: Any, dtype: Any, *, output_dtype: Any = None,
                   device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Converts the elements of a tensor to another dtype.

        x        The tensor to convert, of any shape. To scale quantised rows, use dequantize.
        dtype    The dtype to convert to. Integers that do not fit an integer dtype wrap around.
        Returns  The converted elements.
        """
        result: One = await self.run_op(op_call(
            "cast", calls.one, {"x": x}, {"dtype": dtype, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def top_k(self, x: Any, k: int, *, largest: Optional[bool] = None,
                    axis: Optional[int] = None, output_dtype: Any = None,
                    device: Optional[str] = None, timeout: Optional[float] = None) -> Top:
        """Selects the k largest or smallest elements along a dimension, in order.

        x         The tensor to select from, of rank 1 or more.
        k         The number of elements to select from each row, at most x.shape[axis].
        largest   True selects the largest elements, false the smallest. Default: True.
        axis      The dimension along which to select elements. A negative number counts from the end. Default: -1.
        .values   The selected elements of each row, in order.
        .indices  The position of each selected element in dimension `axis` of x.
        """
        result: Top = await self.run_op(op_call(
            "top_k", calls.selected, {"x": x}, {"k": k, "largest": largest, "axis": axis,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def find(self, keys: Any, queries: Any, *, output_dtype: Any = None,
                   device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Finds the position of each query in a list of distinct keys.

        keys     The keys, a vector of distinct elements.
        queries  The keys to find, a tensor of any rank.
        Returns  The position of each query in keys, or -1 if no key is equal to it.
        """
        result: One = await self.run_op(op_call(
            "find", calls.one, {"keys": keys, "queries": queries}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ("keys", "queries",)), timeout)
        return result

    async def lookup(self, params: Any, keys: Any = None, *, queries: Any = None,
                     default: Any = None, missing: Optional[Literal["error", "zero",
                     "default"]] = None, output_dtype: Any = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> Rows:
        """Picks rows of a table by their keys. Without queries, keys lists the keys to look up, and params must be a table
        with keys. With queries, keys names the rows of params.

        params   The table, of rank 1 or more. Each row along its first dimension has a key.
        keys     The keys of the rows, a vector of distinct elements.
        queries  The keys of the rows to pick, a tensor of any rank.
        default  The result for a missing key: a row, a scalar for all elements of a row, or a row for each query.
                 Required with missing = default, otherwise not used.
        missing  How queries without a matching key are handled: error refuses the request, zero gives zeros or empty
                 strings, default gives the input default. Default: error.
        .output  The rows, in the order of queries.
        .found   True if a key is equal to the query.
        """
        keys, queries = calls.looked_up(keys, queries)
        result: Rows = await self.run_op(op_call(
            "lookup", calls.found_rows, {"params": params, "keys": keys, "queries": queries,
            "default": default}, {"missing": missing, "output_dtype": output_dtype,
            "device": device}, (), (), ("keys", "default",), ("keys", "queries",)), timeout)
        return result

    async def embedding_bag(self, params: Any, indices: Any, *, offsets: Any = None,
                            segment_ids: Any = None, weights: Any = None, scale: Any = None,
                            offset: Any = None, zero_point: Any = None,
                            mode: Optional[Literal["sum", "mean", "sqrtn", "max"]] = None,
                            padding_index: Optional[int] = None, num_segments: Optional[int] = None,
                            bounds: Optional[Literal["error", "zero", "clip", "wrap"]] = None,
                            dtype: Optional[Any] = None, layout: Optional[Literal["plain",
                            "byte_rowwise"]] = None, include_last_offset: Optional[bool] = None,
                            output_dtype: Any = None, device: Optional[str] = None,
                            timeout: Optional[float] = None) -> One:
        """Sums rows of a table, bag by bag.

        params               The table, of rank 1 or more. int8 and uint8 rows need scale.
        indices              Row numbers, each in [0, params.shape[0]). With offsets or segment_ids, a vector that lists
                             one bag after another; otherwise, a matrix with a bag in each row.
        offsets              The position in indices at which each bag starts. The first position must be 0, and the
                             last bag extends to the end of indices.
        segment_ids          The bag number of each index, in nondecreasing order. Cannot be combined with offsets.
        weights              A factor for each index, in the dtype of params, or in float32 for int8 and uint8 params.
                             Not allowed with mode = max.
        scale                The scale factor of int8 and uint8 params: one for each row, or one for all rows.
        offset               The number added to int8 and uint8 params after scaling: one for each row, or one for all
                             rows. Cannot be combined with zero_point.
        zero_point           The stored value of int8 and uint8 params that represents 0: one for each row, or one for
                             all rows. Subtracted before scaling. If neither zero_point nor offset is given, it is 0. If
                             NAME.zero_point or NAME.offset is resident beside the table NAME, a request with scale must
                             give one of the two.
        mode                 How the rows of a bag are combined: sum adds them, mean divides the sum by the sum of the
                             weights, sqrtn divides it by the square root of the sum of the squared weights, max takes
                             the largest elements. Default: sum.
        padding_index        A row number. Indices equal to it are ignored. Default: none.
        num_segments         The number of bags. Only allowed with segment_ids. Default: segment_ids[-1] + 1.
        bounds               How indices out of range are handled: error refuses the request, zero gives zeros or empty
                             strings, clip uses the nearest valid index, wrap counts modulo the size, so that -1 is the
                             last. Default: error.
        dtype                The dtype of the output. Default: the dtype of params; float32 for int8, uint8.
        layout               Where scale and offset are: plain, in the inputs of these names; byte_rowwise, in the last
                             8 bytes of each row, as two float32 numbers. Default: plain.
        include_last_offset  True if offsets has one more element than there are bags. The last element is then the
                             number of indices. Default: False.
        Returns              The sum of each bag, or the combination that mode selects.
        """
        result: One = await self.run_op(op_call(
            "embedding_bag", calls.one, {"params": params, "indices": indices, "offsets": offsets,
            "segment_ids": segment_ids, "weights": weights, "scale": scale, "offset": offset,
            "zero_point": zero_point}, {"mode": mode, "padding_index": padding_index,
            "num_segments": num_segments, "bounds": bounds, "dtype": dtype, "layout": layout,
            "include_last_offset": include_last_offset, "output_dtype": output_dtype,
            "device": device}, (), ("indices", "offsets", "segment_ids",), ("offsets",
            "segment_ids", "weights", "scale", "offset", "zero_point",), ()), timeout)
        return result

    async def dequantize(self, params: Any, scale: Any, *, offset: Any = None,
                         zero_point: Any = None, dtype: Optional[Any] = None,
                         output_dtype: Any = None, device: Optional[str] = None,
                         timeout: Optional[float] = None) -> One:
        """Converts quantised rows to the numbers that they represent.

        params      The quantised rows.
        scale       The scale factor: one for each row, or one for all rows.
        offset      The number added after scaling: one for each row, or one for all rows. Cannot be combined with
                    zero_point.
        zero_point  The stored value that represents 0: one for each row, or one for all rows. Subtracted before
                    scaling. If neither zero_point nor offset is given, it is 0. If NAME.zero_point or NAME.offset is
                    resident beside the table NAME, one of the two must be given.
        dtype       The dtype of the output. Default: float32.
        Returns     params * scale + offset, or (params - zero_point) * scale.
        """
        result: One = await self.run_op(op_call(
            "dequantize", calls.one, {"params": params, "scale": scale, "offset": offset,
            "zero_point": zero_point}, {"dtype": dtype, "output_dtype": output_dtype,
            "device": device}, (), (), ("offset", "zero_point",), ()), timeout)
        return result

    async def search(self, params: Any, queries: Any = None, k: int = 10, *, rows: Any = None,
                     candidates: Any = None, exclude: Any = None, keys: Any = None,
                     scale: Any = None, offset: Any = None, zero_point: Any = None,
                     metric: Optional[Literal["dot", "cosine", "l2"]] = None,
                     exclude_self: Optional[bool] = None, layout: Optional[Literal["plain",
                     "byte_rowwise"]] = None, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> Best:
        """Finds the nearest rows of a table for each query. Pass either queries or rows.

        params        The table, a matrix [n, d] with a vector in each row. int8 and uint8 need scale, unless layout is
                      byte_rowwise.
        queries       The vectors to search for: a matrix [q, d], or a single query [d].
        rows          Row numbers of params, or keys, whose rows are the queries: a vector [q], or a scalar for a single
                      query. A request gives either queries or rows.
        candidates    Row numbers, or keys, of the only rows to score. A row that is given twice counts once.
        exclude       Row numbers, or keys, of rows that are never returned.
        keys          The keys of the rows, a vector, from which the output keys is made.
        scale         The factor by which int8 and uint8 params are multiplied: one for each row, or one for all rows.
        offset        The number added to int8 and uint8 params after scaling: one for each row, or one for all rows.
                      Cannot be combined with zero_point.
        zero_point    The stored value of int8 and uint8 params that represents 0: one for each row, or one for all
                      rows. Subtracted before scaling. If neither zero_point nor offset is given, it is 0. If
                      NAME.zero_point or NAME.offset is resident beside the table NAME, a request with scale must give
                      one of the two.
        k             The number of rows to return for each query.
        metric        How a row is scored: dot is the sum of products, cosine divides it by the norms of query and row,
                      l2 is the Euclidean distance; smaller is better. Default: dot.
        exclude_self  True if a query that is a row of params does not return this row. Default: True.
        layout        Where scale and offset are: plain, in the inputs of these names; byte_rowwise, in the last 8 bytes
                      of each row, as two float32 numbers. Default: plain.
        .scores       The scores, the best first. If fewer rows qualify, the rest is -inf, or inf with l2.
        .indices      The row numbers. If fewer rows qualify, the rest is -1.
        .keys         The keys of the rows, if the table has keys. If fewer rows qualify, the rest is 0 or empty
                      strings.
        """
        queries = calls.query_values(queries)
        result: Best = await self.run_op(op_call(
            "search", calls.matches, {"params": params, "queries": queries, "rows": rows,
            "candidates": candidates, "exclude": exclude, "keys": keys, "scale": scale,
            "offset": offset, "zero_point": zero_point}, {"k": k, "metric": metric,
            "exclude_self": exclude_self, "layout": layout, "output_dtype": output_dtype,
            "device": device}, (), ("rows", "candidates", "exclude",), ("queries", "rows",
            "candidates", "exclude", "keys", "scale", "offset", "zero_point",), ("keys",)), timeout)
        return result

    async def add(self, x: Any, y: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                  timeout: Optional[float] = None) -> One:
        """Adds two tensors.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "add", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def subtract(self, x: Any, y: Any, *, output_dtype: Any = None,
                       device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Subtracts y from x.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "subtract", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def multiply(self, x: Any, y: Any, *, output_dtype: Any = None,
                       device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Multiplies two tensors element by element.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "multiply", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def divide(self, x: Any, y: Any, *, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Divides x by y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "divide", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def floor_divide(self, x: Any, y: Any, *, output_dtype: Any = None,
                           device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Divides x by y and rounds the quotient down.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "floor_divide", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def floor_mod(self, x: Any, y: Any, *, output_dtype: Any = None,
                        device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the remainder of floor_divide, which has the sign of y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "floor_mod", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def power(self, x: Any, y: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Raises x to the power y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "power", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def maximum(self, x: Any, y: Any, *, output_dtype: Any = None,
                      device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the greater element of x and y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "maximum", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def minimum(self, x: Any, y: Any, *, output_dtype: Any = None,
                      device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the lesser element of x and y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "minimum", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def equal(self, x: Any, y: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Returns true where x equals y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "equal", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def not_equal(self, x: Any, y: Any, *, output_dtype: Any = None,
                        device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x differs from y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "not_equal", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def less(self, x: Any, y: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Returns true where x is less than y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "less", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def less_equal(self, x: Any, y: Any, *, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x is less than y or equals y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "less_equal", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def greater(self, x: Any, y: Any, *, output_dtype: Any = None,
                      device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x is greater than y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "greater", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def greater_equal(self, x: Any, y: Any, *, output_dtype: Any = None,
                            device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x is greater than y or equals y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "greater_equal", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def logical_and(self, x: Any, y: Any, *, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where both x and y are true.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "logical_and", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def logical_or(self, x: Any, y: Any, *, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x or y or both are true.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "logical_or", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def logical_xor(self, x: Any, y: Any, *, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns true where x differs from y.

        x        A tensor of any shape that broadcasts with the other inputs.
        y        A tensor of any shape that broadcasts with the other inputs.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "logical_xor", calls.one, {"x": x, "y": y}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def logical_not(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                          timeout: Optional[float] = None) -> One:
        """Returns true where x is false.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "logical_not", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device},
            (), (), (), ()), timeout)
        return result

    async def negative(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                       timeout: Optional[float] = None) -> One:
        """Negates each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "negative", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (),
            (), (), ()), timeout)
        return result

    async def abs(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                  timeout: Optional[float] = None) -> One:
        """Returns the absolute value of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "abs", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def sign(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Returns the sign of each element: -1, 0 or 1.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "sign", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def square(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> One:
        """Multiplies each element by itself.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "square", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def exp(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                  timeout: Optional[float] = None) -> One:
        """Returns e to the power of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "exp", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def log(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                  timeout: Optional[float] = None) -> One:
        """Returns the natural logarithm of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "log", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def sqrt(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Returns the square root of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "sqrt", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def rsqrt(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Returns 1 divided by the square root of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "rsqrt", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def reciprocal(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                         timeout: Optional[float] = None) -> One:
        """Returns 1 divided by each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "reciprocal", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (),
            (), (), ()), timeout)
        return result

    async def tanh(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Returns the hyperbolic tangent of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "tanh", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def sigmoid(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                      timeout: Optional[float] = None) -> One:
        """Returns 1 / (1 + exp(-x)) for each element x.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "sigmoid", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (),
            (), (), ()), timeout)
        return result

    async def erf(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                  timeout: Optional[float] = None) -> One:
        """Returns the error function of each element.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "erf", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def relu(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Replaces negative elements by 0.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "relu", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def gelu(self, x: Any, approximate: Optional[bool] = None, *, output_dtype: Any = None,
                   device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Multiplies each element x by the standard normal distribution function at x.

        x            A tensor of any shape.
        approximate  If true, computes 0.5 x (1 + tanh(0.79788456 (x + 0.044715 x^3))) instead of 0.5 x (1 + erf(x /
                     sqrt(2))). Default: False.
        Returns      One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "gelu", calls.one, {"x": x}, {"approximate": approximate, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def floor(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Rounds each element down to an integer.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "floor", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def ceil(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                   timeout: Optional[float] = None) -> One:
        """Rounds each element up to an integer.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "ceil", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def round(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Rounds each element to the nearest integer, and ties to the even one.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "round", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def is_nan(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                     timeout: Optional[float] = None) -> One:
        """Returns true where x is NaN.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "is_nan", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (), (),
            (), ()), timeout)
        return result

    async def is_finite(self, x: Any, *, output_dtype: Any = None, device: Optional[str] = None,
                        timeout: Optional[float] = None) -> One:
        """Returns true where x is neither infinite nor NaN.

        x        A tensor of any shape.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "is_finite", calls.one, {"x": x}, {"output_dtype": output_dtype, "device": device}, (),
            (), (), ()), timeout)
        return result

    async def where(self, condition: Any, x: Any, y: Any, *, output_dtype: Any = None,
                    device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Selects the element of x where the condition is true, and the element of y where it is false.

        condition  True where the result is x.
        x          The elements where the condition is true.
        y          The elements where the condition is false.
        Returns    One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "where", calls.one, {"condition": condition, "x": x, "y": y},
            {"output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def clip(self, x: Any, min: Any, max: Any, *, output_dtype: Any = None,
                   device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Limits each element of x to the range from min to max.

        x        A tensor of any shape that broadcasts with the other inputs.
        min      The least result.
        max      The greatest result. If it is below min, it is the result.
        Returns  One element for each element of the inputs.
        """
        result: One = await self.run_op(op_call(
            "clip", calls.one, {"x": x, "min": min, "max": max}, {"output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def softmax(self, x: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                      device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Computes the softmax along a dimension: exponentials divided by their sum.

        x        The tensor to normalise, of rank 1 or more.
        axis     The dimension to normalise along. A negative number counts from the end. Default: -1.
        Returns  The normalised tensor.
        """
        result: One = await self.run_op(op_call(
            "softmax", calls.one, {"x": x}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def log_softmax(self, x: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Computes the logarithm of the softmax along a dimension.

        x        The tensor to normalise, of rank 1 or more.
        axis     The dimension to normalise along. A negative number counts from the end. Default: -1.
        Returns  The normalised tensor.
        """
        result: One = await self.run_op(op_call(
            "log_softmax", calls.one, {"x": x}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def layer_norm(self, x: Any, scale: Any, *, bias: Any = None, axis: Optional[int] = None,
                         epsilon: Optional[float] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Shifts and scales the elements of the last dimensions to a mean of 0 and a variance of 1, then applies scale and
        bias.

        x        The tensor to normalise, of rank 1 or more.
        scale    A factor for each normalised element. Broadcasts to the dimensions of x from axis on.
        bias     Added to each scaled element. Broadcasts to the dimensions of x from axis on.
        axis     The first of the dimensions that are normalised together. A negative number counts from the end.
                 Default: -1.
        epsilon  Added to the variance. Default: 1e-05.
        Returns  The normalised tensor.
        """
        result: One = await self.run_op(op_call(
            "layer_norm", calls.one, {"x": x, "scale": scale, "bias": bias}, {"axis": axis,
            "epsilon": epsilon, "output_dtype": output_dtype, "device": device}, (), (), ("bias",),
            ()), timeout)
        return result

    async def l2_normalize(self, x: Any, axis: Optional[int] = None, *,
                           epsilon: Optional[float] = None, output_dtype: Any = None,
                           device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Divides vectors along a dimension by their Euclidean norm.

        x        The tensor to normalise, of rank 1 or more.
        axis     The dimension to normalise along. A negative number counts from the end. Default: -1.
        epsilon  The minimum of the sum of squares that is divided by. Default: 1e-12.
        Returns  The normalised tensor.
        """
        result: One = await self.run_op(op_call(
            "l2_normalize", calls.one, {"x": x}, {"axis": axis, "epsilon": epsilon,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reshape(self, x: Any, shape: Sequence[int], *, output_dtype: Any = None,
                      device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Gives a tensor another shape with the same number of elements.

        x        The tensor, of any shape.
        shape    The shape of the output, which has as many elements as x. One size can be -1, which stands for the size
                 that fits.
        Returns  The elements of x, in the same order.
        """
        result: One = await self.run_op(op_call(
            "reshape", calls.one, {"x": x}, {"shape": shape, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def expand_dims(self, x: Any, axis: int, *, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Inserts a dimension of size 1.

        x        The tensor, of any shape.
        axis     The position of the new dimension in the output. A negative number counts from the end of the output.
        Returns  The elements of x, in the same order.
        """
        result: One = await self.run_op(op_call(
            "expand_dims", calls.one, {"x": x}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def squeeze(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                      output_dtype: Any = None, device: Optional[str] = None,
                      timeout: Optional[float] = None) -> One:
        """Removes dimensions of size 1.

        x        The tensor, of any shape.
        axes     The dimensions to remove, which have size 1. A negative number counts from the end. An empty list
                 removes none. Default: all of size 1.
        Returns  The elements of x, in the same order.
        """
        result: One = await self.run_op(op_call(
            "squeeze", calls.one, {"x": x}, {"axes": axes, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def transpose(self, x: Any, perm: Optional[Sequence[int]] = None, *,
                        output_dtype: Any = None, device: Optional[str] = None,
                        timeout: Optional[float] = None) -> One:
        """Permutes the dimensions of a tensor.

        x        The tensor, of any shape.
        perm     The dimensions of x in the order of the output, each once. A negative number counts from the end.
                 Default: reversed.
        Returns  The elements of x in the order of the new dimensions.
        """
        result: One = await self.run_op(op_call(
            "transpose", calls.one, {"x": x}, {"perm": perm, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def slice(self, x: Any, starts: Sequence[int], stops: Sequence[int], *,
                    steps: Optional[Sequence[int]] = None, axes: Optional[Sequence[int]] = None,
                    output_dtype: Any = None, device: Optional[str] = None,
                    timeout: Optional[float] = None) -> One:
        """Takes a range of elements along each dimension.

        x        The tensor, of any shape.
        starts   The first element to take along each axis. A negative number counts from the end, and a number out of
                 range is clamped, as in Python.
        stops    The end of the elements to take along each axis, which is not taken itself. Counts like starts. A stop
                 out of range takes all elements up to the end; with a negative step, up to the first element.
        steps    The distance between two elements along each axis. With a negative step, the elements are taken in
                 reverse. Default: 1.
        axes     The dimensions that the other lists are for, in the same order. A negative number counts from the end.
                 The output has all elements along other dimensions. Default: the first dimensions.
        Returns  The selected elements.
        """
        result: One = await self.run_op(op_call(
            "slice", calls.one, {"x": x}, {"starts": starts, "stops": stops, "steps": steps,
            "axes": axes, "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def stack(self, inputs: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                    device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Joins tensors of one shape along a new dimension.

        inputs   The tensors to stack, in order. They have the same dtype and the same shape.
        axis     The position of the new dimension in the output. A negative number counts from the end of the output.
                 Default: 0.
        Returns  The tensors, one after the other along the new dimension.
        """
        result: One = await self.run_op(op_call(
            "stack", calls.one, {"inputs": inputs}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, ("inputs",), (), (), ()), timeout)
        return result

    async def one_hot(self, indices: Any, depth: int, *, dtype: Optional[Any] = None,
                      output_dtype: Any = None, device: Optional[str] = None,
                      timeout: Optional[float] = None) -> One:
        """Makes a row of zeros with a single 1 for each index.

        indices  The position of the 1 in each row, of any shape. An index outside [0, depth) gives a row of zeros.
        depth    The length of a row.
        dtype    The dtype of the output. Default: float32.
        Returns  Rows of zeros with a 1, or true, at the index.
        """
        result: One = await self.run_op(op_call(
            "one_hot", calls.one, {"indices": indices}, {"depth": depth, "dtype": dtype,
            "output_dtype": output_dtype, "device": device}, (), ("indices",), (), ()), timeout)
        return result

    async def reduce_sum(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                         keepdims: Optional[bool] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Adds the elements along some dimensions.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_sum", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_mean(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                          keepdims: Optional[bool] = None, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Computes the mean of the elements along some dimensions.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_mean", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_max(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                         keepdims: Optional[bool] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the largest element along some dimensions.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_max", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_min(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                         keepdims: Optional[bool] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the smallest element along some dimensions.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_min", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_prod(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                          keepdims: Optional[bool] = None, output_dtype: Any = None,
                          device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Multiplies the elements along some dimensions.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_prod", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_any(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                         keepdims: Optional[bool] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns whether any element along some dimensions is true.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_any", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def reduce_all(self, x: Any, axes: Optional[Sequence[int]] = None, *,
                         keepdims: Optional[bool] = None, output_dtype: Any = None,
                         device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns whether all elements along some dimensions are true.

        x         The tensor to reduce, of any shape.
        axes      The dimensions to reduce, each at most once. Negative numbers count from the end. An empty list
                  reduces nothing. Default: all.
        keepdims  Whether the reduced dimensions stay in the shape of the output, with size 1. Default: False.
        Returns   The results, one for each position in the other dimensions.
        """
        result: One = await self.run_op(op_call(
            "reduce_all", calls.one, {"x": x}, {"axes": axes, "keepdims": keepdims,
            "output_dtype": output_dtype, "device": device}, (), (), (), ()), timeout)
        return result

    async def argmax(self, x: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the position of the largest element along a dimension.

        x        A tensor of rank 1 or more.
        axis     The dimension to search. A negative number counts from the end. Default: -1.
        Returns  The positions in dimension `axis` of x.
        """
        result: One = await self.run_op(op_call(
            "argmax", calls.one, {"x": x}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def argmin(self, x: Any, axis: Optional[int] = None, *, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Returns the position of the smallest element along a dimension.

        x        A tensor of rank 1 or more.
        axis     The dimension to search. A negative number counts from the end. Default: -1.
        Returns  The positions in dimension `axis` of x.
        """
        result: One = await self.run_op(op_call(
            "argmin", calls.one, {"x": x}, {"axis": axis, "output_dtype": output_dtype,
            "device": device}, (), (), (), ()), timeout)
        return result

    async def cumsum(self, x: Any, axis: Optional[int] = None, *, exclusive: Optional[bool] = None,
                     reverse: Optional[bool] = None, output_dtype: Any = None,
                     device: Optional[str] = None, timeout: Optional[float] = None) -> One:
        """Adds up the elements along a dimension, with a result for each element.

        x          A tensor of rank 1 or more.
        axis       The dimension along which to add. A negative number counts from the end. Default: 0.
        exclusive  Whether each result leaves out the element at its own position. Default: False.
        reverse    Whether to add from the last element to the first. Default: False.
        Returns    The cumulative sums.
        """
        result: One = await self.run_op(op_call(
            "cumsum", calls.one, {"x": x}, {"axis": axis, "exclusive": exclusive,
            "reverse": reverse, "output_dtype": output_dtype, "device": device}, (), (), (), ()),
            timeout)
        return result

    async def segment_sum(self, data: Any, segment_ids: Any, num_segments: Optional[int] = None, *,
                          output_dtype: Any = None, device: Optional[str] = None,
                          timeout: Optional[float] = None) -> One:
        """Adds the rows of each segment, by sorted segment ids.

        data          The rows to combine, along the first dimension.
        segment_ids   A vector with the segment of each row, in non-decreasing order.
        num_segments  The number of segments. Default: segment_ids[-1] + 1.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "segment_sum", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def segment_mean(self, data: Any, segment_ids: Any, num_segments: Optional[int] = None, *,
                           output_dtype: Any = None, device: Optional[str] = None,
                           timeout: Optional[float] = None) -> One:
        """Computes the mean of the rows of each segment, by sorted segment ids.

        data          The rows to combine, along the first dimension.
        segment_ids   A vector with the segment of each row, in non-decreasing order.
        num_segments  The number of segments. Default: segment_ids[-1] + 1.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "segment_mean", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def segment_max(self, data: Any, segment_ids: Any, num_segments: Optional[int] = None, *,
                          output_dtype: Any = None, device: Optional[str] = None,
                          timeout: Optional[float] = None) -> One:
        """Computes the maximum of each column of each segment, by sorted segment ids.

        data          The rows to combine, along the first dimension.
        segment_ids   A vector with the segment of each row, in non-decreasing order.
        num_segments  The number of segments. Default: segment_ids[-1] + 1.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "segment_max", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def segment_min(self, data: Any, segment_ids: Any, num_segments: Optional[int] = None, *,
                          output_dtype: Any = None, device: Optional[str] = None,
                          timeout: Optional[float] = None) -> One:
        """Computes the minimum of each column of each segment, by sorted segment ids.

        data          The rows to combine, along the first dimension.
        segment_ids   A vector with the segment of each row, in non-decreasing order.
        num_segments  The number of segments. Default: segment_ids[-1] + 1.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "segment_min", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def segment_prod(self, data: Any, segment_ids: Any, num_segments: Optional[int] = None, *,
                           output_dtype: Any = None, device: Optional[str] = None,
                           timeout: Optional[float] = None) -> One:
        """Multiplies the rows of each segment, by sorted segment ids.

        data          The rows to combine, along the first dimension.
        segment_ids   A vector with the segment of each row, in non-decreasing order.
        num_segments  The number of segments. Default: segment_ids[-1] + 1.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "segment_prod", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def unsorted_segment_sum(self, data: Any, segment_ids: Any, num_segments: int, *,
                                   output_dtype: Any = None, device: Optional[str] = None,
                                   timeout: Optional[float] = None) -> One:
        """Adds the rows of each segment, by segment ids in any order.

        data          The rows to combine. The shape starts with the shape of segment_ids.
        segment_ids   The segment of each row: a tensor of any rank. Rows with a negative id are ignored.
        num_segments  The number of segments.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "unsorted_segment_sum", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def unsorted_segment_mean(self, data: Any, segment_ids: Any, num_segments: int, *,
                                    output_dtype: Any = None, device: Optional[str] = None,
                                    timeout: Optional[float] = None) -> One:
        """Computes the mean of the rows of each segment, by segment ids in any order.

        data          The rows to combine. The shape starts with the shape of segment_ids.
        segment_ids   The segment of each row: a tensor of any rank. Rows with a negative id are ignored.
        num_segments  The number of segments.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "unsorted_segment_mean", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def unsorted_segment_max(self, data: Any, segment_ids: Any, num_segments: int, *,
                                   output_dtype: Any = None, device: Optional[str] = None,
                                   timeout: Optional[float] = None) -> One:
        """Computes the maximum of each column of each segment, by segment ids in any order.

        data          The rows to combine. The shape starts with the shape of segment_ids.
        segment_ids   The segment of each row: a tensor of any rank. Rows with a negative id are ignored.
        num_segments  The number of segments.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "unsorted_segment_max", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def unsorted_segment_min(self, data: Any, segment_ids: Any, num_segments: int, *,
                                   output_dtype: Any = None, device: Optional[str] = None,
                                   timeout: Optional[float] = None) -> One:
        """Computes the minimum of each column of each segment, by segment ids in any order.

        data          The rows to combine. The shape starts with the shape of segment_ids.
        segment_ids   The segment of each row: a tensor of any rank. Rows with a negative id are ignored.
        num_segments  The number of segments.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "unsorted_segment_min", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result

    async def unsorted_segment_prod(self, data: Any, segment_ids: Any, num_segments: int, *,
                                    output_dtype: Any = None, device: Optional[str] = None,
                                    timeout: Optional[float] = None) -> One:
        """Multiplies the rows of each segment, by segment ids in any order.

        data          The rows to combine. The shape starts with the shape of segment_ids.
        segment_ids   The segment of each row: a tensor of any rank. Rows with a negative id are ignored.
        num_segments  The number of segments.
        Returns       A row for each segment.
        """
        result: One = await self.run_op(op_call(
            "unsorted_segment_prod", calls.one, {"data": data, "segment_ids": segment_ids},
            {"num_segments": num_segments, "output_dtype": output_dtype, "device": device}, (),
            ("segment_ids",), (), ()), timeout)
        return result
