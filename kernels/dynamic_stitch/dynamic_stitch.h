/* dynamic_stitch.h - assembles a tensor from the rows of several tensors, each at its index.
 *
 * Shapes     indices  list of [I_m...]         int16, int32 or int64, may differ in the list
 *            data     list of [I_m..., C...]   any dtype, the same in the list
 *            output   [max(indices) + 1, C...]; no rows when there are no indices
 *            output[indices[m][i...], ...] = data[m][i..., ...]. Of equal indices the last one
 *            counts, in the order of m, then of i (row-major). Rows that no index names are zeros,
 *            false, empty strings.
 * Bounds     0 <= index. A negative one is INDEX_OUT_OF_BOUNDS, reported by infer, since the
 *            indices decide the shape; bad_count counts the negative indices of the reported
 *            tensor.
 * Ownership  Borrows all tensors for the call; writes only the output. Scratch memory is allocated
 *            in exec->arena.
 * Threads    Reentrant. The result does not depend on the number of threads, also for
 *            parallel_dynamic_stitch, which guarantees nothing about equal indices but runs the
 *            same code: rows are written in parallel whenever no two indices are equal, or after
 *            the last of equal ones has been found.
 * Cost       The bytes of data read and written, one random access per row; per row of the output
 *            16 bytes of scratch for strings, else at most 8, none for narrow rows.
 * Source     tf.dynamic_stitch and tf.raw_ops.ParallelDynamicStitch in the TensorFlow API
 *            reference. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_H
#define TD_KERNELS_DYNAMIC_STITCH_H

#include "kernels/dynamic_stitch/geometry.h"
#include "kernels/op.h"

extern const struct td_op td_op_dynamic_stitch;
extern const struct td_op td_op_parallel_dynamic_stitch;

#endif
