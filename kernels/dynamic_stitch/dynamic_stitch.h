/* dynamic_stitch.h - put rows of several tensors where indices say, into one.
 *
 * Shapes     indices  list of [I_m...]         int16, int32 or int64, each its own
 *            data     list of [I_m..., C...]   one dtype, any, strings included
 *            output   [max(indices) + 1, C...]; no row when there is no index
 *            output[indices[m][i...], ...] = data[m][i..., ...]. Of equal indices the later counts,
 *            by m, then by i in row-major order. Rows that no index names are zeros, false, empty
 *            strings.
 * Bounds     0 <= index. A negative one is INDEX_OUT_OF_BOUNDS, found by infer, since the indices
 *            decide the shape; bad_count counts those of the tensor it names.
 * Ownership  Borrows all tensors for the call; writes only the output. Scratch is from exec->arena.
 * Threads    Reentrant. The same bytes at every number of threads. parallel_dynamic_stitch promises
 *            nothing about equal indices; it runs the same code, since rows are written in parallel
 *            and out of order wherever no two have the same index.
 * Cost       numel(data) bytes read and written, one place to look up per row; scratch for each row
 *            of the output is 16 bytes for strings, else 8 at the most, none for narrow ones.
 * Source     tf.dynamic_stitch and tf.raw_ops.ParallelDynamicStitch in the TensorFlow API
 *            reference. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_H
#define TD_KERNELS_DYNAMIC_STITCH_H

#include "kernels/op.h"

extern const struct td_op td_op_dynamic_stitch;
extern const struct td_op td_op_parallel_dynamic_stitch;

#endif
