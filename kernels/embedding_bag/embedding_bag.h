/* embedding_bag.h - computes sums, means or maxima of bags of rows.
 *
 * Shapes     params       [n, R...]  floats; int8 and uint8 with scale and offset or zero_point
 *            indices      [m]        row numbers, bag after bag
 *            offsets      [b]        where each bag starts in indices; the last bag ends at m. With
 *                                    include_last_offset [b + 1]; the last element is m
 *            segment_ids  [m]        instead of offsets: the bag of each index, never decreasing
 *            indices      [b, k]     without offsets and segment_ids: each row is a bag
 *            weights      shape of indices; dtype of params, or float32 for int8 and uint8
 *            scale, offset, zero_point  [n] or []  a value is params * scale + offset or
 *                                    (params - zero_point) * scale
 *            output       [b, R...]  b is num_segments, or the last of segment_ids + 1
 *            With layout byte_rowwise, params is uint8 [n, d + 8], each row ends with its scale and
 *            its offset in float32, and output is [b, d].
 * Values     mean divides the sum by the sum of the weights, sqrtn by the square root of the sum of
 *            the squared weights. Without weights, each weight is 1. A divisor of 0 gives 0. max is
 *            NaN if an element is NaN. A bag without rows gives zeros. Sums are computed in float64
 *            for float64 and in float32 for all other dtypes, then rounded once to dtype.
 * Bounds     0 <= index < n, or the bounds policy. A replaced index counts; with zero, it counts as
 *            a row of zeros. An index that equals padding_index in the request does not count.
 *            0 = offsets[0] <= offsets[1] <= ... <= m. 0 <= segment_ids < num_segments.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits rows, not bags, through exec. A large bag is summed in parts that
 *            depend only on the bag, so the result does not depend on the number of threads.
 * Cost       One random read per index, and one pass over the rows read.
 * Source     torch.nn.functional.embedding_bag with offsets, tf.nn.embedding_lookup_sparse with
 *            segment_ids; layout byte_rowwise is torch.ops.quantized.embedding_bag_byte. */
#ifndef TD_KERNELS_EMBEDDING_BAG_H
#define TD_KERNELS_EMBEDDING_BAG_H

#include "kernels/embedding_bag/arguments.h"

extern const struct td_op td_op_embedding_bag;

#endif
