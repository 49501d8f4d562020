/* bounds.h - indices out of range: what a bounds policy makes of them, and the error otherwise. */
#ifndef TD_KERNELS_ROWS_BOUNDS_H
#define TD_KERNELS_ROWS_BOUNDS_H

#include "kernels/op.h"
#include "kernels/tensor.h"

#define TD_ROW_ZERO (-1) /* the row number of a row of zeros */

/* The row number that an index gives under the policy; TD_ROW_ZERO for an index out of range under
 * zero (and error). */
static inline int64_t td_row_resolve_index(int64_t index, int64_t bound, td_bounds policy)
{
    if (index >= 0 && index < bound)
        return index;
    switch (policy) {
    case TD_BOUNDS_CLIP:
        return index < 0 ? 0 : bound - 1;
    case TD_BOUNDS_WRAP:
        return index % bound < 0 ? index % bound + bound : index % bound;
    default:
        return TD_ROW_ZERO;
    }
}

/* Does the policy refuse indices of which n_bad are out of range? Clip and wrap do where no row is
 * valid. */
static inline bool td_row_policy_refuses(td_bounds policy, int64_t n_bad, int64_t bound)
{
    return n_bad > 0 && (policy == TD_BOUNDS_ERROR || (bound == 0 && policy != TD_BOUNDS_ZERO));
}

/* Reports INDEX_OUT_OF_BOUNDS for element `first` of the index tensor `name`, as found by
 * td_rows_check. `more` is appended to the message "indices[0,1] = 7 is not in [0, 3)". */
td_status td_rows_out_of_bounds(struct td_error *err, const char *name,
                                const struct td_tensor *indices, int64_t first, int64_t n_bad,
                                int64_t bound, int axis, const char *more);

/* For `more` of an op that has the attribute bounds: what it does with a negative index; "" for
 * another. */
const char *td_rows_bounds_hint(const struct td_tensor *indices, int64_t first, int64_t bound);

/* Reports INDEX_OUT_OF_BOUNDS for a negative index of an op without an upper bound. */
td_status td_rows_negative(struct td_error *err, const char *name, const struct td_tensor *indices,
                           int64_t first, int64_t n_bad);

#endif
