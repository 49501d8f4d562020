/* cast_path.h - converts elements of one dtype to another, by the rules of the op cast.
 *
 * Every pair of dtypes has a loop, except pairs with float16, bfloat16 or complex. Elements of
 * these dtypes pass through float32 or the dtype of their parts, in blocks that stay in the L1
 * cache.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_CONVERT_CAST_PATH_H
#define TD_KERNELS_CONVERT_CAST_PATH_H

#include "kernels/convert/convert.h"

#include <stddef.h>
#include <stdint.h>

/* Sets to[i] = from[i] for i in [0, n). Both arrays are aligned to their dtypes. */
typedef void td_cast_fn(void *restrict to, const void *restrict from, int64_t n);

/* A loop of a path. Exactly one member is set. */
struct td_cast_step {
    td_cast_fn *loop;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
};

/* The loops that elements pass through, in order. A path between equal dtypes has no steps. */
#define TD_CAST_STEPS 3 /* the longest path: complex128 to float64, to float32, to float16 */
struct td_cast_path {
    struct td_cast_step steps[TD_CAST_STEPS];
    int n_steps;
    /* Number of parts of an element that are cast separately: 2 if both dtypes are complex,
     * otherwise 1. */
    int parts;
    size_t from_size, to_size; /* bytes per part */
};

/* Number of elements in a block. Two buffers of 8 bytes per element fill half the L1 cache. */
#define TD_CAST_BLOCK 1024

/* Finds the path between any two dtypes except string. isa must be a result of td_isa_resolve. */
void td_cast_path_find(struct td_cast_path *path, td_dtype from, td_dtype to, td_isa isa);

/* Converts n elements: to[i] = from[i] for i in [0, n). Both arrays are aligned to their dtypes. */
void td_cast_path_run(const struct td_cast_path *path, void *to, const void *from, int64_t n);

#endif
