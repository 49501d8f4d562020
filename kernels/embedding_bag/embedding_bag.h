/* embedding_bag.h - the sums, means or greatest elements of bags of rows.
 *
 * Shapes     params       [n, R...]  floats; int8 and uint8 with scale and offset or zero_point
 *            indices      [m]        row numbers, bag after bag
 *            offsets      [b]        where in indices each bag begins; the last ends at m. With
 *                                    include_last_offset [b + 1], the last of which is m
 *            segment_ids  [m]        instead of offsets: the bag of each index, never decreasing
 *            indices      [b, k]     instead of both: each row is a bag
 *            weights      as indices, dtype of params, or float32 for int8 and uint8
 *            scale, offset, zero_point  [n] or []  a value is params * scale + offset or
 *                                    (params - zero_point) * scale
 *            output       [b, R...]  b is num_segments, or the last of segment_ids + 1
 *            With layout byte_rowwise params is uint8 [n, d + 8] and a row ends in its scale and
 *            its offset, two float32; the output is [b, d].
 * Values     sum, mean: divided by the sum of the weights, sqrtn: by the root of the sum of their
 *            squares; a weight that is not given is 1, a divisor of 0 gives 0. max: NaN wins. A bag
 *            without rows is zeros. Float64 is computed in float64, all others in float32, and
 *            rounded once, to dtype.
 * Bounds     0 <= index < n, or the bounds policy; a replaced index counts, as a row of zeros with
 *            zero. An index equal to padding_index, as it is given, does not count.
 *            0 = offsets[0] <= offsets[1] <= ... <= m. 0 <= segment_ids < num_segments.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits rows, not bags, through exec; a large bag is summed in parts that
 *            depend on nothing else, so the result does not depend on the number of threads.
 * Cost       One random read for each index, one pass over what these rows have.
 * Source     torch.nn.functional.embedding_bag with offsets, tf.nn.embedding_lookup_sparse with
 *            segment_ids; layout byte_rowwise is torch.ops.quantized.embedding_bag_byte. */
#ifndef TD_KERNELS_EMBEDDING_BAG_H
#define TD_KERNELS_EMBEDDING_BAG_H

#include "kernels/embedding_bag/arguments.h"

extern const struct td_op td_op_embedding_bag;

#endif
