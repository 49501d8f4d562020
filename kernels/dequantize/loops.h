/* loops.h - the loops of dequantize for each instruction set; dequantize.c chooses one.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_DEQUANTIZE_LOOPS_H
#define TD_KERNELS_DEQUANTIZE_LOOPS_H

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

extern const struct td_dequantize_loops td_dequantize_loops_generic;
#ifdef __x86_64__
extern const struct td_dequantize_loops td_dequantize_loops_avx2;
extern const struct td_dequantize_loops td_dequantize_loops_avx512;
#endif

#endif
