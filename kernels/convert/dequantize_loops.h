/* dequantize_loops.h - loops that convert int8 and uint8 rows to the numbers that they represent,
 * for each instruction set.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_CONVERT_DEQUANTIZE_LOOPS_H
#define TD_KERNELS_CONVERT_DEQUANTIZE_LOOPS_H

#include "kernels/dtype.h"
#include "kernels/isa.h"

#include <stdbool.h>
#include <stdint.h>

/* Computes float or double elements for i in [0, n):
 *
 *     by_offset       to[i] = from[i] * scale + shift
 *     by_zero_point   to[i] = (from[i] - shift) * scale */
typedef void td_dequantize_fn(void *restrict to, const void *restrict from, int64_t n, float scale,
                              double shift);

struct td_dequantize_loops {
    struct td_dequantize_loop {
        td_dequantize_fn *int8_to_float, *uint8_to_float;
        td_dequantize_fn *int8_to_double, *uint8_to_double;
    } by_offset, by_zero_point;
};

/* Returns the loop for int8 or uint8 (`stored`) that computes float or double (`real`). isa must be
 * a result of td_isa_resolve. */
td_dequantize_fn *td_dequantize_loop(td_dtype stored, td_dtype real, bool by_offset, td_isa isa);

extern const struct td_dequantize_loops td_dequantize_loops_generic;
#ifdef __x86_64__
extern const struct td_dequantize_loops td_dequantize_loops_avx2;
extern const struct td_dequantize_loops td_dequantize_loops_avx512;
#endif

#endif
