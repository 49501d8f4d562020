/* gather_nd.h - picks elements or slices of a tensor by index tuples.
 *
 * Shapes     params  [B..., D_0, ..., D_{k-1}, Q...]  any dtype, including string
 *            indices [B..., I..., k]                  int16, int32 or int64
 *            output  [B..., I..., Q...]               dtype of params
 *            B has batch_dims dimensions. If k is 0, each tuple picks all of its batch.
 * Bounds     0 <= component c < D_c. The error has all coordinates of the component in indices, and
 *            D_c as the bound. Policies apply to each component. With zero, the whole row becomes
 *            zero. If some D_c is 0, clip and wrap report any index as INDEX_OUT_OF_BOUNDS.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits its rows through exec; the parts of the output never overlap.
 * Source     tf.gather_nd in the TensorFlow API reference. */
#ifndef TD_KERNELS_GATHER_ND_H
#define TD_KERNELS_GATHER_ND_H

#include "kernels/op.h"
#include "kernels/rows/rows.h"

struct td_gather_nd_attrs {
    int64_t batch_dims;
    td_bounds bounds;
};

extern const struct td_op td_op_gather_nd;

/* The sizes of a call, after infer. params consists of B blocks of block_rows rows; block_rows is
 * the product of the dimensions that a tuple indexes. The output consists of B blocks of
 * block_tuples rows. */
struct td_gather_nd_geometry {
    /* The bounds are always set. The strides are meaningless if params has no elements. */
    struct td_tuple_space space;
    td_bounds bounds;
    /* Number of output rows. If the output has no elements, this member and all members below are
     * 0. */
    int64_t n_rows;
    int64_t batches;    /* B */
    int64_t block_rows; /* 0 if params has no elements; every row is then zeros */
    int64_t block_tuples;
    int64_t row_numel;
    size_t row_bytes; /* 0 for strings */
};
struct td_gather_nd_geometry td_gather_nd_geometry(const struct td_op_args *args);

#endif
