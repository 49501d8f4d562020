/* order.h - ids in non-decreasing order, such as segment ids and offsets: checks them, and finds
 * the position of an id.
 *
 * Threads    Reentrant.
 * Errors     INDEX_OUT_OF_BOUNDS names the first id that is out of range or less than the previous
 *            id.
 * Cost       One pass over the ids for a check, and a binary search for a position. */
#ifndef TD_KERNELS_ROWS_ORDER_H
#define TD_KERNELS_ROWS_ORDER_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* The required order: no id is less than the previous id, and all are in [0, most]. */
struct td_rows_order {
    const char *name; /* of the input, for errors */
    const struct td_tensor *ids;
    int64_t most;
    int64_t first_most;     /* maximum value of the first id, at most `most` */
    const char *first_hint; /* appended to the error of the first id if first_most is below most */
};

/* Reports the first invalid id. */
TD_MUST_CHECK td_status td_rows_order_check(const struct td_rows_order *order, struct td_exec *exec,
                                            struct td_error *err);

/* True if all ids are valid. */
bool td_rows_order_holds(const struct td_rows_order *order);

/* Returns the position of the first id that is at least `id`, starting at `low`. Searches near
 * `low` first. The ids must be in order. */
int64_t td_rows_order_find(const struct td_tensor *ids, int64_t low, int64_t id);

/* Sets *n to the last id plus 1, or to 0 if there are no ids or the last id is negative. For infer,
 * before the ids have been checked. Returns RESOURCE_LIMIT if the number overflows. */
TD_MUST_CHECK td_status td_rows_order_segments(const struct td_tensor *ids, int64_t *n,
                                               struct td_error *err);

#endif
