/* numbers.cuh - the types einsum computes in, and how elements become them: as convert.h of the
 * kernels on the host says it.
 *
 * float16 and bfloat16 are widened to float32 as they are read and rounded as they are stored;
 * integers compute modulo 2^32 or 2^64 and are cut to their width. A sum of float32 is kept in
 * float32 over a short run, and runs are added in float64. */
#ifndef TD_GPU_CUDA_NUMBERS_CUH
#define TD_GPU_CUDA_NUMBERS_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename R> struct complex_of {
    R re, im;
};

template <typename R>
static __device__ __forceinline__ complex_of<R> operator+(complex_of<R> x, complex_of<R> y)
{
    return { x.re + y.re, x.im + y.im };
}

template <typename R>
static __device__ __forceinline__ complex_of<R> operator*(complex_of<R> x, complex_of<R> y)
{
    return { x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re };
}

/* What it computes in (type), what runs are added up in (total), and the way between. */
template <int compute> struct numbers;

template <typename T, typename W> struct plain_numbers {
    typedef T type;
    typedef W total;
    static __device__ __forceinline__ W widen(T x)
    {
        return (W)x;
    }
    static __device__ __forceinline__ T narrow(W x)
    {
        return (T)x;
    }
};

template <> struct numbers<TD_CUDA_F32> : plain_numbers<float, double> {
};
template <> struct numbers<TD_CUDA_F64> : plain_numbers<double, double> {
};
template <> struct numbers<TD_CUDA_U32> : plain_numbers<uint32_t, uint32_t> {
};
template <> struct numbers<TD_CUDA_U64> : plain_numbers<uint64_t, uint64_t> {
};
template <> struct numbers<TD_CUDA_C128> : plain_numbers<complex_of<double>, complex_of<double>> {
};
template <> struct numbers<TD_CUDA_C64> {
    typedef complex_of<float> type;
    typedef complex_of<double> total;
    static __device__ __forceinline__ total widen(type x)
    {
        return { (double)x.re, (double)x.im };
    }
    static __device__ __forceinline__ type narrow(total x)
    {
        return { (float)x.re, (float)x.im };
    }
};

/* Reads and stores an element; which case it is, is the same for all threads. */
template <typename T> struct elements {
    static __device__ __forceinline__ T load(const void *from, int64_t i, enum td_cuda_stored)
    {
        return ((const T *)from)[i];
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_stored, T value)
    {
        ((T *)to)[i] = value;
    }
};

template <> struct elements<float> {
    static __device__ __forceinline__ float load(const void *from, int64_t i,
                                                 enum td_cuda_stored stored)
    {
        switch (stored) {
        case TD_CUDA_F16:
            return __half2float(((const __half *)from)[i]);
        case TD_CUDA_BF16:
            return __bfloat162float(((const __nv_bfloat16 *)from)[i]);
        default:
            return ((const float *)from)[i];
        }
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_stored stored,
                                                 float value)
    {
        switch (stored) {
        case TD_CUDA_F16:
            ((__half *)to)[i] = __float2half_rn(value);
            return;
        case TD_CUDA_BF16:
            ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn(value);
            return;
        default:
            ((float *)to)[i] = value;
            return;
        }
    }
};

template <> struct elements<uint32_t> {
    static __device__ __forceinline__ uint32_t load(const void *from, int64_t i,
                                                    enum td_cuda_stored stored)
    {
        switch (stored) {
        case TD_CUDA_I8:
            return (uint32_t)(int32_t)((const int8_t *)from)[i];
        case TD_CUDA_U8:
            return ((const uint8_t *)from)[i];
        case TD_CUDA_I16:
            return (uint32_t)(int32_t)((const int16_t *)from)[i];
        case TD_CUDA_U16:
            return ((const uint16_t *)from)[i];
        default:
            return ((const uint32_t *)from)[i];
        }
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_stored stored,
                                                 uint32_t value)
    {
        switch (stored) {
        case TD_CUDA_I8:
        case TD_CUDA_U8:
            ((uint8_t *)to)[i] = (uint8_t)value;
            return;
        case TD_CUDA_I16:
        case TD_CUDA_U16:
            ((uint16_t *)to)[i] = (uint16_t)value;
            return;
        default:
            ((uint32_t *)to)[i] = value;
            return;
        }
    }
};

/* Calls LAUNCH(compute) with the constant. */
#define BY_COMPUTE(compute, LAUNCH)                                                                \
    switch (compute) {                                                                             \
    case TD_CUDA_F32:                                                                              \
        LAUNCH(TD_CUDA_F32);                                                                       \
        break;                                                                                     \
    case TD_CUDA_F64:                                                                              \
        LAUNCH(TD_CUDA_F64);                                                                       \
        break;                                                                                     \
    case TD_CUDA_U32:                                                                              \
        LAUNCH(TD_CUDA_U32);                                                                       \
        break;                                                                                     \
    case TD_CUDA_U64:                                                                              \
        LAUNCH(TD_CUDA_U64);                                                                       \
        break;                                                                                     \
    case TD_CUDA_C64:                                                                              \
        LAUNCH(TD_CUDA_C64);                                                                       \
        break;                                                                                     \
    default:                                                                                       \
        LAUNCH(TD_CUDA_C128);                                                                      \
        break;                                                                                     \
    }

#endif
