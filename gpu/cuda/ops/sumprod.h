/* sumprod.h - runs a contraction of kind sumprod: sums of products over any loop nest. */
#ifndef TD_GPU_CUDA_OPS_SUMPROD_H
#define TD_GPU_CUDA_OPS_SUMPROD_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

/* Returns the size in bytes of the workspace, which depends only on shapes and is 0 if nothing is
 * summed. Returns SIZE_MAX on overflow. */
size_t td_cuda_contract_sumprod_workspace(const struct td_contraction *contraction);
TD_MUST_CHECK td_status td_cuda_contract_sumprod(struct td_device_stream *stream,
                                                 const struct td_contraction *contraction,
                                                 const void *a, const void *b, void *c,
                                                 void *workspace, struct td_error *err);

#endif
