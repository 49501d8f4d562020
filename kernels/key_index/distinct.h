/* distinct.h - finds the distinct keys of a vector in which keys can repeat.
 *
 * Ownership  The result is in exec->arena.
 * Threads    Reentrant. Runs on one thread, with a table of at most 32 bytes per key.
 * Errors     MEMORY_EXHAUSTED, RESOURCE_LIMIT, and errors of exec's check. */
#ifndef TD_KERNELS_KEY_INDEX_DISTINCT_H
#define TD_KERNELS_KEY_INDEX_DISTINCT_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* The distinct keys, in the order of their first positions. */
struct td_distinct_keys {
    const int64_t *first, *last; /* first and last position of each distinct key */
    int64_t n;
};

/* Returns the maximum number of bytes that td_distinct_keys_find allocates from exec->arena for n
 * keys. */
uint64_t td_distinct_keys_workspace(int64_t n);

TD_MUST_CHECK td_status td_distinct_keys_find(const struct td_tensor *keys, struct td_exec *exec,
                                              struct td_distinct_keys *out, struct td_error *err);

#endif
