/* top_k.h - the greatest or the smallest elements of each row, in order.
 *
 * Shapes     x        [..., n, ...]  integers or floats; n, dimension `axis`, of 2^31 - 1 or less
 *            values   [..., k, ...]  dtype of x
 *            indices  [..., k, ...]  int32: where in that dimension each value is
 * Order      The greatest first, or with largest = false the smallest. Of equal elements that of
 *            the lower index is first; -0 equals 0; NaN is greater than anything else. values has
 *            the bits of x.
 * Bounds     0 <= k <= n.
 * Ownership  Borrows all tensors for the call; writes only the outputs.
 * Threads    Reentrant. Splits rows, and long rows into runs, through exec; the result does not
 *            depend on how.
 * Cost       O(n log k) for each row; where the order is random O(n + k log k). The elements of a
 *            row are read one by one unless it is the last dimension.
 * Source     tf.math.top_k in the TensorFlow API reference, torch.topk for `largest`; NaN as in
 *            torch.topk and numpy.sort. */
#ifndef TD_KERNELS_TOP_K_H
#define TD_KERNELS_TOP_K_H

#include "kernels/op.h"

struct td_top_k_attrs {
    int64_t k;
    bool largest;
    int64_t axis;
};

extern const struct td_op td_op_top_k;

#endif
