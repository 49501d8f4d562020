/* starts.h - where in indices each bag begins, from offsets, segment_ids or the rows of indices.
 *
 * Threads  As embedding_bag.h.
 * Errors   INDEX_OUT_OF_BOUNDS: the first element that is below the one before, or out of range. */
#ifndef TD_KERNELS_EMBEDDING_BAG_STARTS_H
#define TD_KERNELS_EMBEDDING_BAG_STARTS_H

#include "kernels/op.h"

/* Is none of offsets (segment_ids) below the one before, and are all in range? check says where one
 * is not, valid only whether. */
TD_MUST_CHECK td_status td_bag_starts_check(const struct td_op_args *args, struct td_exec *exec,
                                            struct td_error *err);
bool td_bag_starts_valid(const struct td_op_args *args);

/* Bytes that td_bag_starts_make takes from exec->arena. */
uint64_t td_bag_starts_workspace(const struct td_op_args *args);

/* *starts = [n_bags], offsets themselves or memory of exec->arena. Checked before. */
TD_MUST_CHECK td_status td_bag_starts_make(const struct td_op_args *args, int64_t n_bags,
                                           struct td_exec *exec, const int64_t **starts,
                                           struct td_error *err);

#endif
