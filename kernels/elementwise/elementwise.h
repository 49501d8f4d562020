/* elementwise.h - ops that compute each element of the output from one element of each input.
 *
 * elementwise.def lists the ops.
 *
 * Shapes     The output has the common shape of the inputs, which are broadcast as in NumPy.
 * Values     float16 and bfloat16 are computed as float32 and rounded once. Integers wrap around.
 *            In maximum, minimum and clip, NaN wins.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Errors     SHAPE_MISMATCH if the shapes do not broadcast. DIVISION_BY_ZERO for an integer divisor
 *            of 0, and INVALID_ARGUMENT for a negative integer exponent, both with the position in
 *            y.
 * Cost       One pass over the inputs and the output, in blocks that stay in the L1 cache
 *            (chain.h).
 * Source     NumPy's universal functions; the API reference of TensorFlow 2. */
#ifndef TD_KERNELS_ELEMENTWISE_H
#define TD_KERNELS_ELEMENTWISE_H

#include "kernels/op.h"

struct td_gelu_attrs {
    bool approximate;
};

#define TD_ELEMENTWISE(name, ...) extern const struct td_op td_op_##name;
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE

#endif
