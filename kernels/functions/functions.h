/* functions.h - elementary functions for loops over float and double.
 *
 * The float functions have no branches, tables or calls, so GCC vectorises a loop that applies one
 * of them to an array, for every instruction set (-O3 -fno-trapping-math -fno-math-errno). They
 * compute in float, and round in the same places in every build, so the results have the same bits.
 * The double functions call the C library once per element. The last bit of their results can
 * differ between machines, because the library selects its code by processor.
 *
 * Special values are those of the C library: NaN, infinities, signed zeros, overflow to infinity
 * and underflow to subnormal numbers. Power follows C99's pow. sigmoid and gelu have the limits
 * of their formulas; the gelu of -infinity is NaN.
 *
 * Errors     The largest error of a float function, in units in the last place of the correct
 *            result, over all 2^32 arguments (power: over 6 million pairs):
 *                exp 0.90  log 0.94  tanh 1.86  sigmoid 2.41  erf 1.26  rsqrt 1.50  power 0.90
 *            gelu adds the rounding errors of its formula, at most 2^-23 of |x|.
 * Cost       0.18 to 0.36 ns per element with AVX-512 on a Xeon at 3.8 GHz, and 1.2 ns for power.
 *            AVX2 takes twice as long. Without an instruction for a fused multiply-add, it is
 *            emulated, and a function takes 20 to 50 ns.
 * Threads    Pure functions.
 * Source     W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), for
 *            the reduction of arguments. The errors of sums and products of two floats in power:
 *            T. J. Dekker, "A floating-point technique for extending the available precision",
 *            Numerische Mathematik 18 (1971); SLEEF's powf has the same structure. The coefficients
 *            are minimax fits, rounded to float one by one, from the lowest power to the highest.
 *            S. Boldo and G. Melquiond for the fused multiply-add (embedding_bag/fused.inc). */
#ifndef TD_KERNELS_FUNCTIONS_FUNCTIONS_H
#define TD_KERNELS_FUNCTIONS_FUNCTIONS_H

#include "kernels/inline.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Parts ------------------------------------------------------------------------------- */

INLINE uint32_t td_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

INLINE float td_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* td_fused: x * y + z, rounded once. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
INLINE float td_fused(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
#else
INLINE float td_fused(float x, float y, float z)
{
    /* The product is exact as a double. The sum is rounded to odd: if it is inexact, it is
     * truncated towards 0, and its last bit is set. Rounding the result again, to float, then
     * rounds the exact sum correctly. */
    const double product = (double)x * (double)y, addend = (double)z, sum = product + addend;
    const double part = sum - product;
    const double error = (product - (sum - part)) + (addend - part);
    /* 0x1p-1074 has the bits 1, and 0 has the bits 0. If the error is NaN, as for infinite sums,
     * the comparison is false. */
    const double inexact = fabs(error) > 0 ? 0x1p-1074 : 0;
    uint64_t bits, error_bits, inexact_bits;
    memcpy(&bits, &sum, sizeof(bits));
    memcpy(&error_bits, &error, sizeof(error_bits));
    memcpy(&inexact_bits, &inexact, sizeof(inexact_bits));
    bits -= inexact_bits & ((error_bits ^ bits) >> 63); /* the sum was rounded away from 0 */
    bits |= inexact_bits;
    double odd;
    memcpy(&odd, &bits, sizeof(odd));
    return (float)odd;
}
#endif

/* Adding TD_ROUNDER to x rounds x to an integer n, for |x| < 2^21. The low bits of the sum equal
 * the low bits of n + 126. */
#define TD_ROUNDER (0x1.8p23f + 126)

/* Returns p * 2^(n - 1), correctly rounded, for n in [-150, 128]. `rounded` is TD_ROUNDER + n. Set
 * `is_small` if n < -124, whose power of 2 would be subnormal. */
INLINE float td_scale_float(float p, float rounded, bool is_small)
{
    const uint32_t exponent = td_bits_of_float(rounded) + (is_small ? 64 : 0);
    const float y = p * td_float_of_bits(exponent << 23);
    return is_small ? y * 0x1p-64f : y;
}

/* Returns e^x for x in [-86, 89] or, if the result may be subnormal, in [-104, 89]. Returns a
 * meaningless number for other x. */
INLINE float td_exp_in_range(float x, bool may_be_subnormal)
{
    const float rounded = td_fused(x, 0x1.715476p+0f, TD_ROUNDER), n = rounded - TD_ROUNDER;
    float r = td_fused(n, -0x1.62e430p-1f, x); /* x - n log(2) */
    r = td_fused(n, 0x1.05c610p-29f, r);
    float p = 0x1.6a4ed2p-9f; /* 2 e^r */
    p = td_fused(p, r, 0x1.12399cp-6f);
    p = td_fused(p, r, 0x1.5558b0p-4f);
    p = td_fused(p, r, 0x1.555492p-2f);
    p = td_fused(p, r, 0x1.fffffcp-1f);
    p = td_fused(p, r, 2);
    p = td_fused(p, r, 2);
    return td_scale_float(p, rounded, may_be_subnormal && x < -86);
}

/* Returns 2 * 2^r for |r| <= 1/2. */
INLINE float td_exp2_reduced(float r)
{
    float p = 0x1.417460p-12f;
    p = td_fused(p, r, 0x1.5f096ep-9f);
    p = td_fused(p, r, 0x1.3b2dd8p-6f);
    p = td_fused(p, r, 0x1.c6af7ap-4f);
    p = td_fused(p, r, 0x1.ebfbdcp-2f);
    p = td_fused(p, r, 0x1.62e430p-0f);
    return td_fused(p, r, 2);
}

/* Returns x with the sign of `sign`; x is not negative. */
INLINE float td_with_sign(float x, float sign)
{
    return td_float_of_bits(td_bits_of_float(x) | (td_bits_of_float(sign) & 0x80000000u));
}

/* ---- Functions of float ------------------------------------------------------------------ */

/* Returns e^x for x <= 0, or 0 if that is less than 2^-124, which softmax does not need. */
INLINE float td_exp_of_negative_float(float x)
{
    const float y = td_exp_in_range(x, false);
    return x < -86 ? 0 : y;
}

INLINE float td_exp_float(float x)
{
    float y = td_exp_in_range(x, true);
    y = x > 89 ? INFINITY : y;
    return x < -104 ? 0 : y;
}

/* Splits x > 0, which can be subnormal, into 2^e * (1 + f) with 1 + f in [lowest, 2 * lowest). Both
 * are exact. `lowest_bits` are the bits of lowest. */
INLINE float td_split_float(float x, uint32_t lowest_bits, float *f)
{
    const bool is_small = x < 0x1p-126f;
    uint32_t bits = td_bits_of_float(is_small ? x * 0x1p23f : x);
    bits = (is_small ? bits - (23u << 23) : bits) - lowest_bits;
    *f = td_float_of_bits((bits & 0x007fffff) + lowest_bits) - 1;
    return (float)((int32_t)bits >> 23);
}

INLINE float td_log_float(float x)
{
    float f;
    const float e = td_split_float(x, 0x3f2aaaab, &f); /* 2 / 3 */
    float p = -0x1.07c872p-3f;
    p = td_fused(p, f, 0x1.1e678cp-3f);
    p = td_fused(p, f, -0x1.f33300p-4f);
    p = td_fused(p, f, 0x1.1ed662p-3f);
    p = td_fused(p, f, -0x1.559c44p-3f);
    p = td_fused(p, f, 0x1.99d044p-3f);
    p = td_fused(p, f, -0x1.fffefcp-3f);
    p = td_fused(p, f, 0x1.555506p-2f);
    p = td_fused(p, f, -0.5f);
    float y = td_fused(e, 0x1.62e430p-1f, td_fused(p, f * f, f));
    y = x < INFINITY ? y : x;
    const float other = x == 0 ? -INFINITY : NAN;
    return x > 0 ? y : other;
}

INLINE float td_tanh_float(float x)
{
    const float a = fabsf(x);
    const float rounded = td_fused(a, 0x1.715476p+1f, TD_ROUNDER), n = rounded - TD_ROUNDER;
    float r = td_fused(n, -0x1.62e430p-2f, a); /* a - n log(2) / 2 */
    r = td_fused(n, 0x1.05c610p-30f, r);
    float p = 0x1.6b9ca4p-4f; /* e^(2 r) - 1 */
    p = td_fused(p, r, 0x1.122560p-2f);
    p = td_fused(p, r, 0x1.5556f2p-1f);
    p = td_fused(p, r, 0x1.5554b4p+0f);
    p = td_fused(p, r, 0x1.fffffep+0f);
    p = td_fused(p, r * r, r + r);
    const float power = td_float_of_bits(td_bits_of_float(rounded) << 23); /* 2^(n - 1) */
    const float h = td_fused(power, p, power - 0.5f);                      /* (e^(2 a) - 1) / 2 */
    float y = h / (h + 1);
    y = a < 0.35f ? td_fused(-h, y, h) : y; /* the same, with smaller rounding errors */
    y = a > 9.02f ? 1 : y;
    return td_with_sign(y, x);
}

INLINE float td_sigmoid_float(float x)
{
    const float a = fabsf(x);
    float e = td_exp_in_range(-a, true);
    e = a > 104 ? 0 : e;
    return (x < 0 ? e : 1) / (1 + e);
}

INLINE float td_erf_float(float x)
{
    const float a = fabsf(x), s = x * x;
    float p = -0x1.386bf4p-11f;
    p = td_fused(p, s, 0x1.46d846p-8f);
    p = td_fused(p, s, -0x1.b67bcep-6f);
    p = td_fused(p, s, 0x1.ce1984p-4f);
    p = td_fused(p, s, -0x1.8126e2p-2f);
    p = td_fused(p, s, 0x1.06eba6p-3f);
    const float near_zero = td_fused(p, x, x);
    const float t = 3.93f < a ? 3.93f : a; /* the result is 1 */
    float q = 0x1.43b5f0p-12f;             /* log2(1 - erf(t)) / t */
    q = td_fused(q, t, -0x1.2ff7eep-8f);
    q = td_fused(q, t, 0x1.0e86acp-5f);
    q = td_fused(q, t, -0x1.3702bcp-3f);
    q = td_fused(q, t, -0x1.d59462p-1f);
    q = td_fused(q, t, -0x1.a0cb4cp+0f) * t;
    const float rounded = q + TD_ROUNDER;
    const float e = td_scale_float(td_exp2_reduced(q - (rounded - TD_ROUNDER)), rounded, false);
    return a >= 0.93f ? td_with_sign(1 - e, x) : near_zero; /* also NaN */
}

INLINE float td_gelu_float(float x)
{
    return 0.5f * x * (1 + td_erf_float(x * 0x1.6a09e6p-1f));
}

/* 0.5 x (1 + tanh(u / 2)) = x / (1 + e^-u) with u = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
INLINE float td_gelu_tanh_float(float x)
{
    const float u = x * td_fused(x * x, 0x1.2444f2p-4f, 0x1.988454p+0f);
    const float e = td_exp_in_range(-u, false);
    float y = x / (1 + e);
    y = u > 86 ? x : y;
    return u < -86 ? x * 0.0f : y;
}

INLINE float td_rsqrt_float(float x)
{
    return 1 / sqrtf(x);
}

/* Returns log2(x) for x > 0 as a sum of two floats, with a relative error of at most 2^-33. With
 * s = f / (2 + f), log2(1 + f) = 2 / log(2) * (s + s^3 / 3 + s^5 / 5 + ...). The numbers *_low are
 * the rounding errors of the large terms. */
INLINE float td_log2_float(float x, float *low)
{
    float f;
    const float e = td_split_float(x, 0x3f3504f3, &f); /* sqrt(1/2) */
    const float d = f + 2, d_low = f - (d - 2), s = f / d;
    const float reciprocal = 0.5f - 0.5f * s; /* 1 / (2 + f) */
    const float s_low = td_fused(-s, d_low, td_fused(-s, d, f)) * reciprocal;
    const float s2 = s * s, s2_low = td_fused(s + s, s_low, td_fused(s, s, -s2));
    const float c0 = 0x1.7154760p+1f, c0_low = 0x1.4ae0c0p-25f, c1 = 0x1.ec709ep-1f;
    float p = 0x1.58b718p-2f;
    p = td_fused(p, s2, 0x1.a5ceacp-2f);
    p = td_fused(p, s2, 0x1.2776e2p-1f) * s2;
    const float q = c1 + p, q_low = (c1 - q) + p;
    const float r = q * s2;
    const float r_low = td_fused(q, s2_low, td_fused(q_low, s2, td_fused(q, s2, -r)));
    const float sum = c0 + r, sum_low = (c0 - sum) + r + (r_low + c0_low);
    const float y = s * sum;
    const float y_low = td_fused(s_low, sum, td_fused(s, sum_low, td_fused(s, sum, -y)));
    const float result = e + y; /* e is 0 or greater than y */
    *low = (e - result) + y + y_low;
    return result;
}

INLINE float td_power_float(float x, float y)
{
    const float a = fabsf(x), size_of_y = fabsf(y);
    float low, log2_a = td_log2_float(a, &low);
    log2_a = a < INFINITY ? log2_a : a; /* also NaN */
    log2_a = a == 0 ? -INFINITY : log2_a;
    /* A limit, because log2(1) times infinity is NaN. */
    const float limited_y = size_of_y > 0x1p64f ? td_with_sign(0x1p64f, y) : y;
    const float t = limited_y * log2_a;
    const float t_low = td_fused(limited_y, low, td_fused(limited_y, log2_a, -t));
    const float rounded = t + TD_ROUNDER;
    const float p = td_exp2_reduced((t - (rounded - TD_ROUNDER)) + t_low);
    float z = td_scale_float(p, rounded, t < -124);
    z = t > 129 ? INFINITY : z;
    z = t < -151 ? 0 : z;
    /* Floats of at least 2^24 are even integers, and are replaced by 2^24. The minimum of the bits
     * is the minimum of the numbers, which are not negative. */
    const uint32_t bits_of_y = td_bits_of_float(size_of_y), even = 0x4b800000;
    const float limited = td_float_of_bits(bits_of_y < even ? bits_of_y : even);
    const int32_t integer = (int32_t)limited;
    const bool is_integer = (float)integer == limited;
    const uint32_t sign = is_integer ? (uint32_t)integer << 31 & td_bits_of_float(x) : 0;
    z = td_float_of_bits(td_bits_of_float(z) | sign);
    const float of_negative = is_integer ? z : NAN;
    z = (x < 0) & (a < INFINITY) ? of_negative : z;
    z = x == 1 ? 1 : z;
    return y == 0 ? 1 : z;
}

/* ---- Functions of double ----------------------------------------------------------------- */

INLINE double td_exp_double(double x)
{
    return exp(x);
}

INLINE double td_exp_of_negative_double(double x)
{
    return exp(x);
}

INLINE double td_log_double(double x)
{
    return log(x);
}

INLINE double td_tanh_double(double x)
{
    return tanh(x);
}

INLINE double td_sigmoid_double(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

INLINE double td_erf_double(double x)
{
    return erf(x);
}

INLINE double td_gelu_double(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}

INLINE double td_gelu_tanh_double(double x)
{
    const double u = x * (0.07135481627260025 * (x * x) + 1.5957691216057308); /* 2 u */
    return x * td_sigmoid_double(u);
}

INLINE double td_power_double(double x, double y)
{
    return pow(x, y);
}

INLINE double td_rsqrt_double(double x)
{
    return 1 / sqrt(x);
}

#endif
