/* compute.cuh - the types in which einsum computes, and the conversion of elements to and from
 * these types. The types are the same as in kernels/convert/convert.h on the host.
 *
 * float16 and bfloat16 are converted to float32 on load and rounded on store. Integers are computed
 * modulo 2^32 or 2^64 and truncated on store. Short runs of a float32 sum are added in float32, and
 * the sums of runs are added in float64. */
#ifndef TD_GPU_CUDA_KERNELS_COMPUTE_CUH
#define TD_GPU_CUDA_KERNELS_COMPUTE_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

template <typename R> struct complex_of {
    R re, im;
};

template <typename R>
static __device__ __forceinline__ complex_of<R> operator+(complex_of<R> x, complex_of<R> y)
{
    return { x.re + y.re, x.im + y.im };
}

/* Returns a product that is rounded separately. nvcc can fuse x * y + z, but it never fuses these
 * intrinsics. */
static __device__ __forceinline__ float rounded_product(float x, float y)
{
    return __fmul_rn(x, y);
}

static __device__ __forceinline__ double rounded_product(double x, double y)
{
    return __dmul_rn(x, y);
}

/* Rounds each of the four products, as in C and in the CPU's loops without fused multiply-add. If
 * only one of two products were fused, x * y would differ from y * x, and the imaginary part of x
 * times its conjugate would be a rounding error instead of 0. */
template <typename R>
static __device__ __forceinline__ complex_of<R> operator*(complex_of<R> x, complex_of<R> y)
{
    return { rounded_product(x.re, y.re) - rounded_product(x.im, y.im),
             rounded_product(x.re, y.im) + rounded_product(x.im, y.re) };
}

/* `type` is the type of the computation, and `accumulator` the type in which the sums of runs are
 * added. `widen` and `narrow` convert between the two types. */
template <int compute> struct compute_traits;

template <typename T, typename W> struct scalar_traits {
    typedef T type;
    typedef W accumulator;
    static __device__ __forceinline__ W widen(T x)
    {
        return (W)x;
    }
    static __device__ __forceinline__ T narrow(W x)
    {
        return (T)x;
    }
};

template <> struct compute_traits<TD_CUDA_F32> : scalar_traits<float, double> {
};
template <> struct compute_traits<TD_CUDA_F64> : scalar_traits<double, double> {
};
template <> struct compute_traits<TD_CUDA_U32> : scalar_traits<uint32_t, uint32_t> {
};
template <> struct compute_traits<TD_CUDA_U64> : scalar_traits<uint64_t, uint64_t> {
};
template <>
struct compute_traits<TD_CUDA_C128> : scalar_traits<complex_of<double>, complex_of<double>> {
};
template <> struct compute_traits<TD_CUDA_C64> {
    typedef complex_of<float> type;
    typedef complex_of<double> accumulator;
    static __device__ __forceinline__ accumulator widen(type x)
    {
        return { (double)x.re, (double)x.im };
    }
    static __device__ __forceinline__ type narrow(accumulator x)
    {
        return { (float)x.re, (float)x.im };
    }
};

/* Access to an element in memory. All threads take the same branch on `storage` in load and store,
 * so no warp diverges. A loop with several loads in flight first loads elements as raw bits of type
 * RAW and converts them later, because a conversion waits for its load. Elements smaller than RAW
 * are zero-extended. */
template <typename T> struct element_access {
    typedef T RAW;
    static __device__ __forceinline__ T load(const void *from, int64_t i, enum td_cuda_storage)
    {
        return ((const T *)from)[i];
    }
    static __device__ __forceinline__ int bytes(enum td_cuda_storage)
    {
        return (int)sizeof(T);
    }
    template <int n>
    static __device__ __forceinline__ void convert(T (&to)[n], const RAW (&raw)[n],
                                                   enum td_cuda_storage)
    {
#pragma unroll
        for (int i = 0; i < n; i++)
            to[i] = raw[i];
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_storage, T value)
    {
        ((T *)to)[i] = value;
    }
};

/* Converts all n elements with one switch. */
#define CONVERT_ALL(expression)                                                                    \
    do {                                                                                           \
        _Pragma("unroll") for (int i = 0; i < n; i++)                                              \
        {                                                                                          \
            const RAW bits = raw[i];                                                               \
            to[i] = (expression);                                                                  \
        }                                                                                          \
    } while (0)

static __device__ __forceinline__ float half_of_bits(uint32_t bits)
{
    __half_raw half;
    half.x = (unsigned short)bits;
    return __half2float(__half(half));
}

static __device__ __forceinline__ float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

template <> struct element_access<float> {
    typedef uint32_t RAW;
    static __device__ __forceinline__ float load(const void *from, int64_t i,
                                                 enum td_cuda_storage storage)
    {
        switch (storage) {
        case TD_CUDA_F16:
            return __half2float(((const __half *)from)[i]);
        case TD_CUDA_BF16:
            return __bfloat162float(((const __nv_bfloat16 *)from)[i]);
        default:
            return ((const float *)from)[i];
        }
    }
    static __device__ __forceinline__ int bytes(enum td_cuda_storage storage)
    {
        return storage == TD_CUDA_AS_COMPUTED ? 4 : 2;
    }
    template <int n>
    static __device__ __forceinline__ void convert(float (&to)[n], const RAW (&raw)[n],
                                                   enum td_cuda_storage storage)
    {
        switch (storage) {
        case TD_CUDA_F16:
            CONVERT_ALL(half_of_bits(bits));
            break;
        case TD_CUDA_BF16:
            CONVERT_ALL(float_of_bits(bits << 16));
            break;
        default:
            CONVERT_ALL(float_of_bits(bits));
            break;
        }
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_storage storage,
                                                 float value)
    {
        switch (storage) {
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

template <> struct element_access<uint32_t> {
    typedef uint32_t RAW;
    static __device__ __forceinline__ uint32_t load(const void *from, int64_t i,
                                                    enum td_cuda_storage storage)
    {
        switch (storage) {
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
    static __device__ __forceinline__ int bytes(enum td_cuda_storage storage)
    {
        return storage == TD_CUDA_AS_COMPUTED                   ? 4
               : storage == TD_CUDA_I8 || storage == TD_CUDA_U8 ? 1
                                                                : 2;
    }
    template <int n>
    static __device__ __forceinline__ void convert(uint32_t (&to)[n], const RAW (&raw)[n],
                                                   enum td_cuda_storage storage)
    {
        switch (storage) {
        case TD_CUDA_I8:
            CONVERT_ALL((uint32_t)(int32_t)(int8_t)bits);
            break;
        case TD_CUDA_I16:
            CONVERT_ALL((uint32_t)(int32_t)(int16_t)bits);
            break;
        default:
            CONVERT_ALL(bits);
            break;
        }
    }
    static __device__ __forceinline__ void store(void *to, int64_t i, enum td_cuda_storage storage,
                                                 uint32_t value)
    {
        switch (storage) {
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
#undef CONVERT_ALL

/* Calls LAUNCH(compute) with `compute` as a compile-time constant. */
#define DISPATCH_COMPUTE(compute, LAUNCH)                                                          \
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

/* Calls LAUNCH for each compute type. */
#define EACH_COMPUTE(LAUNCH)                                                                       \
    LAUNCH(TD_CUDA_F32);                                                                           \
    LAUNCH(TD_CUDA_F64);                                                                           \
    LAUNCH(TD_CUDA_U32);                                                                           \
    LAUNCH(TD_CUDA_U64);                                                                           \
    LAUNCH(TD_CUDA_C64);                                                                           \
    LAUNCH(TD_CUDA_C128)

#endif
