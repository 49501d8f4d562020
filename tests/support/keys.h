/* keys.h - lists of distinct keys, and queries whose rows are known by construction. Random, by the
 * seed of random.h. */
#ifndef TD_TESTS_SUPPORT_KEYS_H
#define TD_TESTS_SUPPORT_KEYS_H

#include "kernels/tensor.h"

/* n distinct keys, int64, uint64 or strings, in test_arena; of two lists with the same salt the
 * shorter one has some of the keys of the longer one. Strings have up to 40 bytes, any of them, and
 * one is empty. */
struct td_tensor distinct_keys(td_dtype dtype, int64_t n, uint64_t salt, bool ascending);

/* Queries of such a shape: about one of five is of no key. rows[i] = the row of query i, or -1. */
struct td_tensor queries_of(const struct td_tensor *keys, uint64_t salt,
                            const struct td_shape *dims, int64_t *rows);

#endif
