/* gather.h - picks slices of a tensor along one axis, by index.
 *
 * Shapes     params  [B..., P..., A, Q...]     any dtype, including string
 *            indices [B..., I...]              int16, int32 or int64
 *            output  [B..., P..., I..., Q...]  the attribute dtype, by default the dtype of params
 *            B has batch_dims dimensions; A is dimension `axis`.
 * Bounds     0 <= index < A. With TD_BOUNDS_ERROR, the first index out of range, in row-major
 *            order, ends the call with INDEX_OUT_OF_BOUNDS before the output is written. Zero, clip
 *            and wrap replace such indices and count them. If A is 0, clip and wrap have no valid
 *            row, so any index is INDEX_OUT_OF_BOUNDS.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits its rows through exec; the parts of the output never overlap.
 * Cost       numel(output) elements read and written, and one random read per row.
 * Source     tf.gather and tf.compat.v1.batch_gather in the TensorFlow API reference. */
#ifndef TD_KERNELS_GATHER_H
#define TD_KERNELS_GATHER_H

#include "kernels/op.h"

struct td_gather_attrs {
    /* A negative axis counts from the end of params. TD_ATTR_UNSET means batch_dims. */
    int64_t axis;
    int64_t batch_dims; /* at most axis; a negative number counts from the rank of indices */
    td_bounds bounds;
    td_dtype dtype; /* dtype of the output, if the request sets it */
};

struct td_batch_gather_attrs {
    td_bounds bounds;
};

extern const struct td_op td_op_gather;
extern const struct td_op td_op_batch_gather; /* batch_dims = axis = rank(indices) - 1 */

/* The sizes of a call, after infer. The dimensions of params are merged into four and the
 * dimensions of indices into two: params [B, P, A, Q], indices [B, I], output [B, P, I, Q]. In rows
 * of Q elements, params is B * P slices of A rows, and the output is B * P slices of I rows. */
struct td_gather_geometry {
    /* A, the bound of the indices. Set even if the output has no elements. */
    int64_t slice_rows;
    td_bounds bounds;
    /* Number of output rows, B * P * I. If the output has no elements, this member and all members
     * below are 0. */
    int64_t n_rows;
    int64_t batches;       /* B */
    int64_t slices;        /* P, number of slices in each batch */
    int64_t slice_indices; /* I */
    int64_t row_numel;     /* Q */
    size_t row_bytes;      /* size in bytes of an output row; 0 for strings */
};
struct td_gather_geometry td_gather_geometry(const struct td_op_args *args);

#endif
