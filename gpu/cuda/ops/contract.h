/* contract.h - runs one contraction of an einsum plan on the device, according to its kind:
 *
 *     permute   permute.h
 *     sumprod   sumprod.h
 *     gemm      gemm.h: cuBLAS, or kernels/gemm.cu
 *
 * The contraction must be simplified. Sizes and kernels are chosen only from shapes and dtypes.
 *
 * Threads  See gpu/device.h. */
#ifndef TD_GPU_CUDA_OPS_CONTRACT_H
#define TD_GPU_CUDA_OPS_CONTRACT_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

/* Returns the size in bytes of the workspace, or SIZE_MAX on overflow. */
size_t td_cuda_contract_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_cuda_contract(struct td_device_stream *stream,
                                         const struct td_contraction *contraction, const void *a,
                                         const void *b, void *c, void *workspace,
                                         struct td_error *err);

#endif
