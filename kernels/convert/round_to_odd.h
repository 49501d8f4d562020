/* round_to_odd.h - rounds numbers to odd, on their way to float16 or bfloat16.
 *
 * Rounding to odd truncates an inexact result towards 0 and sets its last bit. Rounding twice,
 * first to odd and then to nearest, gives the same result as a single rounding to nearest.
 *
 * Threads    Pure functions.
 * Source     S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved
 *            algorithms using rounding to odd", IEEE Transactions on Computers 57 (2008). */
#ifndef TD_KERNELS_CONVERT_ROUND_TO_ODD_H
#define TD_KERNELS_CONVERT_ROUND_TO_ODD_H

#include <stdint.h>
#include <string.h>

static inline float td_odd_from_double(double value)
{
    const float nearest = (float)value;
    const double back = (double)nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof(bits));
    /* Subtracting 1 from the bits of a float gives the next number towards zero; for infinity, this
     * is the largest float. */
    const uint32_t cut = bits - (uint32_t)(__builtin_fabs(back) > __builtin_fabs(value));
    bits = back == value ? bits : cut | 1; /* a NaN stays a NaN */
    float odd;
    memcpy(&odd, &bits, sizeof(odd));
    return odd;
}

/* For values of at least 2^53, clears the 11 low bits, which might not fit in a double, and sets
 * bit 11 if any of them was set. */
static inline double td_odd_from_magnitude(uint64_t value)
{
    const uint64_t lost = value & 0x7ff;
    const uint64_t odd = (value - lost) | (uint64_t)(lost != 0) << 11;
    return (double)(value >> 53 ? odd : value);
}

static inline double td_odd_from_int64(int64_t value)
{
    const double magnitude = td_odd_from_magnitude(value < 0 ? -(uint64_t)value : (uint64_t)value);
    return value < 0 ? -magnitude : magnitude;
}

#endif
