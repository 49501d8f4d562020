/* scatter.h - write slices or elements of a tensor by index tuples.
 *
 * Shapes     params  [D_0, ..., D_{k-1}, Q...]  any dtype; "add": any but bool and string; no scalar
 *            indices [I..., k]                  int16, int32 or int64; 0 <= k <= rank of params;
 *                                               with k = 0 each of updates goes to all of params
 *            updates [I..., Q...]               dtype of params
 *            output  shape and dtype of params: params with the updates in it
 * Bounds     0 <= component c < D_c; the first that is not is INDEX_OUT_OF_BOUNDS, told as gather_nd
 *            tells it, before anything is written.
 * Meaning    "set": of equal tuples the later wins. "add": all are added, in order; integers wrap
 *            around, float16 and bfloat16 are rounded after each addition. The same at every
 *            number of threads.
 * In place   Where outputs[0].data is params' data already, nothing is copied: only the slices
 *            that the updates name are written; indices and updates must lie elsewhere. cost tells
 *            of it where it is so before, also where neither has data yet. Once it writes it takes
 *            no memory and stops only where exec says so: who may not have half of a change gives
 *            it an exec without deadline. Strings are never in place.
 * Ownership, Threads  as gather.
 * Source     tf.tensor_scatter_nd_update and tf.tensor_scatter_nd_add in the TensorFlow API
 *            reference. */
#ifndef TD_KERNELS_SCATTER_H
#define TD_KERNELS_SCATTER_H

#include "kernels/op.h"

typedef enum td_scatter_mode { TD_SCATTER_SET, TD_SCATTER_ADD } td_scatter_mode;

struct td_scatter_attrs {
    td_scatter_mode mode;
};

/* Not one of td_ops(): it runs on a resident tensor, under that tensor's own path. */
extern const struct td_op td_op_scatter;

/* Where the updates of a call go: update i to the `slice_bytes` bytes at offsets[i] of the output;
 * none where nothing has bytes. After infer, indices in range, no strings. Offsets lie in arena. */
struct td_scatter_slices {
    const uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
};
TD_MUST_CHECK td_status td_scatter_slices(const struct td_op_args *args, struct td_arena *arena,
                                          struct td_scatter_slices *out, struct td_error *err);

#endif
