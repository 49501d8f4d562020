/* distinct.h - the distinct keys of a vector that repeats some.
 *
 * Ownership  The result is in exec->arena.
 * Threads    Reentrant; runs on one thread, with a table of up to 32 bytes a key.
 * Errors     MEMORY_EXHAUSTED, RESOURCE_LIMIT; those of exec's check. */
#ifndef TD_KERNELS_KEY_INDEX_DISTINCT_H
#define TD_KERNELS_KEY_INDEX_DISTINCT_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* Of each distinct key, in the order of their first positions. */
struct td_distinct_keys {
    const int64_t *first, *last; /* its positions */
    int64_t n;
};

/* Bytes that td_distinct_keys_find takes from exec->arena for n keys, at most. */
uint64_t td_distinct_keys_workspace(int64_t n);

TD_MUST_CHECK td_status td_distinct_keys_find(const struct td_tensor *keys, struct td_exec *exec,
                                              struct td_distinct_keys *out, struct td_error *err);

#endif
