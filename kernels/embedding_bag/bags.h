/* bags.h - computes the sums of all bags of an embedding_bag call.
 *
 * Threads    See embedding_bag.h. */
#ifndef TD_KERNELS_EMBEDDING_BAG_BAGS_H
#define TD_KERNELS_EMBEDDING_BAG_BAGS_H

#include "kernels/op.h"

/* Returns the number of bytes that td_bags_run allocates from exec->arena. On overflow, returns a
 * number that is too large to allocate. */
uint64_t td_bags_workspace(const struct td_op_args *args);

/* State of the indices before the run. */
typedef enum {
    TD_BAG_INDICES_UNKNOWN, /* td_bags_run checks the indices as it reads them */
    TD_BAG_INDICES_IN_BOUNDS,
    /* Some indices are out of bounds. The attribute bounds determines what replaces them. */
    TD_BAG_INDICES_OUT_OF_BOUNDS,
} td_bag_indices;

/* Fills the output, which must not be empty. Bag k starts at starts[k] in indices and ends where
 * the next bag starts. The last bag ends at n_indices. If `known` is TD_BAG_INDICES_UNKNOWN and an
 * index is out of bounds, sets *outside to true and leaves the output incomplete. */
TD_MUST_CHECK td_status td_bags_run(struct td_op_args *args, const int64_t *starts,
                                    td_bag_indices known, bool *outside, struct td_exec *exec,
                                    struct td_error *err);

#endif
