/* gemm_cublas.h - computes the products of a plan with cuBLAS. */
#ifndef TD_GPU_CUDA_OPS_GEMM_CUBLAS_H
#define TD_GPU_CUDA_OPS_GEMM_CUBLAS_H

#include "gpu/cuda/ops/gemm_plan.h"
#include "gpu/cuda/runtime/stream.h"

/* Submits the products. `base` points to the operands, of which packed operands are in the
 * workspace. If cuBLAS is missing or refuses the product, sets *done to false, leaves C undefined
 * and returns TD_OK. */
TD_MUST_CHECK td_status td_cuda_gemm_cublas(struct td_device_stream *stream,
                                            const struct td_cuda_gemm_plan *plan,
                                            const char *const base[3], bool *done,
                                            struct td_error *err);

#endif
