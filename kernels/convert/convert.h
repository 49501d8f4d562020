/* convert.h - conversion between the dtypes of tensors and the types used for arithmetic.
 *
 * Arithmetic is implemented for six types only. float16 and bfloat16 are widened to float32 when
 * read, and rounded (to nearest, ties to even; NaN stays NaN) when stored. Integers are computed
 * modulo 2^32 or 2^64 and truncated when stored, which equals arithmetic modulo 2^width.
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

/* The type in which values of this dtype are computed; any dtype but bool and string. */
td_compute td_compute_of(td_dtype dtype);
size_t td_compute_size(td_compute compute); /* in bytes */

/* Are the bits of a stored value those of the computed one, so that no conversion is needed? True
 * for int32, which is computed as uint32. */
bool td_compute_is_native(td_dtype dtype);

/* to[i] = from[i * stride] for i in [0, n), widened; stride in elements, any sign. `from` is
 * aligned to its dtype. */
typedef void td_widen_fn(void *restrict to, const void *restrict from, int64_t stride, int64_t n);
/* to[i * stride] = from[i] for i in [0, n), truncated (integers) or rounded. */
typedef void td_narrow_fn(void *restrict to, int64_t stride, const void *restrict from, int64_t n);

/* The conversion loops for a dtype; NULL for bool and string. isa is a result of td_isa_resolve.
 * Loops with stride 1 are vectorised. */
td_widen_fn *td_widen(td_dtype dtype, td_isa isa);
td_narrow_fn *td_narrow(td_dtype dtype, td_isa isa);

#endif
