/* concat.h - joins tensors along one of their dimensions.
 *
 * Shapes     inputs[i]  [P..., A_i, Q...]            any dtype, including string; all the same
 *            output     [P..., A_0 + A_1 + ..., Q...]
 *            A_i is dimension `axis`; P and Q are the same in all inputs.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the output through exec; the parts never overlap.
 * Errors     INVALID_AXIS, even for scalars. SHAPE_MISMATCH names the first input that differs from
 *            inputs[0].
 * Cost       The bytes of the output read and written, in order.
 * Source     tf.concat in the TensorFlow API reference; numpy.concatenate. */
#ifndef TD_KERNELS_CONCAT_H
#define TD_KERNELS_CONCAT_H

#include "kernels/op.h"

struct td_concat_attrs {
    int64_t axis; /* a negative axis counts from the end */
};

extern const struct td_op td_op_concat;

#endif
