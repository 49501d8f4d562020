/* permute.h - runs a contraction of kind permute: copies elements between two layouts, tile by tile
 * if the copy is a transposition. Needs no workspace. */
#ifndef TD_GPU_CUDA_OPS_PERMUTE_H
#define TD_GPU_CUDA_OPS_PERMUTE_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

TD_MUST_CHECK td_status td_cuda_contract_permute(struct td_device_stream *stream,
                                                 const struct td_contraction *contraction,
                                                 const void *a, void *c, struct td_error *err);

#endif
