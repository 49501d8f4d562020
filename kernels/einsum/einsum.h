/* einsum.h - sums of products along labelled dimensions: Einstein summation.
 *
 * Shapes     inputs    1 to 16 tensors, whose dimensions the equation labels
 *            output    the dimensions to the right of "->", in that order
 *            A label that is repeated in an input selects its diagonal. A label that is repeated in
 *            the output writes a diagonal, with zeros elsewhere. A label that is not in the output
 *            is summed. "..." stands for the dimensions without a label, which are aligned from the
 *            right and broadcast extents of 1. Labels do not broadcast.
 * Numerics   The order of additions in a floating-point sum is unspecified but fixed. float16 and
 *            bfloat16 are computed in float32 and rounded once, at the end. Matrix products of
 *            bfloat16 treat denormals as 0 if they use the processor's bfloat16 instructions
 *            (gemm/gemm.h). Integers wrap around in their dtype. Complex values are not conjugated.
 *            bool is rejected, because NumPy computes OR and AND for + and *, and TensorFlow does
 *            not define them.
 * Errors     The errors of equation.h. The server checks FLOPs and memory against its limits.
 * Ownership  Borrows the inputs and writes the output. The workspace, whose size the plan gives, is
 *            allocated from exec->arena.
 * Threads    Reentrant. The bits of the output are the same for any number of threads, except for
 *            the sign and payload of NaNs.
 * Cost       The cost of the plan (plan.h).
 * Source     tf.einsum in the TensorFlow API reference; numpy.einsum in the NumPy reference. */
#ifndef TD_KERNELS_EINSUM_EINSUM_H
#define TD_KERNELS_EINSUM_EINSUM_H

#include "kernels/op.h"

struct td_einsum_attrs {
    const char *equation;
};

extern const struct td_op td_op_einsum;

#endif
