/* key_dtype.h - the dtypes of keys, and the conversion of 32-bit keys to 64 bits.
 *
 * Ownership  Converted keys are copied to the arena. Keys of other dtypes are left unchanged.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_KEY_DTYPE_H
#define TD_KERNELS_KEY_DTYPE_H

#include "kernels/tensor.h"

#include <stdbool.h>

/* Dtypes of the keys in an index. */
#define TD_DTYPES_KEY (TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT64) | TD_DTYPE_BIT(STRING))

/* Dtypes of the keys that a request can contain. */
#define TD_DTYPES_KEY_GIVEN (TD_DTYPES_KEY | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(UINT32))

static inline bool td_key_is_narrow(td_dtype dtype)
{
    return dtype == TD_DTYPE_INT32 || dtype == TD_DTYPE_UINT32;
}

/* Returns the dtype of keys after widening, given that the other keys of the call have dtype
 * `other`. 32-bit keys become int64, except that uint32 becomes uint64 if `other` is uint64. int32
 * is not widened if `other` is uint64, because a negative key would become a different key. */
td_dtype td_key_widened(td_dtype dtype, td_dtype other);

/* Widens int32 and uint32 keys to td_key_widened(keys->dtype, other). If the keys have no data,
 * changes only the dtype. `input` is the name of the keys in errors. */
TD_MUST_CHECK td_status td_key_widen(struct td_tensor *keys, const char *input, td_dtype other,
                                     struct td_arena *arena, struct td_error *err);

#endif
