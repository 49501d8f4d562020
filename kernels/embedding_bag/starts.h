/* starts.h - finds where each bag starts in indices, from offsets, segment_ids or the rows of
 * indices.
 *
 * Threads    See embedding_bag.h.
 * Errors     INDEX_OUT_OF_BOUNDS names the first element that is out of range or less than the
 *            previous element. */
#ifndef TD_KERNELS_EMBEDDING_BAG_STARTS_H
#define TD_KERNELS_EMBEDDING_BAG_STARTS_H

#include "kernels/op.h"

/* Check that offsets or segment_ids are in range and never decrease. td_bag_starts_check reports
 * the first invalid element. td_bag_starts_valid only returns whether all elements are valid. */
TD_MUST_CHECK td_status td_bag_starts_check(const struct td_op_args *args, struct td_exec *exec,
                                            struct td_error *err);
bool td_bag_starts_valid(const struct td_op_args *args);

/* Returns the number of bytes that td_bag_starts_make allocates from exec->arena. */
uint64_t td_bag_starts_workspace(const struct td_op_args *args);

/* Sets *starts to an array [n_bags], which is either the data of offsets or memory from
 * exec->arena. Call td_bag_starts_check first. */
TD_MUST_CHECK td_status td_bag_starts_make(const struct td_op_args *args, int64_t n_bags,
                                           struct td_exec *exec, const int64_t **starts,
                                           struct td_error *err);

#endif
