/* scatter.h - writes slices or elements of a tensor at positions given by index tuples.
 *
 * Shapes     params  [D_0, ..., D_{k-1}, Q...]  not a scalar. Any dtype for "set"; otherwise not
 *                                               bool or string; for "min" and "max" not complex
 *            indices [I..., k]                  int16, int32 or int64; 0 <= k <= rank of params. If
 *                                               k = 0, each update applies to all of params
 *            updates [I..., Q...]               dtype of params
 *            output  shape and dtype of params: params with the updates written to it
 * Bounds     0 <= component c < D_c. The first component out of range is INDEX_OUT_OF_BOUNDS, with
 *            the same details as in gather_nd, before anything is written.
 * Meaning    With "set", the last update of equal tuples is kept. With "add", "mul", "min" and
 *            "max", all updates are combined with the element, in order. Integers wrap around,
 *            float16 and bfloat16 are rounded after each update, and a NaN is both the minimum and
 *            the maximum. The result does not depend on the number of threads.
 * In place   If outputs[0].data is the data of params, params is not copied and only the updated
 *            slices are written. indices and updates must not overlap with params. cost recognises
 *            this case even while both data pointers are NULL. After writing has started, run
 *            allocates no memory and fails only if exec cancels it. A caller that cannot accept a
 *            partial update therefore passes an exec without a deadline. Strings are never updated
 *            in place.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits its rows through exec; the parts of the output never overlap.
 * Source     tf.tensor_scatter_nd_update, tf.tensor_scatter_nd_add, _min and _max in the TensorFlow
 *            API reference; numpy.multiply.at. */
#ifndef TD_KERNELS_SCATTER_H
#define TD_KERNELS_SCATTER_H

#include "kernels/op_change.h"

typedef enum td_scatter_mode {
    TD_SCATTER_SET,
    TD_SCATTER_ADD,
    TD_SCATTER_MUL,
    TD_SCATTER_MIN,
    TD_SCATTER_MAX
} td_scatter_mode;

struct td_scatter_attrs {
    td_scatter_mode mode;
};

#endif
