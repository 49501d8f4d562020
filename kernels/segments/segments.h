/* segments.h - sums, means, maxima, minima and products of the rows of each segment.
 *
 * Shapes     segment_*           data [n, C...], segment_ids [n]
 *            unsorted_segment_*  data [I..., C...], segment_ids [I...]; a scalar makes all of data
 *                                one row
 *            output              [num_segments, C...], with the dtype of data
 *            output[s] combines the rows of data whose segment id is s.
 * Dtypes     sum, prod: all numbers. mean: floats and complex. max, min: integers and floats.
 *            Segment ids are int16, int32 or int64.
 * Bounds     segment_*: 0 <= segment id < num_segments, and no id is less than the previous id.
 *            unsorted_segment_*: segment id < num_segments; rows with a negative id are ignored.
 *            The first bad id in row-major order is INDEX_OUT_OF_BOUNDS. num_segments of segment_*
 *            is by default the last id plus 1, so infer reads the ids.
 * Values     Rows are combined in their order, so the result does not depend on how the work is
 *            split, and for sorted ids, unsorted_segment_* gives the bits of segment_*. Integers
 *            wrap around. float16 and bfloat16 are combined in float32 and rounded once. A mean is
 *            the sum divided by the number of rows, in the type of the sum. max and min are NaN if
 *            an element is NaN. Segments without rows are 0, or 1 for prod, or with
 *            unsorted_segment_max and _min the lowest or highest finite value of the dtype.
 * Ownership  Borrows both tensors for the call; writes only the output. Scratch memory is allocated
 *            in exec->arena.
 * Threads    Reentrant. Splits rows, segments or columns through exec.
 * Cost       One pass over data. If the ids are not sorted, the sums of segments are read and
 *            written at random. Scratch memory: 8 bytes for each segment for mean, max and min (not
 *            for max and min of unsorted integers), and the output as float32 or int32 if the dtype
 *            is narrower; at most 64 MiB, or one segment.
 * Source     tf.math.segment_* and tf.math.unsorted_segment_* in the TensorFlow API reference. */
#ifndef TD_KERNELS_SEGMENTS_H
#define TD_KERNELS_SEGMENTS_H

#include "kernels/op.h"

struct td_segments_attrs {
    int64_t num_segments; /* TD_ATTR_UNSET: the last segment id plus 1 */
};

extern const struct td_op td_op_segment_sum, td_op_segment_mean, td_op_segment_max,
    td_op_segment_min, td_op_segment_prod;
extern const struct td_op td_op_unsorted_segment_sum, td_op_unsorted_segment_mean,
    td_op_unsorted_segment_max, td_op_unsorted_segment_min, td_op_unsorted_segment_prod;

#endif
