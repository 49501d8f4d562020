/* gather.h - picks slices of a tensor along one axis, by index.
 *
 * Shapes     params  [B..., P..., A, Q...]     any dtype, strings included
 *            indices [B..., I...]              int16, int32 or int64
 *            output  [B..., P..., I..., Q...]  dtype of params, or what the attribute says
 *            B has batch_dims dimensions; A is dimension `axis`.
 * Bounds     0 <= index < A. With TD_BOUNDS_ERROR the first index, in row-major order, that is not
 *            ends the call with INDEX_OUT_OF_BOUNDS before the output is written; zero, clip and
 *            wrap replace indices and count them. When A is 0, no index is valid for clip and wrap:
 *            then any index is INDEX_OUT_OF_BOUNDS.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits its rows through exec; the parts of the output never overlap.
 * Cost       numel(output) bytes read and written, one random read per row.
 * Source     tf.gather and tf.compat.v1.batch_gather in the TensorFlow API reference. */
#ifndef TD_KERNELS_GATHER_H
#define TD_KERNELS_GATHER_H

#include "kernels/op.h"

struct td_gather_attrs {
    int64_t axis;       /* negative counts from the end of params; TD_ATTR_UNSET: batch_dims */
    int64_t batch_dims; /* negative counts from the rank of indices; at most axis */
    td_bounds bounds;
    td_dtype dtype; /* of the output, if it is given */
};

struct td_batch_gather_attrs {
    td_bounds bounds;
};

extern const struct td_op td_op_gather;
extern const struct td_op td_op_batch_gather; /* batch_dims = axis = rank(indices) - 1 */

/* The sizes of a call, after infer. The dimensions of params are merged into four, those of indices
 * into two: params [B, P, A, Q], indices [B, I], output [B, P, I, Q]. In rows of Q elements, params
 * is B * P slices of A rows and the output B * P slices of I rows. */
struct td_gather_geometry {
    int64_t slice_rows; /* A: the bound of the indices, also set when the output has no elements */
    td_bounds bounds;
    int64_t n_rows;  /* of the output, B * P * I; 0, as all that follows, if it has no elements */
    int64_t batches; /* B */
    int64_t slices;  /* P, in each batch */
    int64_t slice_indices; /* I */
    int64_t row_numel;     /* Q */
    size_t row_bytes;      /* of the output; 0 for strings */
};
struct td_gather_geometry td_gather_geometry(const struct td_op_args *args);

#endif
