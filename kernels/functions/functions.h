/* functions.h - elementary functions for loops over float and double.
 *
 * The float functions have no branches, tables or calls, so GCC vectorises a loop that applies one
 * of them to an array, for every instruction set (-O3 -fno-trapping-math). They compute in float,
 * except td_power_float, and round in the same places in every build, so the results have the same
 * bits. The double functions call the C library once per element; the last bit can differ between
 * machines, because the library selects its code by processor.
 *
 * Special values are those of the C library: NaN, infinities, signed zeros, overflow to infinity
 * and underflow to subnormal numbers. Power follows C99's pow. sigmoid and gelu have the limits
 * of their formulas; the gelu of -infinity is NaN.
 *
 * Errors     The largest error of a float function, in units in the last place of the correct
 *            result, over all 2^32 arguments (power: a sample):
 *                exp 0.9  log 0.9  tanh 1.6  sigmoid 2.2  erf 1.1  rsqrt 1.5  power 1.0
 *            gelu: rounding errors of its formula, 2^-24 of |x| each.
 * Cost       A few dozen instructions for a vector of floats with AVX2 or AVX-512. Without an
 *            instruction for fused multiply-add, it is emulated, which takes ten times as long.
 * Threads    Pure functions.
 * Source     W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980):
 *            reduction of arguments; the fit of polynomials: minimax, with coefficients rounded
 *            one by one. Boldo and Melquiond (fused.inc of embedding_bag): emulation. */
#ifndef TD_KERNELS_FUNCTIONS_FUNCTIONS_H
#define TD_KERNELS_FUNCTIONS_FUNCTIONS_H

#include "kernels/inline.h"

#include <math.h>
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
    /* The bits of this number are 1, and those of 0 are 0. If the error is NaN, as for infinite
     * sums, the comparison is false. */
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

/* Adding TD_ROUNDER to |x| < 2^22 rounds x to an integer, which the low bits of the sum contain. */
#define TD_ROUNDER 0x1.8p23f

/* Returns p * 2^n for n in [-160, 160], from the bits of TD_ROUNDER + n. Two factors, because 2^n
 * can be out of range although the product is not, and only one multiplication rounds. */
INLINE float td_scale_float(float p, uint32_t rounder_plus_n)
{
    const uint32_t half = rounder_plus_n >> 1; /* its low bits are those of n / 2 */
    const uint32_t one = 0x3f800000;           /* the bits of 1 */
    return p * td_float_of_bits((half << 23) + one) *
           td_float_of_bits(((rounder_plus_n - half) << 23) + one);
}

/* Returns e^r for |r| <= log(2) / 2. */
INLINE float td_exp_reduced(float r)
{
    float p = 0x1.6a4ed2p-10f;
    p = td_fused(p, r, 0x1.12399cp-7f);
    p = td_fused(p, r, 0x1.5558b0p-5f);
    p = td_fused(p, r, 0x1.555492p-3f);
    p = td_fused(p, r, 0x1.fffffcp-2f);
    p = td_fused(p, r, 1);
    return td_fused(p, r, 1);
}

/* Returns 2^r for |r| <= 1/2. */
INLINE float td_exp2_reduced(float r)
{
    float p = 0x1.417460p-13f;
    p = td_fused(p, r, 0x1.5f096ep-10f);
    p = td_fused(p, r, 0x1.3b2dd8p-7f);
    p = td_fused(p, r, 0x1.c6af7ap-5f);
    p = td_fused(p, r, 0x1.ebfbdcp-3f);
    p = td_fused(p, r, 0x1.62e430p-1f);
    return td_fused(p, r, 1);
}

/* Returns 2^x for |x| < 126. */
INLINE float td_exp2_small(float x)
{
    const float rounded = x + TD_ROUNDER;
    const float p = td_exp2_reduced(x - (rounded - TD_ROUNDER));
    return td_float_of_bits(td_bits_of_float(p) + (td_bits_of_float(rounded) << 23));
}

/* Returns x with the sign of `sign`; x is not negative. */
INLINE float td_with_sign(float x, float sign)
{
    return td_float_of_bits(td_bits_of_float(x) | (td_bits_of_float(sign) & 0x80000000u));
}

/* ---- Functions of float ------------------------------------------------------------------ */

INLINE float td_exp_float(float x)
{
    x = 89.0f < x ? 89.0f : x;     /* infinity */
    x = -105.0f > x ? -105.0f : x; /* 0 */
    const float rounded = td_fused(x, 0x1.715476p+0f, TD_ROUNDER), n = rounded - TD_ROUNDER;
    float r = td_fused(n, -0x1.62e430p-1f, x);
    r = td_fused(n, 0x1.05c610p-29f, r);
    return td_scale_float(td_exp_reduced(r), td_bits_of_float(rounded));
}

/* Splits x > 0, which can be subnormal, into 2^e * (1 + f) with f in [-1/3, 1/3]. Both are exact.
 */
INLINE float td_split_float(float x, float *f)
{
    const float is_small = x < 0x1p-126f ? 1.0f : 0.0f;
    const uint32_t two_thirds = 0x3f2aaaab;
    const uint32_t bits = td_bits_of_float(x < 0x1p-126f ? x * 0x1p23f : x) - two_thirds;
    *f = td_float_of_bits((bits & 0x007fffff) + two_thirds) - 1;
    return (float)((int32_t)bits >> 23) - 23 * is_small;
}

INLINE float td_log_float(float x)
{
    float f;
    const float e = td_split_float(x, &f);
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
    y = x < INFINITY ? y : x; /* also NaN */
    y = x < 0 ? NAN : y;
    return x == 0 ? -INFINITY : y;
}

INLINE float td_tanh_float(float x)
{
    const float a = fabsf(x), s = x * x;
    float p = -0x1.9921a2p-8f;
    p = td_fused(p, s, 0x1.58e518p-6f);
    p = td_fused(p, s, -0x1.b91e7ep-5f);
    p = td_fused(p, s, 0x1.110ceep-3f);
    p = td_fused(p, s, -0x1.55554ap-2f);
    const float near_zero = td_fused(p * s, x, x);
    const float limited = 10.0f < a ? 10.0f : a; /* the result is 1 */
    const float e = td_exp2_small(limited * 0x1.715476p+1f);
    const float far = td_with_sign(1 - 2 / (e + 1), x);
    return a >= 0.55f ? far : near_zero; /* also NaN */
}

INLINE float td_sigmoid_float(float x)
{
    const float e = td_exp_float(-fabsf(x));
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
    q = td_fused(q, t, -0x1.a0cb4cp+0f);
    const float far = td_with_sign(1 - td_exp2_small(q * t), x);
    return a >= 0.93f ? far : near_zero; /* also NaN */
}

INLINE float td_gelu_float(float x)
{
    return 0.5f * x * (1 + td_erf_float(x * 0x1.6a09e6p-1f));
}

/* 0.5 x (1 + tanh(u)) = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
INLINE float td_gelu_tanh_float(float x)
{
    const float u = x * td_fused(x * x, 0x1.2444f2p-4f, 0x1.988454p+0f); /* 2 u */
    return x * td_sigmoid_float(u);
}

INLINE float td_rsqrt_float(float x)
{
    return 1 / sqrtf(x);
}

/* Returns log2(x) for x > 0, to about 36 bits. */
INLINE double td_log2_of_float(float x)
{
    float f_float;
    const double e = (double)td_split_float(x, &f_float), f = (double)f_float;
    double p = -0x1.3460d503faaacp-3;
    p = p * f + 0x1.432be6a942302p-3;
    p = p * f - 0x1.c9a31d980db64p-4;
    p = p * f + 0x1.f9c31a9d2119fp-4;
    p = p * f - 0x1.28fd1d92f70e7p-3;
    p = p * f + 0x1.4986f7cb84090p-3;
    p = p * f - 0x1.71426f2fb9eaap-3;
    p = p * f + 0x1.a60ad5cb25997p-3;
    p = p * f - 0x1.ec710a340f981p-3;
    p = p * f + 0x1.2776e33d308bbp-2;
    p = p * f - 0x1.715475c3da862p-2;
    p = p * f + 0x1.ec709d8d69540p-2;
    p = p * f - 0x1.71547652ee42ap-1;
    p = p * f + 0x1.71547652bc26ap+0;
    return e + p * f;
}

INLINE float td_power_float(float x, float y)
{
    const float a = fabsf(x), size_of_y = fabsf(y);
    double log2_a = td_log2_of_float(a);
    log2_a = a < INFINITY ? log2_a : (double)a; /* also NaN */
    log2_a = a == 0 ? -(double)INFINITY : log2_a;
    float limited = 0x1p64f < y ? 0x1p64f : y; /* log(1) times infinity is 0 here */
    limited = -0x1p64f > limited ? -0x1p64f : limited;
    double t = log2_a * (double)limited;
    t = 160 < t ? 160 : t;
    t = -160 > t ? -160 : t;
    const float rounded = (float)t + TD_ROUNDER;
    const float p = td_exp2_reduced((float)(t - (double)(rounded - TD_ROUNDER)));
    const uint32_t magnitude = td_bits_of_float(td_scale_float(p, td_bits_of_float(rounded)));
    /* Numbers of at least 2^24 are even, and so count as 2^24. The minimum is that of the bits,
     * because GCC turns a minimum of floats into branches here and does not vectorise the loop. */
    const uint32_t y_bits = td_bits_of_float(size_of_y), limit_bits = 0x4b800000;
    const float below = td_float_of_bits(y_bits < limit_bits ? y_bits : limit_bits);
    const uint32_t integer = (uint32_t)(int32_t)below;
    /* The result is NaN for a negative x, other than -infinity, and a y that is not an integer. The
     * selection is bitwise, because GCC does not vectorise the loop if it is a condition. */
    const uint32_t is_negative = (x < 0) & (a < INFINITY) ? 0x7fc00000 : 0;
    const uint32_t has_fraction = (float)(int32_t)integer == below ? 0 : 0x7fc00000;
    const uint32_t sign = integer << 31 & td_bits_of_float(x);
    float z = td_float_of_bits(magnitude | sign | (is_negative & has_fraction));
    z = x == 1 ? 1 : z;
    return y == 0 ? 1 : z;
}

/* ---- Functions of double ----------------------------------------------------------------- */

INLINE double td_exp_double(double x)
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
