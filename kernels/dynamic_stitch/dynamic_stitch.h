/* dynamic_stitch.h - assembles a tensor from the rows of several tensors, each at its index.
 *
 * Shapes     indices  list of [I_m...]         int16, int32 or int64; dtypes can differ
 *            data     list of [I_m..., C...]   any dtype, the same in all tensors
 *            output   [max(indices) + 1, C...]; no rows if there are no indices
 *            output[indices[m][i...], ...] = data[m][i..., ...]. If indices are equal, the last one
 *            is used, in the order of m, then of i (row-major). Rows that no index selects contain
 *            zeros, false or empty strings.
 * Bounds     0 <= index. infer reports a negative index as INDEX_OUT_OF_BOUNDS, because indices
 *            determine the shape. bad_count is the number of negative indices in that tensor.
 * Ownership  Borrows all tensors for the call; writes only the output. Scratch memory is allocated
 *            in exec->arena.
 * Threads    Reentrant. The result does not depend on the number of threads.
 *            parallel_dynamic_stitch guarantees nothing about equal indices but runs the same code:
 *            rows are written in parallel if no two indices are equal, otherwise after the last of
 *            each set of equal indices has been found.
 * Cost       The bytes of data read and written, and one random access per row. Scratch memory per
 *            row of the output is 16 bytes for strings, otherwise at most 8; narrow rows need none.
 * Source     tf.dynamic_stitch and tf.raw_ops.ParallelDynamicStitch in the TensorFlow API
 *            reference. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_H
#define TD_KERNELS_DYNAMIC_STITCH_H

#include "kernels/dynamic_stitch/geometry.h"
#include "kernels/op.h"

extern const struct td_op td_op_dynamic_stitch;
extern const struct td_op td_op_parallel_dynamic_stitch;

#endif
