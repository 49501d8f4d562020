/* einsum.h - sums of products along labelled dimensions: Einstein summation.
 *
 * Shapes     inputs    1 to 16 tensors, whose dimensions the equation names
 *            output    the dimensions that stand right of "->", in that order
 *            A label in several places of one input walks its diagonal; in several places of the
 *            output it writes a diagonal, with zeros beside it. A label that the output lacks is
 *            summed. "..." stands for the dimensions that have no label; they broadcast against
 *            each other from the right, extents of 1 stretching. Labels do not broadcast.
 * Numbers    Floating point sums may be added in any order, the same one every time. float16 and
 *            bfloat16 compute in float32 and are rounded once, at the end; matrix products of
 *            bfloat16 take denormals for 0 where the processor's own instructions compute them
 *            (gemm.h). Integers wrap around in their dtype. complex values are not conjugated.
 *            bool is refused: + and * on it mean one thing to NumPy (or, and) and nothing to
 *            TensorFlow.
 * Errors     equation.h, and RESOURCE_LIMIT for flops and memory by whoever admits the call.
 * Ownership  Borrows the inputs; writes the output; the workspace comes from exec->arena and is
 *            what the plan announced.
 * Threads    Reentrant. The same bits at every number of threads, but for those that tell one NaN
 *            from another.
 * Cost       The plan's: plan.h.
 * Source     tf.einsum in the TensorFlow API reference and numpy.einsum in NumPy's. */
#ifndef TD_KERNELS_EINSUM_EINSUM_H
#define TD_KERNELS_EINSUM_EINSUM_H

#include "kernels/op.h"

struct td_einsum_attrs {
    const char *equation;
};

extern const struct td_op td_op_einsum;

#endif
