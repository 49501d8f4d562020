/* integers.h - minimum, maximum, products, division that rounds up, and sums and products that
 * saturate, for extents, blocks, strides, bytes and FLOPs.
 *
 * Bounds     Operands are counts of at least 0, divisors are at least 1, and sums of int64_t are
 *            below 2^63.
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

/* Adds or multiplies counts, saturating at UINT64_MAX. */
static inline uint64_t td_saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t td_saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Returns the absolute value, for example of a stride. */
static inline int64_t td_magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

#endif
