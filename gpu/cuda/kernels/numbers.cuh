/* numbers.cuh - real numbers of several types, which are loaded as float or double and rounded when
 * stored, and vectors of such numbers. */
#ifndef TD_GPU_CUDA_KERNELS_NUMBERS_CUH
#define TD_GPU_CUDA_KERNELS_NUMBERS_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

template <typename A> static __device__ __forceinline__ A widen(float x)
{
    return (A)x;
}
template <typename A> static __device__ __forceinline__ A widen(double x)
{
    return (A)x;
}
template <typename A> static __device__ __forceinline__ A widen(int8_t x)
{
    return (A)x;
}
template <typename A> static __device__ __forceinline__ A widen(uint8_t x)
{
    return (A)x;
}
template <typename A> static __device__ __forceinline__ A widen(__half x)
{
    return (A)__half2float(x);
}
template <typename A> static __device__ __forceinline__ A widen(__nv_bfloat16 x)
{
    return (A)__bfloat162float(x);
}

/* Converts a number with a single rounding. */
template <typename T, typename A> struct narrowing {
    static __device__ __forceinline__ T of(A x)
    {
        return (T)x;
    }
};
template <> struct narrowing<__half, float> {
    static __device__ __forceinline__ __half of(float x)
    {
        return __float2half_rn(x);
    }
};
template <> struct narrowing<__half, double> {
    static __device__ __forceinline__ __half of(double x)
    {
        return __double2half(x);
    }
};
template <> struct narrowing<__nv_bfloat16, float> {
    static __device__ __forceinline__ __nv_bfloat16 of(float x)
    {
        return __float2bfloat16_rn(x);
    }
};
template <> struct narrowing<__nv_bfloat16, double> {
    static __device__ __forceinline__ __nv_bfloat16 of(double x)
    {
        return __double2bfloat16(x);
    }
};

/* The vector type with this size in bytes. */
template <int bytes> struct vector_of;
template <> struct vector_of<16> {
    typedef uint4 type;
};
template <> struct vector_of<8> {
    typedef uint2 type;
};
template <> struct vector_of<4> {
    typedef unsigned int type;
};
template <> struct vector_of<2> {
    typedef unsigned short type;
};
template <> struct vector_of<1> {
    typedef unsigned char type;
};

/* Rounds and stores n elements. `to` must be aligned to the total size of the n elements, or to 16
 * bytes if the total is larger. */
template <typename T, typename A, int n>
static __device__ __forceinline__ void store_rounded(void *to, const A (&values)[n])
{
    constexpr int bytes = n * (int)sizeof(T) < 16 ? n * (int)sizeof(T) : 16;
    typedef typename vector_of<bytes>::type vector;
    constexpr int per_vector = bytes / (int)sizeof(T);
#pragma unroll
    for (int i = 0; i < n / per_vector; i++) {
        T rounded[per_vector];
        vector v;
#pragma unroll
        for (int k = 0; k < per_vector; k++)
            rounded[k] = narrowing<T, A>::of(values[i * per_vector + k]);
        memcpy(&v, rounded, sizeof(v));
        ((vector *)to)[i] = v;
    }
}

/* Loads an element. All threads take the same branch on the type, so no warp diverges. */
template <typename A>
static __device__ __forceinline__ A load_number(const void *from, int64_t i,
                                                enum td_cuda_number type)
{
    switch (type) {
    case TD_CUDA_FLOAT16:
        return widen<A>(((const __half *)from)[i]);
    case TD_CUDA_BFLOAT16:
        return widen<A>(((const __nv_bfloat16 *)from)[i]);
    case TD_CUDA_FLOAT64:
        return widen<A>(((const double *)from)[i]);
    case TD_CUDA_INT8:
        return widen<A>(((const int8_t *)from)[i]);
    case TD_CUDA_UINT8:
        return widen<A>(((const uint8_t *)from)[i]);
    default:
        return widen<A>(((const float *)from)[i]);
    }
}

/* Stores n elements of a floating-point type, starting at element i, like store_rounded. */
template <typename A, int n>
static __device__ __forceinline__ void store_numbers(void *to, int64_t i, enum td_cuda_number type,
                                                     const A (&values)[n])
{
    switch (type) {
    case TD_CUDA_FLOAT16:
        store_rounded<__half>((__half *)to + i, values);
        return;
    case TD_CUDA_BFLOAT16:
        store_rounded<__nv_bfloat16>((__nv_bfloat16 *)to + i, values);
        return;
    case TD_CUDA_FLOAT64:
        store_rounded<double>((double *)to + i, values);
        return;
    default:
        store_rounded<float>((float *)to + i, values);
        return;
    }
}

#endif
