/* elements.cuh - handles elements as bits: reads elements as the type in which they are computed,
 * rounds results to an element type, and converts element types as kernels/convert/ does.
 *
 * float16 and bfloat16 are computed as float, signed integers as int64_t, and unsigned integers and
 * bool as uint64_t. */
#ifndef TD_GPU_CUDA_KERNELS_ELEMENTS_CUH
#define TD_GPU_CUDA_KERNELS_ELEMENTS_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

template <typename T> static __device__ __forceinline__ T of_bits(uint64_t bits)
{
    T value;
    memcpy((void *)&value, &bits, sizeof(value));
    return value;
}

template <typename T> static __device__ __forceinline__ uint64_t bits_of(T value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(value));
    return bits;
}

static __device__ __forceinline__ bool is_signed(int element)
{
    return element >= TD_CUDA_ELEMENT_INT8 && element <= TD_CUDA_ELEMENT_INT64;
}

static __device__ __forceinline__ bool is_float(int element)
{
    return element >= TD_CUDA_ELEMENT_FLOAT16;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint64_t load_bits(const void *from, int64_t i, int bytes)
{
    switch (bytes) {
    case 1:
        return __ldg((const unsigned char *)from + i);
    case 2:
        return __ldg((const unsigned short *)from + i);
    case 4:
        return __ldg((const unsigned int *)from + i);
    default:
        return __ldg((const unsigned long long *)from + i);
    }
}

static __device__ __forceinline__ void store_bits(void *to, int64_t i, int bytes, uint64_t bits)
{
    switch (bytes) {
    case 1:
        ((unsigned char *)to)[i] = (unsigned char)bits;
        return;
    case 2:
        ((unsigned short *)to)[i] = (unsigned short)bits;
        return;
    case 4:
        ((unsigned int *)to)[i] = (unsigned int)bits;
        return;
    default:
        ((unsigned long long *)to)[i] = bits;
        return;
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Returns the number with these bits, as the type in which the element type is computed. */
template <typename A> static __device__ __forceinline__ A read_bits(uint64_t bits, int element);

template <> __device__ __forceinline__ float read_bits<float>(uint64_t bits, int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_FLOAT16:
        return __half2float(of_bits<__half>(bits));
    case TD_CUDA_ELEMENT_BFLOAT16:
        return __bfloat162float(of_bits<__nv_bfloat16>(bits));
    default:
        return of_bits<float>(bits);
    }
}

template <> __device__ __forceinline__ double read_bits<double>(uint64_t bits, int)
{
    return of_bits<double>(bits);
}

template <> __device__ __forceinline__ int64_t read_bits<int64_t>(uint64_t bits, int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_INT8:
        return (int8_t)bits;
    case TD_CUDA_ELEMENT_INT16:
        return (int16_t)bits;
    case TD_CUDA_ELEMENT_INT32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

/* A bool is true if its byte is not 0. */
template <> __device__ __forceinline__ uint64_t read_bits<uint64_t>(uint64_t bits, int element)
{
    return element == TD_CUDA_ELEMENT_BOOL ? bits != 0 : bits;
}

/* ---- Rounding -------------------------------------------------------------------------------- */

/* Returns the bits of a result, rounded to an element type that is computed as A. Bits above the
 * width of an integer are not stored, and are cleared because later steps read them. */
static __device__ __forceinline__ uint64_t round_result(float value, int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_FLOAT16:
        return bits_of(__float2half_rn(value));
    case TD_CUDA_ELEMENT_BFLOAT16:
        return bits_of(__float2bfloat16_rn(value));
    default:
        return bits_of(value);
    }
}

static __device__ __forceinline__ uint64_t round_result(double value, int)
{
    return bits_of(value);
}

static __device__ __forceinline__ uint64_t round_result(uint64_t value, int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_INT8:
    case TD_CUDA_ELEMENT_UINT8:
        return (uint8_t)value;
    case TD_CUDA_ELEMENT_INT16:
    case TD_CUDA_ELEMENT_UINT16:
        return (uint16_t)value;
    case TD_CUDA_ELEMENT_INT32:
    case TD_CUDA_ELEMENT_UINT32:
        return (uint32_t)value;
    default:
        return value;
    }
}

static __device__ __forceinline__ uint64_t round_result(int64_t value, int element)
{
    return round_result((uint64_t)value, element);
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Returns a float of any type as a double, which holds it exactly. */
static __device__ __forceinline__ double read_float(uint64_t bits, int element)
{
    return element == TD_CUDA_ELEMENT_FLOAT64 ? of_bits<double>(bits)
                                              : (double)read_bits<float>(bits, element);
}

#define SIGN_BIT ((uint64_t)1 << 63)

/* Returns an integer that sorts as the double does, with -0 below 0. The double must not be NaN. */
static __device__ __forceinline__ uint64_t order_of_double(double value)
{
    const uint64_t bits = bits_of(value);
    return bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
}

static __device__ __forceinline__ double double_of_order(uint64_t order)
{
    return of_bits<double>(order & SIGN_BIT ? order ^ SIGN_BIT : ~order);
}

/* Returns an integer that sorts as the element does. NaN is the largest. 0 and -0 are equal if
 * zeros_are_equal. */
static __device__ __forceinline__ uint64_t order_of_element(uint64_t bits, int element,
                                                            bool zeros_are_equal)
{
    if (!is_float(element))
        return is_signed(element) ? (uint64_t)read_bits<int64_t>(bits, element) ^ SIGN_BIT
                                  : read_bits<uint64_t>(bits, element);
    const double value = read_float(bits, element);
    if (value != value)
        return ~(uint64_t)0;
    return order_of_double(zeros_are_equal ? value + 0.0 : value); /* because -0 + 0 is 0 */
}

/* ---- Conversion ------------------------------------------------------------------------------ */

static __device__ __forceinline__ int width_of(int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_INT8:
    case TD_CUDA_ELEMENT_UINT8:
        return 8;
    case TD_CUDA_ELEMENT_INT16:
    case TD_CUDA_ELEMENT_UINT16:
        return 16;
    case TD_CUDA_ELEMENT_INT32:
    case TD_CUDA_ELEMENT_UINT32:
        return 32;
    default:
        return 64;
    }
}

/* Returns 2^n as a double. */
static __device__ __forceinline__ double power_of_2(int n)
{
    return of_bits<double>((uint64_t)(1023 + n) << 52);
}

/* Returns the integer part, limited to the range of the integer type; 0 for NaN. */
static __device__ __forceinline__ uint64_t saturate(double value, int element)
{
    const int digits = width_of(element) - is_signed(element);
    const uint64_t greatest = ~(uint64_t)0 >> (64 - digits);
    const double end = power_of_2(digits), least = is_signed(element) ? -end : 0;
    if (value != value)
        return 0;
    if (value >= end)
        return greatest;
    if (value <= least)
        return round_result(is_signed(element) ? ~greatest : (uint64_t)0, element);
    return value < 0 ? round_result((uint64_t)(int64_t)value, element) : (uint64_t)value;
}

/* Rounds a double to a float type. */
static __device__ __forceinline__ uint64_t round_double(double value, int element)
{
    switch (element) {
    case TD_CUDA_ELEMENT_FLOAT16:
        return bits_of(__double2half(value));
    case TD_CUDA_ELEMENT_BFLOAT16:
        return bits_of(__double2bfloat16(value));
    case TD_CUDA_ELEMENT_FLOAT32:
        return bits_of((float)value);
    default:
        return bits_of(value);
    }
}

static __device__ __forceinline__ uint64_t convert_float(double value, int element)
{
    if (element >= TD_CUDA_ELEMENT_FLOAT16)
        return round_double(value, element);
    return element == TD_CUDA_ELEMENT_BOOL ? value != 0 : saturate(value, element);
}

/* Returns an integer as a double. A double cannot represent every integer of 2^53 or more. Rounds
 * such integers to odd, so that a second rounding gives the same result as a single rounding
 * (kernels/convert/round_to_odd.h). */
static __device__ __forceinline__ double odd_of_magnitude(uint64_t value)
{
    const uint64_t lost = value & 0x7ff;
    const uint64_t odd = (value - lost) | (uint64_t)(lost != 0) << 11;
    return (double)(value >> 53 ? odd : value);
}

static __device__ __forceinline__ uint64_t convert_integer(uint64_t magnitude, bool negative,
                                                           int element)
{
    const uint64_t value = negative ? 0 - magnitude : magnitude;
    if (element == TD_CUDA_ELEMENT_BOOL)
        return value != 0;
    if (element < TD_CUDA_ELEMENT_FLOAT16)
        return round_result(value, element);
    const double odd =
        element == TD_CUDA_ELEMENT_FLOAT64 ? (double)magnitude : odd_of_magnitude(magnitude);
    return round_double(negative ? -odd : odd, element);
}

static __device__ __forceinline__ uint64_t convert(float value, int element)
{
    return convert_float(value, element);
}

static __device__ __forceinline__ uint64_t convert(double value, int element)
{
    return convert_float(value, element);
}

static __device__ __forceinline__ uint64_t convert(uint64_t value, int element)
{
    return convert_integer(value, false, element);
}

static __device__ __forceinline__ uint64_t convert(int64_t value, int element)
{
    return convert_integer(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0, element);
}

#endif
