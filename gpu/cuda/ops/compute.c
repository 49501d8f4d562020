#include "gpu/cuda/ops/compute.h"

#include "kernels/convert/convert.h"

enum td_cuda_compute td_cuda_compute_of(td_dtype dtype)
{
    static const enum td_cuda_compute computes[TD_COMPUTE_COUNT] = {
        [TD_COMPUTE_F32] = TD_CUDA_F32, [TD_COMPUTE_F64] = TD_CUDA_F64,
        [TD_COMPUTE_U32] = TD_CUDA_U32, [TD_COMPUTE_U64] = TD_CUDA_U64,
        [TD_COMPUTE_C64] = TD_CUDA_C64, [TD_COMPUTE_C128] = TD_CUDA_C128,
    };
    return computes[td_compute_of(dtype)];
}

enum td_cuda_storage td_cuda_storage_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return TD_CUDA_F16;
    case TD_DTYPE_BFLOAT16:
        return TD_CUDA_BF16;
    case TD_DTYPE_INT8:
        return TD_CUDA_I8;
    case TD_DTYPE_UINT8:
        return TD_CUDA_U8;
    case TD_DTYPE_INT16:
        return TD_CUDA_I16;
    case TD_DTYPE_UINT16:
        return TD_CUDA_U16;
    default:
        return TD_CUDA_AS_COMPUTED;
    }
}
