/* matrices.h - a nest of kind gemm as matrix products that cuBLAS, or product.cu, can do.
 *
 * Both want each of an operand's two dimensions to be one stride, and cuBLAS wants one of these to
 * be 1. An operand that is otherwise (several loops in a dimension, a stride in both, another dtype
 * than it can multiply) is copied into the workspace first, and the result out of it afterwards.
 * Loops of the batch that are one stride in every operand are one call; of several, the longest is
 * the batch of a call and the others are gone through, or, where these are many, everything is
 * copied so that one call is left.
 *
 * Numbers  float16 and bfloat16 are multiplied as they are and summed in float32. float32 is
 *          multiplied as float32 unless the device was opened with tf32. */
#ifndef TD_GPU_CUDA_MATRICES_H
#define TD_GPU_CUDA_MATRICES_H

#include "gpu/cuda/runtime/stream.h"
#include "kernels/einsum/contraction.h"

/* Bytes, from shapes alone; SIZE_MAX where they are too many. */
size_t td_cuda_matrices_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_cuda_matrices(struct td_device_stream *stream,
                                         const struct td_contraction *contraction, const void *a,
                                         const void *b, void *c, void *workspace,
                                         struct td_error *err);

#endif
