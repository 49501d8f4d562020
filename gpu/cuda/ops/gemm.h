/* gemm.h - runs a contraction of kind gemm: packs operands as gemm_plan.h decides, and multiplies
 * with cuBLAS, or with kernels/gemm.cu if cuBLAS does not support the product. */
#ifndef TD_GPU_CUDA_OPS_GEMM_H
#define TD_GPU_CUDA_OPS_GEMM_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

/* Returns the size in bytes of the packed operands, or SIZE_MAX on overflow. */
size_t td_cuda_contract_gemm_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_cuda_contract_gemm(struct td_device_stream *stream,
                                              const struct td_contraction *contraction,
                                              const void *a, const void *b, void *c,
                                              void *workspace, struct td_error *err);

#endif
