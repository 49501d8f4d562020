/* cast.h - converts the elements of a tensor to another dtype.
 *
 * Shapes     x, output  [...]   any dtype except string
 * Values     float to integer    truncated towards 0; out of range: nearest integer; NaN: 0
 *            integer to integer  wraps around
 *            to bool             true if not 0; for complex, if either part is not 0
 *            complex to real     drops the imaginary part
 *            to a float          rounded once to nearest, ties to even; too large: infinity
 * Ownership  Borrows both tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Cost       One pass. float16, bfloat16 and complex pass through blocks that stay in the L1 cache.
 * Source     tf.cast in the TensorFlow API reference; numpy.ndarray.astype. TensorFlow leaves
 *            floats outside the range of an integer dtype undefined; here they saturate. */
#ifndef TD_KERNELS_CAST_H
#define TD_KERNELS_CAST_H

#include "kernels/op.h"

struct td_cast_attrs {
    td_dtype dtype; /* dtype of the output */
};

extern const struct td_op td_op_cast;

#endif
