/* key_dtype.h - the dtypes of keys; keys of 32 bits as keys of 64 bits.
 *
 * Ownership  The keys become a copy in the arena; keys of other dtypes stay as they are.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_KEY_DTYPE_H
#define TD_KERNELS_KEY_DTYPE_H

#include "kernels/tensor.h"

#include <stdbool.h>

/* The keys that an index has. */
#define TD_DTYPES_KEY (TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT64) | TD_DTYPE_BIT(STRING))

/* The keys that a request may give. */
#define TD_DTYPES_KEY_GIVEN (TD_DTYPES_KEY | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(UINT32))

static inline bool td_key_is_narrow(td_dtype dtype)
{
    return dtype == TD_DTYPE_INT32 || dtype == TD_DTYPE_UINT32;
}

/* The dtype of keys of this dtype beside keys of dtype `other`: int64, or uint64 for uint32 beside
 * it. int32 beside uint64 stays as it is, since a negative key would be another one. */
td_dtype td_key_widened(td_dtype dtype, td_dtype other);

/* Widens keys of int32 and uint32 to td_key_widened(keys->dtype, other), without data their dtype
 * alone. `input` is their name. */
TD_MUST_CHECK td_status td_key_widen(struct td_tensor *keys, const char *input, td_dtype other,
                                     struct td_arena *arena, struct td_error *err);

#endif
