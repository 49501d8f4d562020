/* compute.h - maps each dtype to the type in which the kernels of einsum compute, and to the type
 * in which they store elements. */
#ifndef TD_GPU_CUDA_OPS_COMPUTE_H
#define TD_GPU_CUDA_OPS_COMPUTE_H

#include "gpu/cuda/kernels/kernels.h"
#include "kernels/dtype.h"

enum td_cuda_compute td_cuda_compute_of(td_dtype dtype);
enum td_cuda_storage td_cuda_storage_of(td_dtype dtype);

#endif
