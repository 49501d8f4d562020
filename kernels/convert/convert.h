/* convert.h - conversion between the dtypes of tensors and the types used for arithmetic.
 *
 * Arithmetic is implemented for only six types. float16 and bfloat16 are widened to float32 when
 * read, and rounded to nearest when stored (ties to even; NaN stays NaN). Integers are computed
 * modulo 2^32 or 2^64 and truncated when stored, which is the same as arithmetic modulo 2^width.
 *
 * Threads    Pure functions. */
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
    TD_COMPUTE_C64,  /* struct of two floats, re and im */
    TD_COMPUTE_C128, /* two doubles */
    TD_COMPUTE_COUNT
} td_compute;

/* Returns the type in which values of the dtype are computed. The dtype must not be bool or
 * string. */
td_compute td_compute_of(td_dtype dtype);
size_t td_compute_size(td_compute compute); /* returns bytes */

/* True if stored values have the same bits as computed values, so no conversion is needed. For
 * example, int32 is computed as uint32. */
bool td_compute_is_native(td_dtype dtype);

/* Widens: to[i] = from[i * stride] for i in [0, n). The stride is in elements and can be negative.
 * `from` is aligned to its dtype. */
typedef void td_widen_fn(void *restrict to, const void *restrict from, int64_t stride, int64_t n);
/* Narrows: to[i * stride] = from[i] for i in [0, n). Integers are truncated, and floats are
 * rounded. */
typedef void td_narrow_fn(void *restrict to, int64_t stride, const void *restrict from, int64_t n);

/* Return the conversion loops for a dtype, or NULL for bool and string. isa must be a result of
 * td_isa_resolve. Loops with stride 1 are vectorised. */
td_widen_fn *td_widen(td_dtype dtype, td_isa isa);
td_narrow_fn *td_narrow(td_dtype dtype, td_isa isa);

#endif
