/* cast_loops.h - the loops of cast_path for each instruction set.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_CONVERT_CAST_LOOPS_H
#define TD_KERNELS_CONVERT_CAST_LOOPS_H

#include "kernels/convert/cast_path.h"

struct td_cast_loops {
    /* direct[from][to]. float16 and bfloat16 have no loops, because they pass through float32. A
     * complex dtype has loops only to bool, to the dtype of its parts and from that dtype. A row
     * can be NULL. */
    td_cast_fn *const *direct[TD_DTYPE_COUNT];
    /* Convert dtypes that float32 cannot represent exactly to float32, rounding to odd: an inexact
     * value is truncated and its last bit is set. Rounding the result again, to at most 22 bits,
     * gives the correctly rounded value. NULL for dtypes that float32 can represent. */
    td_cast_fn *odd[TD_DTYPE_COUNT];
};

extern const struct td_cast_loops td_cast_loops_generic;
#ifdef __x86_64__
extern const struct td_cast_loops td_cast_loops_avx2;
extern const struct td_cast_loops td_cast_loops_avx512;
#endif

#endif
