/* shapes.h - ops that change the shape of a tensor, or the order of its elements, and one_hot.
 *
 * Shapes     reshape, expand_dims, squeeze   x -> the same elements, in another shape
 *            transpose                       output dimension i is dimension perm[i] of x
 *            slice                           x -> the elements that Python's slices select
 *            stack       inputs [S...], n of them -> [S..., n, ...], n at `axis` of the output
 *            one_hot     indices [I...] -> [I..., depth]
 *            All but one_hot accept any dtype, including string, and copy every element bit for
 *            bit. one_hot has the dtype of its attribute.
 * Bounds     An index of one_hot outside [0, depth) gives a row of zeros. A start or stop outside
 *            a dimension is clamped to it.
 * Ownership  Borrow all tensors for the call; write only the output.
 * Threads    Reentrant. Split the output through exec; the parts never overlap.
 * Errors     INVALID_AXIS, also for any fault of perm. SHAPE_MISMATCH. INVALID_ARGUMENT.
 * Cost       The bytes of the output read and written; one_hot reads only the indices.
 * Source     numpy and TensorFlow; each descriptor names its definition. */
#ifndef TD_KERNELS_SHAPES_SHAPES_H
#define TD_KERNELS_SHAPES_SHAPES_H

#include "kernels/op.h"

struct td_reshape_attrs {
    struct td_ints shape; /* one element can be -1 */
};

struct td_expand_dims_attrs {
    int64_t axis; /* a negative axis counts from the end of the output */
};

struct td_squeeze_attrs {
    struct td_ints axes; /* not given: all dimensions of 1 */
};

struct td_transpose_attrs {
    struct td_ints perm; /* not given: the dimensions in reverse */
};

struct td_slice_attrs {
    struct td_ints starts, stops;
    struct td_ints steps; /* not given: 1 */
    struct td_ints axes;  /* not given: the first dimensions */
};

struct td_stack_attrs {
    int64_t axis; /* a negative axis counts from the end of the output */
};

struct td_one_hot_attrs {
    int64_t depth;
    td_dtype dtype; /* dtype of the output */
};

extern const struct td_op td_op_reshape, td_op_expand_dims, td_op_squeeze, td_op_transpose,
    td_op_slice, td_op_stack, td_op_one_hot;

#endif
