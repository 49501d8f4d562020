/* cast_loops.h - the loops of cast_path as built for one instruction set.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_CONVERT_CAST_LOOPS_H
#define TD_KERNELS_CONVERT_CAST_LOOPS_H

#include "kernels/convert/cast_path.h"

struct td_cast_loops {
    /* direct[from][to]. There is none to or from float16 and bfloat16, which pass through float32,
     * and of the complex dtypes only to bool. A row may be NULL. */
    td_cast_fn *const *direct[TD_DTYPE_COUNT];
    /* To float32, of dtypes that float32 does not hold exactly: cut off, the last bit set where
     * anything was lost ("round to odd"). What is rounded again, to 22 bits or less, is then
     * rounded right. NULL where float32 is exact. */
    td_cast_fn *odd[TD_DTYPE_COUNT];
};

extern const struct td_cast_loops td_cast_loops_generic;
#ifdef __x86_64__
extern const struct td_cast_loops td_cast_loops_avx2;
extern const struct td_cast_loops td_cast_loops_avx512;
#endif

#endif
