#include "kernels/key_dtype.h"

#include <string.h>

td_dtype td_key_widened(td_dtype dtype, td_dtype other)
{
    if (dtype == TD_DTYPE_UINT32)
        return other == TD_DTYPE_UINT64 ? TD_DTYPE_UINT64 : TD_DTYPE_INT64;
    return dtype == TD_DTYPE_INT32 && other != TD_DTYPE_UINT64 ? TD_DTYPE_INT64 : dtype;
}

/* Reads a key, which need not be aligned. A uint32 is never negative as int64, so its int64 and
 * uint64 forms have the same bits. */
static int64_t key_at(const struct td_tensor *keys, int64_t i)
{
    const char *from = (const char *)keys->data + (size_t)i * sizeof(uint32_t);
    uint32_t bits;
    memcpy(&bits, from, sizeof(bits));
    return keys->dtype == TD_DTYPE_INT32 ? (int64_t)(int32_t)bits : (int64_t)bits;
}

td_status td_key_widen(struct td_tensor *keys, const char *input, td_dtype other,
                       struct td_arena *arena, struct td_error *err)
{
    const td_dtype dtype = td_key_widened(keys->dtype, other);
    struct td_tensor wide = *keys;
    if (dtype == keys->dtype)
        return TD_OK;
    td_status status = td_tensor_describe(&wide, input, dtype, &keys->shape, err);
    if (status == TD_OK && keys->data)
        status = td_tensor_alloc(&wide, arena, err);
    if (status != TD_OK)
        return status;
    for (int64_t i = 0; keys->data && i < keys->numel; i++)
        ((int64_t *)wide.data)[i] = key_at(keys, i);
    *keys = wide;
    return TD_OK;
}
