#include "kernels/key_index/equal_keys.h"

#include <inttypes.h>
#include <stdbool.h>

void td_equal_keys_note(struct td_equal_keys *found, int64_t first, int64_t second)
{
    while (atomic_flag_test_and_set_explicit(&found->lock, memory_order_acquire))
        ;
    if (found->pair[1] < 0 || second < found->pair[1]) {
        found->pair[0] = first;
        found->pair[1] = second;
    }
    atomic_flag_clear_explicit(&found->lock, memory_order_release);
}

/* True if JavaScript cannot represent the integer key and rounds it to another key. */
static bool may_be_rounded(const struct td_tensor *keys, int64_t at)
{
    const int64_t most = INT64_C(1) << 53;
    if (keys->dtype == TD_DTYPE_UINT64)
        return ((const uint64_t *)keys->data)[at] > (uint64_t)most;
    const int64_t *values = keys->data;
    return keys->dtype == TD_DTYPE_INT64 && (values[at] > most || values[at] < -most);
}

td_status td_equal_keys_refuse(const struct td_equal_keys *found, const struct td_tensor *keys,
                               const char *input, struct td_error *err)
{
    const int64_t first = found->pair[0], second = found->pair[1];
    if (second < 0)
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "%s[%" PRId64 "] is equal to %s[%" PRId64 "]; expected distinct keys", input,
                 second, input, first);
    if (may_be_rounded(keys, first))
        td_error_hint(err, "JavaScript rounds integers above 2^53; write them as strings, as in "
                           "{\"dtype\": \"int64\", \"data\": [\"9007199254740993\"]}");
    err->has_equal = true;
    err->equal[0] = first;
    err->equal[1] = second;
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", input);
}
