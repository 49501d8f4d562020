/* gemm_cublas.h - the products of a plan by cuBLAS. */
#ifndef TD_GPU_CUDA_OPS_GEMM_CUBLAS_H
#define TD_GPU_CUDA_OPS_GEMM_CUBLAS_H

#include "gpu/cuda/ops/gemm_plan.h"
#include "gpu/cuda/runtime/stream.h"

/* Submits the products; base: the operands, packed ones in the workspace. *done is false, with
 * TD_OK, if there is no cuBLAS or it refuses the product: then nothing of C is valid. */
TD_MUST_CHECK td_status td_cuda_gemm_cublas(struct td_device_stream *stream,
                                            const struct td_cuda_gemm_plan *plan,
                                            const char *const base[3], bool *done,
                                            struct td_error *err);

#endif
