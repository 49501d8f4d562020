/* gather_nd.h - picks elements or slices of a tensor by index tuples.
 *
 * Shapes     params  [B..., D_0, ..., D_{k-1}, Q...]  any dtype, strings included
 *            indices [B..., I..., k]                  int16, int32 or int64
 *            output  [B..., I..., Q...]               dtype of params
 *            B has batch_dims dimensions; k may be 0: each tuple picks all of its batch.
 * Bounds     0 <= component c < D_c. The error has the position of the component in indices (all
 *            coordinates) and D_c as bound. Policies apply to each component; with zero the whole
 *            row becomes zero; with clip and wrap any index is INDEX_OUT_OF_BOUNDS when a D_c is 0.
 * Ownership, Threads  as gather.
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

/* The sizes of a call, after infer. params is B blocks of block_rows rows, the product of the
 * dimensions that a tuple indexes; the output is B blocks of block_tuples rows. */
struct td_gather_nd_geometry {
    struct td_tuple_space space; /* bounds are always set; strides are meaningless when params has
                                    no elements */
    td_bounds bounds;
    int64_t n_rows;     /* of the output; 0, as all that follows, if it has no elements */
    int64_t batches;    /* B */
    int64_t block_rows; /* 0: params has no elements, so every row is zeros */
    int64_t block_tuples;
    int64_t row_numel;
    size_t row_bytes; /* 0 for strings */
};
struct td_gather_nd_geometry td_gather_nd_geometry(const struct td_op_args *args);

#endif
