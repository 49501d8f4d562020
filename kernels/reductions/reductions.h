/* reductions.h - reduces dimensions of a tensor to one element: sum, mean, product, maximum,
 * minimum, any, all, the position of the maximum or minimum; and cumulative sums.
 *
 * Shapes     x        [...]  integers, floats and complex numbers, as the op accepts; bool for any
 *                            and all
 *            reduce   x.shape without the dimensions `axes`, or with 1 in their place
 *            arg      int64, x.shape without dimension `axis`
 *            cumsum   x.shape
 * Values     Integers wrap around in their dtype. Floats are added in a fixed order with an error
 *            that is not larger than the error of a pairwise sum, and rounded once to the dtype of
 *            x. NaN wins in maxima and minima. Among equal elements, the first one counts for a
 *            position; 0 equals -0.
 * Bounds     Sums, products, any and all of no elements are 0, 1, false and true, and the mean is
 *            NaN.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits its blocks through exec. The bits of the result depend only on x and
 *            the attributes. If another program changes x meanwhile, each element of the result can
 *            come from any mix of old and new elements.
 * Errors     INVALID_AXIS; INVALID_ARGUMENT: the maximum, minimum or a position among no elements.
 * Cost       numel(x) elements read. cumsum reads long rows twice.
 * Source     tf.math.reduce_sum and the other functions of that name, numpy.argmax, tf.cumsum. */
#ifndef TD_KERNELS_REDUCTIONS_H
#define TD_KERNELS_REDUCTIONS_H

#include "kernels/op.h"

struct td_reduce_attrs {
    struct td_ints axes;
    bool keepdims;
};

struct td_arg_attrs {
    int64_t axis;
};

struct td_cumsum_attrs {
    int64_t axis;
    bool exclusive, reverse;
};

extern const struct td_op td_op_reduce_sum, td_op_reduce_mean, td_op_reduce_max, td_op_reduce_min,
    td_op_reduce_prod, td_op_reduce_any, td_op_reduce_all, td_op_argmax, td_op_argmin, td_op_cumsum;

#endif
