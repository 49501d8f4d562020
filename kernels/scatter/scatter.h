/* scatter.h - writes slices or elements of a tensor at positions given by index tuples.
 *
 * Shapes     params  [D_0, ..., D_{k-1}, Q...]  no scalar; any dtype, but no bool or string unless
 *                                               the mode is "set", and for "min" and "max" no
 *                                               complex
 *            indices [I..., k]                  int16, int32 or int64; 0 <= k <= rank of params;
 *                                               with k = 0 an update applies to all of params
 *            updates [I..., Q...]               dtype of params
 *            output  shape and dtype of params: params with the updates written to it
 * Bounds     0 <= component c < D_c; the first component out of range is INDEX_OUT_OF_BOUNDS, with
 *            the details of gather_nd's error, before anything is written.
 * Meaning    "set": of equal tuples the last one counts. "add", "mul", "min", "max": all updates
 *            are combined with the element, in order; integers wrap around, float16 and bfloat16
 *            are rounded each time, and NaN is both minimum and maximum. The result does not depend
 *            on the number of threads.
 * In place   When outputs[0].data is the data of params, params is not copied: only the updated
 *            slices are written. indices and updates must not overlap with params. cost recognises
 *            this case, also when both data pointers are still NULL. Once writing has started, run
 *            allocates no memory and fails only when exec cancels it: a caller that cannot accept a
 *            partial update passes an exec without a deadline. Strings are never updated in place.
 * Ownership, Threads  as gather.
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
