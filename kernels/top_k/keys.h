/* keys.h - converts elements to unsigned integers in the same order, with loops for each
 * instruction set.
 *
 * A larger key is a better element. -0 and 0 have the same key, and NaN has the largest key.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_TOP_K_KEYS_H
#define TD_KERNELS_TOP_K_KEYS_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets to[i] to the key of from[i] for i in [0, n). `flip` is 0, or all ones to complement the
 * keys, which makes a smaller element better. Keys are uint64_t for dtypes of 8 bytes, and uint32_t
 * for all other dtypes. */
typedef void td_top_k_keys_fn(void *restrict to, const void *restrict from, int64_t n,
                              uint64_t flip);

struct td_top_k_keys {
    td_top_k_keys_fn *keys[TD_DTYPE_COUNT]; /* NULL for bool, complex and string */
    /* True if any of keys[0 .. n) is above the threshold. */
    bool (*any_above_uint32)(const uint32_t *keys, int64_t n, uint32_t threshold);
    bool (*any_above_uint64)(const uint64_t *keys, int64_t n, uint64_t threshold);
};

extern const struct td_top_k_keys td_top_k_keys_generic;
#ifdef __x86_64__
extern const struct td_top_k_keys td_top_k_keys_avx2;
extern const struct td_top_k_keys td_top_k_keys_avx512;
#endif

#endif
