/* scaling.cuh - the scales, offsets and zero points of int8 and uint8 rows. */
#ifndef TD_GPU_CUDA_KERNELS_SCALING_CUH
#define TD_GPU_CUDA_KERNELS_SCALING_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <string.h>

/* Loads a float from any address. */
static __device__ __forceinline__ float load_unaligned(const char *from)
{
    uint32_t bits = 0;
    float value;
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)(unsigned char)from[i] << 8 * i;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Converts an element of a row to a number: (element - zero) * scale + offset. */
template <typename A> struct scaling {
    A zero, scale, offset;
};

static __device__ __forceinline__ int64_t load_zero_point(const struct td_cuda_scaling &from,
                                                          int64_t row)
{
    const int64_t i = row * from.zero_point_step;
    if (from.zero_point == NULL)
        return 0;
    switch (from.zero_point_type) {
    case TD_CUDA_INT8:
        return ((const int8_t *)from.zero_point)[i];
    case TD_CUDA_UINT8:
        return ((const uint8_t *)from.zero_point)[i];
    case TD_CUDA_INT32:
        return ((const int32_t *)from.zero_point)[i];
    default:
        return ((const int64_t *)from.zero_point)[i];
    }
}

/* Loads the scaling of a row. `after` is the address after the columns of the row. */
template <typename A>
static __device__ __forceinline__ struct scaling<A> load_scaling(const struct td_cuda_scaling &from,
                                                                 int64_t row, const char *after) {
    struct scaling<A> s = {
        0, 1, 0
    };
    if (from.scale == NULL) {
        s.scale = load_unaligned(after);
        s.offset = load_unaligned(after + sizeof(float));
        return s;
    }
    s.scale = from.scale[row * from.scale_step];
    if (from.offset != NULL)
        s.offset = from.offset[row * from.offset_step];
    else
        s.zero = (A)load_zero_point(from, row);
    return s;
}

#endif
