/* gemm_plan.h - a contraction of kind gemm as batched matrix products, decided from shapes and
 * dtypes.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * cuBLAS and kernels/gemm.cu want one stride for each dimension of a matrix, and cuBLAS wants one
 * of the two to be 1. An operand in any other layout (several loops in a dimension, no stride of 1,
 * a dtype that it must be converted from) is packed: copied into the workspace before the product,
 * or for C, from the workspace after it. Batch loops that collapse to one stride in every operand
 * are one strided batch; otherwise the longest loop is, and the product is called for every
 * iteration of the others. If that is too many calls, the operands are packed so that the batch
 * collapses.
 *
 * Numbers  float16 and bfloat16 are multiplied as they are and summed in float32. float32 is
 *          multiplied as float32 unless the device was opened with tf32. */
#ifndef TD_GPU_CUDA_OPS_GEMM_PLAN_H
#define TD_GPU_CUDA_OPS_GEMM_PLAN_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/gemm/product.h"

enum { TD_CUDA_BATCH, TD_CUDA_M, TD_CUDA_N, TD_CUDA_K, TD_CUDA_DIMENSIONS };

/* Not to be copied: it points into itself. */
struct td_cuda_gemm_plan {
    struct td_gemm_product product;
    const struct td_gemm_dimension *dimension[TD_CUDA_DIMENSIONS]; /* in product */
    td_dtype given[3], dtype[3]; /* of the operands; of the operands of the product */
    bool packed[3];
    int64_t numel[3];                      /* of packed operands */
    int64_t stride[3][TD_CUDA_DIMENSIONS]; /* of m, n and k */
    /* Batch loops: the last is the strided batch of a call, the others are iterated. */
    int n_loops;
    struct td_loop loops[TD_MAX_LOOPS];
};

/* False if the bytes of a packed operand overflow. */
bool td_cuda_gemm_plan_make(struct td_cuda_gemm_plan *plan,
                            const struct td_contraction *contraction);

/* Is the matrix of this operand stored with `inner` contiguous, and `outer` at a leading dimension
 * of at least the extent of `inner`? */
bool td_cuda_gemm_is_contiguous(const struct td_cuda_gemm_plan *plan, int operand, int inner,
                                int outer);

/* Aligned bytes of a packed operand in the workspace; 0 if it is not packed. */
size_t td_cuda_gemm_packed_bytes(const struct td_cuda_gemm_plan *plan, int operand);

/* The copy that packs A or B, or unpacks C, as a simplified contraction. */
void td_cuda_gemm_pack(const struct td_cuda_gemm_plan *plan, int operand,
                       struct td_loop loops[TD_MAX_LOOPS], struct td_contraction *copy);

#endif
