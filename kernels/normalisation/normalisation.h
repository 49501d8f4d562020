/* normalisation.h - softmax, log_softmax, layer_norm and l2_normalize.
 *
 * Shapes     x, output    [..., n, ...]; n is dimension `axis`. layer_norm normalises all
 *                         dimensions from `axis` on together.
 *            scale, bias  broadcast to the normalised dimensions; bias is optional
 * Results    softmax      e^(x - max) / sum of e^(x - max)
 *            log_softmax  x - max - log(sum of e^(x - max))
 *            l2_normalize x / sqrt(max(sum of x^2, epsilon))
 *            layer_norm   (x - mean) / sqrt(variance + epsilon) * scale + bias
 *            float16 and bfloat16 are computed in float32, and rounded once.
 * Bounds     `axis` is in [-rank, rank), and epsilon is at least 0.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits groups, and the blocks of long groups, through exec. The result does
 *            not depend on the split (groups.h).
 * Cost       Three passes over each group, which stays in a cache if it fits.
 * Source     tf.nn.softmax, tf.nn.log_softmax and tf.math.l2_normalize in the TensorFlow API
 *            reference; ONNX LayerNormalization-17. The mean is corrected by the sum of the
 *            deviations from it, as in T. Chan, G. Golub and R. LeVeque, "Algorithms for Computing
 *            the Sample Variance", The American Statistician 37 (1983). */
#ifndef TD_KERNELS_NORMALISATION_H
#define TD_KERNELS_NORMALISATION_H

#include "kernels/op.h"

struct td_normalisation_attrs {
    int64_t axis;
    double epsilon; /* not in softmax and log_softmax */
};

extern const struct td_op td_op_softmax;
extern const struct td_op td_op_log_softmax;
extern const struct td_op td_op_layer_norm;
extern const struct td_op td_op_l2_normalize;

#endif
