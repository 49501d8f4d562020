/* contract.h - one contraction of an einsum on the device: what it becomes, and what it takes.
 *
 *     permute   elements moved: nest.cu, as a transposition of tiles where it is one
 *     sumprod   any nest: nest.cu
 *     gemm      products of matrices (matrices.h): cuBLAS, or product.cu
 *
 * Threads  As gpu/device.h. */
#ifndef TD_GPU_CUDA_CONTRACT_H
#define TD_GPU_CUDA_CONTRACT_H

#include "gpu/cuda/cuda_device.h"
#include "kernels/einsum/contraction.h"

enum td_cuda_compute td_cuda_compute_of(td_dtype dtype);
enum td_cuda_stored td_cuda_stored_of(td_dtype dtype);

/* Bytes, from shapes alone; SIZE_MAX where they are too many. The contraction is simplified. */
size_t td_cuda_contract_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_cuda_contract(struct td_device_stream *stream,
                                         const struct td_contraction *contraction, const void *a,
                                         const void *b, void *c, void *workspace,
                                         struct td_error *err);

/* The same of kind permute or sumprod. */
size_t td_cuda_loops_workspace(const struct td_contraction *contraction);
TD_MUST_CHECK td_status td_cuda_loops(struct td_device_stream *stream,
                                      const struct td_contraction *contraction, const void *a,
                                      const void *b, void *c, void *workspace,
                                      struct td_error *err);

#endif
