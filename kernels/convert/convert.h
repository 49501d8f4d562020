/* convert.h - from the dtypes tensors are stored in to the types arithmetic is done in, and back.
 *
 * Arithmetic exists for six types only. float16 and bfloat16 are widened to float32 as they are
 * read and rounded (to nearest, ties to even; NaN stays NaN) as they are stored; integers compute
 * modulo 2^32 or 2^64 and are cut to their width, which is the same as wrapping around in it.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_CONVERT_H
#define TD_KERNELS_CONVERT_H

#include "kernels/dtype.h"
#include "kernels/isa.h"

#include <stddef.h>
#include <stdint.h>

typedef enum td_compute {
    TD_COMPUTE_F32, /* float16, bfloat16, float32 */
    TD_COMPUTE_F64,
    TD_COMPUTE_U32, /* integers of up to 32 bits */
    TD_COMPUTE_U64,
    TD_COMPUTE_C64,  /* struct of two floats: re, im */
    TD_COMPUTE_C128, /* two doubles */
    TD_COMPUTE_COUNT
} td_compute;

/* Of any dtype but bool and string. */
td_compute td_compute_of(td_dtype dtype);
size_t td_compute_size(td_compute compute);

/* Is the dtype stored as it is computed in (int32 counts: same bits), so that no conversion is
 * needed? */
bool td_compute_is_native(td_dtype dtype);

/* to[i] = from[i * stride] for i in [0, n), widened; stride in elements, any sign. `from` is
 * aligned to its dtype. */
typedef void td_widen_fn(void *restrict to, const void *restrict from, int64_t stride, int64_t n);
/* to[i * stride] = from[i], cut or rounded. */
typedef void td_narrow_fn(void *restrict to, int64_t stride, const void *restrict from, int64_t n);

/* isa as td_isa_resolve gives it. Stride 1 is the fast case. */
td_widen_fn *td_widen(td_dtype dtype, td_isa isa);
td_narrow_fn *td_narrow(td_dtype dtype, td_isa isa);

#endif
