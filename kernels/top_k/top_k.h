/* top_k.h - selects the largest or smallest elements of each row, in order.
 *
 * Shapes     x        [..., n, ...]  integers or floats; n is dimension `axis`, at most 2^31 - 1
 *            values   [..., k, ...]  dtype of x
 *            indices  [..., k, ...]  int32: position of each value in dimension `axis`
 * Order      The largest element comes first or, with largest = false, the smallest. Among equal
 *            elements, the element with the lower index comes first. -0 equals 0, and NaN is larger
 *            than all other values. values has the bits of x.
 * Bounds     0 <= k <= n.
 * Ownership  Borrows all tensors for the call; writes only the outputs.
 * Threads    Reentrant. Splits rows, and long rows into runs, through exec. The result does not
 *            depend on the split.
 * Cost       O(n log k) per row; O(n + k log k) for elements in random order. The elements of a row
 *            are read one by one unless `axis` is the last dimension.
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
