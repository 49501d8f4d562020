/* cast_path.h - elements of one dtype as another, by the rules of the op cast.
 *
 * Pairs of dtypes each have a loop, except float16, bfloat16 and complex: these pass through
 * float32 or the dtype of their parts, in blocks that stay in the first cache.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_CONVERT_CAST_PATH_H
#define TD_KERNELS_CONVERT_CAST_PATH_H

#include "kernels/convert/convert.h"

#include <stddef.h>
#include <stdint.h>

/* to[i] = from[i] for i in [0, n), both aligned to their dtypes. */
typedef void td_cast_fn(void *restrict to, const void *restrict from, int64_t n);

/* One loop of a path; one of the three is set. */
struct td_cast_step {
    td_cast_fn *loop;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
};

/* The loops that elements pass through, one after the other; none where the dtypes are equal. */
#define TD_CAST_STEPS 3 /* complex128 to float64, to float32, to float16 */
struct td_cast_path {
    struct td_cast_step steps[TD_CAST_STEPS];
    int n_steps;
    int parts;                 /* of an element, each cast by itself: 2 from complex to complex */
    size_t from_size, to_size; /* of a part */
};

/* Elements between two steps: with two buffers of 8 bytes an element, half the first cache. */
#define TD_CAST_BLOCK 1024

/* Any dtypes but string; isa is a result of td_isa_resolve. */
void td_cast_path_find(struct td_cast_path *path, td_dtype from, td_dtype to, td_isa isa);

/* to[i] = from[i] for i in [0, n): n elements, aligned to their dtypes. */
void td_cast_path_run(const struct td_cast_path *path, void *to, const void *from, int64_t n);

#endif
