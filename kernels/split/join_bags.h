/* join_bags.h - joins the bags of the parts of a table (split.h): adds their sums, or takes the
 * maximum of their maxima.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_SPLIT_JOIN_BAGS_H
#define TD_KERNELS_SPLIT_JOIN_BAGS_H

#include "kernels/split/split.h"

TD_MUST_CHECK td_status td_split_join_bags(const struct td_split *split, struct td_op_args *call,
                                           struct td_exec *exec, struct td_error *err);

#endif
