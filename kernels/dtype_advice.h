/* dtype_advice.h - writes advice for errors about dtypes: recommends a conversion, and says how it
 * changes values, if it does.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_DTYPE_ADVICE_H
#define TD_KERNELS_DTYPE_ADVICE_H

#include "kernels/dtype.h"
#include "kernels/op.h"

/* Returns the smallest accepted dtype that can represent all values of `from`. If there is none,
 * returns the largest accepted dtype that rounds them. Returns TD_DTYPE_COUNT if every conversion
 * can change values by more than rounding. */
td_dtype td_dtype_to_cast(td_dtype_set accepted, td_dtype from);

/* Two tensors that must have the same dtype. */
struct td_dtype_pair {
    const char *first_name, *name;
    td_dtype first, dtype;
    td_dtype_set accepted; /* dtypes that are allowed for both tensors */
    td_role role;
    /* True if the first tensor is a table that the op changes. The table keeps its dtype. */
    bool is_change;
};

#define TD_DTYPE_ADVICE 256 /* maximum size in bytes of the text */

/* Writes a way to give both tensors the same dtype, as the end of a message, such as ": the op cast
 * with dtype = float64 converts both". Writes "" if no conversion helps. Returns text. */
const char *td_dtype_advise(const struct td_dtype_pair *pair, char text[TD_DTYPE_ADVICE]);

#endif
