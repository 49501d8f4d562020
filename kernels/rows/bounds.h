/* bounds.h - handles indices out of range: applies a bounds policy, or reports the error. */
#ifndef TD_KERNELS_ROWS_BOUNDS_H
#define TD_KERNELS_ROWS_BOUNDS_H

#include "kernels/op.h"
#include "kernels/tensor.h"

#define TD_ROW_ZERO (-1) /* row number that stands for a row of zeros */

/* Returns the row number that an index selects under the policy. For an out-of-range index, returns
 * TD_ROW_ZERO if the policy is zero or error. */
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

/* True if the policy refuses a call with n_bad indices out of range. Clip and wrap refuse it if no
 * row is valid. */
static inline bool td_row_policy_refuses(td_bounds policy, int64_t n_bad, int64_t bound)
{
    return n_bad > 0 && (policy == TD_BOUNDS_ERROR || (bound == 0 && policy != TD_BOUNDS_ZERO));
}

/* Sets INDEX_OUT_OF_BOUNDS for element `first` of the index tensor `name`, as found by
 * td_rows_check. Appends `more` to a message such as "indices[0,1] = 7 is not in [0, 3)". */
td_status td_rows_out_of_bounds(struct td_error *err, const char *name,
                                const struct td_tensor *indices, int64_t first, int64_t n_bad,
                                int64_t bound, int axis, const char *more);

/* Sets INDEX_OUT_OF_BOUNDS for element `first` of indices, a component of a tuple. The message
 * shows the whole tuple. Component 0 indexes dimension first_dim of params. */
td_status td_rows_bad_tuple(const struct td_tensor *params, const struct td_tensor *indices,
                            int first_dim, int64_t first, int64_t n_bad, struct td_error *err);

/* Returns a text for `more` that says how the attribute `bounds` can handle a negative index, or ""
 * if the index is not negative. For ops with this attribute. */
const char *td_rows_bounds_hint(const struct td_tensor *indices, int64_t first, int64_t bound);

/* Sets INDEX_OUT_OF_BOUNDS for a negative index of an op without an upper bound. */
td_status td_rows_negative(struct td_error *err, const char *name, const struct td_tensor *indices,
                           int64_t first, int64_t n_bad);

#endif
