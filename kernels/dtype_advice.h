/* dtype_advice.h - what an error about a dtype advises: a conversion that keeps the values, or says
 * how it changes them.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_DTYPE_ADVICE_H
#define TD_KERNELS_DTYPE_ADVICE_H

#include "kernels/dtype.h"
#include "kernels/op.h"

/* The smallest accepted dtype that has the values of `from`, or else the largest that rounds them;
 * TD_DTYPE_COUNT if each may change them. */
td_dtype td_dtype_to_cast(td_dtype_set accepted, td_dtype from);

/* Two tensors that are to have one dtype. */
struct td_dtype_pair {
    const char *first_name, *name;
    td_dtype first, dtype;
    td_dtype_set accepted; /* dtypes that both may have */
    td_role role;
    bool is_change; /* the first is that of a table that the op changes, which keeps its dtype */
};

#define TD_DTYPE_ADVICE 256 /* the longest */

/* Writes how the two get the same dtype, as the end of a message: ": the op cast with dtype =
 * float64 converts both", or "" if there is no way. Returns text. */
const char *td_dtype_advise(const struct td_dtype_pair *pair, char text[TD_DTYPE_ADVICE]);

#endif
