/* loops.h - one contraction of kind permute or sumprod as loops that nest.cu goes through: elements
 * moved, as a transposition of tiles where it is one, or sums of products over any nest. */
#ifndef TD_GPU_CUDA_LOOPS_H
#define TD_GPU_CUDA_LOOPS_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

enum td_cuda_compute td_cuda_compute_of(td_dtype dtype);
enum td_cuda_stored td_cuda_stored_of(td_dtype dtype);

/* Bytes, from shapes alone; SIZE_MAX where they are too many. */
size_t td_cuda_loops_workspace(const struct td_contraction *contraction);
TD_MUST_CHECK td_status td_cuda_loops(struct td_device_stream *stream,
                                      const struct td_contraction *contraction, const void *a,
                                      const void *b, void *c, void *workspace,
                                      struct td_error *err);

#endif
