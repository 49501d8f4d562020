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

/* A call of either, after infer, in numbers. The rows of all data tensors are numbered one after the
 * other. */
struct td_dynamic_stitch_geometry {
    int n_tensors;     /* of indices, and of data */
    int64_t *first;    /* number of the first row of each, and behind them the count of all */
    int64_t n_out;     /* rows of the output */
    int64_t row_numel; /* elements in a row; 0 where the output has none, however many rows */
    size_t row_bytes;  /* 0 for strings */
};
const struct td_dynamic_stitch_geometry *td_dynamic_stitch_geometry(const struct td_op_args *args);

#endif
