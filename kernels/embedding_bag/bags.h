/* bags.h - the sums of all bags of a call of embedding_bag.
 *
 * Threads  As embedding_bag.h. */
#ifndef TD_KERNELS_EMBEDDING_BAG_BAGS_H
#define TD_KERNELS_EMBEDDING_BAG_BAGS_H

#include "kernels/op.h"

/* Bytes that td_bags_run takes from exec->arena; UINT64_MAX when there is no number for them. */
uint64_t td_bags_workspace(const struct td_op_args *args);

/* What is known of the indices before the run. */
typedef enum {
    TD_BAG_INDICES_UNKNOWN, /* they are checked as they are read */
    TD_BAG_INDICES_IN_BOUNDS,
    TD_BAG_INDICES_OUT_OF_BOUNDS, /* some are, and the attribute bounds says what they give */
} td_bag_indices;

/* Fills the output, which has elements. starts[k] is where bag k begins in indices, its end the
 * begin of the next or n_indices. *outside: are there indices out of bounds where that was unknown?
 * The output is then not complete. */
TD_MUST_CHECK td_status td_bags_run(struct td_op_args *args, const int64_t *starts,
                                    td_bag_indices known, bool *outside, struct td_exec *exec,
                                    struct td_error *err);

#endif
