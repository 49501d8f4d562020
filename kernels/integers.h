/* integers.h - minimum, maximum, products, and division that rounds up, for extents, blocks and
 * strides.
 *
 * Bounds     Operands are counts of at least 0, divisors are at least 1, and sums are below 2^63.
 * Threads    Pure functions. */
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

/* Returns a / b, rounded up. */
static inline int64_t td_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Returns the smallest multiple of b that is at least a. */
static inline int64_t td_round_up(int64_t a, int64_t b)
{
    return td_ceil_div(a, b) * b;
}

/* Returns a * b, or 2^61 - 1 if the product is larger. The sum of a few such products does not
 * overflow. */
static inline uint64_t td_capped_product(uint64_t a, uint64_t b)
{
    const uint64_t most = UINT64_MAX / 8;
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

/* Returns the absolute value, for example of a stride. */
static inline int64_t td_magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

#endif
