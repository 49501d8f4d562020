/* integers.h - what loops over extents and blocks ask of whole numbers, and the language lacks.
 *
 * Bounds   Operands are counts: 0 or more, b of a division 1 or more, sums below 2^63.
 * Threads  Pure. */
#ifndef TD_KERNELS_INTEGERS_H
#define TD_KERNELS_INTEGERS_H

#include <stdint.h>

static inline int64_t td_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t td_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The quotient, rounded up. */
static inline int64_t td_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* To a multiple of b. */
static inline int64_t td_round_up(int64_t a, int64_t b)
{
    return td_ceil_div(a, b) * b;
}

/* Of a stride, which may be negative. */
static inline int64_t td_magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

#endif
