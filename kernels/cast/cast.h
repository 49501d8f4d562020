/* cast.h - the elements of a tensor in another dtype.
 *
 * Shapes     x, output  [...]   any dtype but string
 * Values     float to integer    cut towards zero; out of range the nearest that there is; NaN
 *            gives 0 integer to integer  wraps around to bool             is it not 0; of complex,
 *            is either part not 0 complex to real     without the imaginary part to a float
 *            to the nearest, ties to even, in one rounding; too large is infinite
 * Ownership  Borrows both tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Cost       One pass; float16, bfloat16 and complex pass through blocks in the first cache.
 * Source     tf.cast in the TensorFlow API reference; numpy.ndarray.astype. TensorFlow leaves
 *            floats out of the range of an integer dtype undefined, here they saturate. */
#ifndef TD_KERNELS_CAST_H
#define TD_KERNELS_CAST_H

#include "kernels/op.h"

struct td_cast_attrs {
    td_dtype dtype; /* of the output */
};

extern const struct td_op td_op_cast;

#endif
