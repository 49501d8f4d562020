/* gemm_plan.h - plans a contraction of kind gemm as batched matrix products, from shapes and
 * dtypes.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * cuBLAS and kernels/gemm.cu require one stride for each dimension of a matrix, and cuBLAS requires
 * one of the two strides to be 1. Any other operand (several loops in a dimension, no stride of 1,
 * or a dtype that must be converted) is packed: A and B are copied to the workspace before the
 * product, and C is copied from the workspace after it.
 *
 * Batch loops that collapse to one stride in every operand become one strided batch. Otherwise, the
 * longest loop becomes the strided batch, and the product is called for every iteration of the
 * other loops. If this takes too many calls, the operands are packed, which makes the batch
 * collapse.
 *
 * Numbers  float16 and bfloat16 are multiplied without conversion and summed in float32. float32 is
 *          multiplied as float32 unless the device was opened with tf32. */
#ifndef TD_GPU_CUDA_OPS_GEMM_PLAN_H
#define TD_GPU_CUDA_OPS_GEMM_PLAN_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/gemm/product.h"

enum { TD_CUDA_BATCH, TD_CUDA_M, TD_CUDA_N, TD_CUDA_K, TD_CUDA_DIMENSIONS };

/* Must not be copied, because a plan points into itself. */
struct td_cuda_gemm_plan {
    struct td_gemm_product product;
    const struct td_gemm_dimension *dimension[TD_CUDA_DIMENSIONS]; /* dimensions of `product` */
    /* Dtypes of the operands as given, and dtypes in which they are multiplied. */
    td_dtype given[3], dtype[3];
    bool packed[3];
    int64_t numel[3];                      /* elements of packed operands */
    int64_t stride[3][TD_CUDA_DIMENSIONS]; /* strides of m, n and k */
    /* Batch loops. The last loop is the strided batch of a call, and the other loops are
     * iterated. */
    int n_loops;
    struct td_loop loops[TD_MAX_LOOPS];
};

/* Makes a plan. Returns false if the size in bytes of a packed operand overflows. */
bool td_cuda_gemm_plan_make(struct td_cuda_gemm_plan *plan,
                            const struct td_contraction *contraction);

/* True if this operand's matrix is stored with `inner` contiguous, and with a leading dimension of
 * at least the extent of `inner` for `outer`. */
bool td_cuda_gemm_is_contiguous(const struct td_cuda_gemm_plan *plan, int operand, int inner,
                                int outer);

/* Returns the aligned size in bytes of a packed operand in the workspace, or 0 if the operand is
 * not packed. */
size_t td_cuda_gemm_packed_bytes(const struct td_cuda_gemm_plan *plan, int operand);

/* Sets *copy to the copy, as a simplified contraction, that packs A or B or unpacks C. */
void td_cuda_gemm_pack(const struct td_cuda_gemm_plan *plan, int operand,
                       struct td_loop loops[TD_MAX_LOOPS], struct td_contraction *copy);

#endif
