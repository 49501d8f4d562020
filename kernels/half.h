/* half.h - float16 and bfloat16 as bit patterns: conversion to float, and rounding from double.
 *
 * Source     IEEE 754-2008, binary16; bfloat16 is the upper half of a binary32. */
#ifndef TD_KERNELS_HALF_H
#define TD_KERNELS_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A binary floating-point format narrower than double. */
struct td_narrow {
    int fraction_bits;
    int exponent_bits;
};

#define TD_NARROW_FLOAT16  ((struct td_narrow){ 10, 5 })
#define TD_NARROW_BFLOAT16 ((struct td_narrow){ 7, 8 })

static inline float td_bfloat16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline float td_float16_value(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 1023;
    float value;
    if (exponent == 0) { /* zero or subnormal, which is a multiple of 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t wide = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds a finite value, including subnormals, to nearest with ties to even. Values that are too
 * large become infinity. Sets *unsure if `value` is within `slack` units in its last place of the
 * midpoint between two representable neighbours. If `value` is an approximation with that error,
 * the exact value might then round to the other neighbour. If slack is 0, `value` can be
 * inexact. */
static inline uint16_t td_narrow_round(double value, struct td_narrow format, uint64_t slack,
                                       bool *unsure)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << 15;
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    int bias = (1 << (format.exponent_bits - 1)) - 1, smallest = 1 - bias;
    uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int drop = 52 - format.fraction_bits;
    *unsure = false;
    if (exponent < smallest)
        drop += smallest - exponent;
    if (drop > 60) /* the value is 0, or far below half of the smallest subnormal */
        return (uint16_t)sign;
    uint64_t kept = significand >> drop, half = UINT64_C(1) << (drop - 1),
             rest = significand & ((UINT64_C(1) << drop) - 1);
    *unsure = rest - half + slack <= 2 * slack;
    kept += rest > half || (rest == half && (kept & 1));
    /* The leading 1 bit of a normal number adds 1 to the exponent, as does a carry. */
    uint32_t base =
        exponent < smallest ? 0 : (uint32_t)(exponent - smallest) << format.fraction_bits;
    uint32_t infinity = ((UINT32_C(1) << format.exponent_bits) - 1) << format.fraction_bits;
    uint64_t rounded = base + kept;
    return (uint16_t)(sign | (rounded < infinity ? (uint32_t)rounded : infinity));
}

#endif
