/* contract.h - one contraction of an einsum on the device: what it becomes, and what it takes.
 *
 *     permute   elements moved (loops.h)
 *     sumprod   any nest (loops.h)
 *     gemm      products of matrices (matrices.h): cuBLAS, or product.cu
 *
 * Threads  As gpu/device.h. */
#ifndef TD_GPU_CUDA_CONTRACT_H
#define TD_GPU_CUDA_CONTRACT_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

/* Bytes, from shapes alone; SIZE_MAX where they are too many. The contraction is simplified. */
size_t td_cuda_contract_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_cuda_contract(struct td_device_stream *stream,
                                         const struct td_contraction *contraction, const void *a,
                                         const void *b, void *c, void *workspace,
                                         struct td_error *err);

#endif
