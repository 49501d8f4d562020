/* product.h - describes a loop nest as a batch of matrix products.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * Each of z (batch), m, n and k stands for all loops that have a stride in the same operands. If
 * vectors along m are more efficient, M and N are swapped, as are A and B.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_GEMM_PRODUCT_H
#define TD_KERNELS_EINSUM_GEMM_PRODUCT_H

#include "kernels/einsum/gemm/kernels.h"
#include "kernels/einsum/nest/nest.h"
#include "kernels/integers.h"

#include <stdbool.h>
#include <stdint.h>

/* A dimension of the product, which consists of one or more loops. */
struct td_gemm_dimension {
    int rank;
    int64_t size;
    int64_t extent[TD_MAX_LOOPS];
    int64_t stride[3][TD_MAX_LOOPS]; /* indexed by TD_A, TD_B, TD_C */
    bool affine[3];                  /* all offsets are multiples of `step` */
    int64_t step[3];
};

struct td_gemm_product {
    struct td_gemm_dimension batch, m, n, k;
    /* The operands of the nest that serve as A, B and C of the product. A and B can be swapped. */
    int operand[3];
    td_dtype dtype[3];
    bool native[3];     /* stored in the compute type */
    int64_t size[3];    /* bytes per element */
    td_gemm_real real;  /* the real type in which the kernels compute */
    int64_t components; /* reals per element: 2 for complex numbers */
    int64_t real_size;
    /* Number of elements along k that are packed into one: 2 for TD_GEMM_BF16, otherwise 1. */
    int64_t kr;
    /* Estimated time of one product of the batch on one thread. */
    double product_ns;
};

/* Fills the rank, size, extents and strides of the four dimensions. Returns false if the nest is
 * not a matrix product. */
bool td_gemm_product_split(struct td_gemm_product *p, const struct td_contraction *contraction);

/* Describes the nest, which must satisfy td_gemm_suits. */
void td_gemm_product_make(struct td_gemm_product *p, const struct td_contraction *contraction);

/* Makes the product multiply bfloat16 without widening. Call this after making the blocking,
 * because the blocking and the workspace are for float32. */
void td_gemm_product_use_bf16(struct td_gemm_product *p);

/* Returns the number of rows of a packed panel that has k rows before packing. */
static inline int64_t td_gemm_packed_rows(const struct td_gemm_product *p, int64_t k)
{
    return td_ceil_div(k, p->kr);
}

/* Sets offsets[i] to the operand's offset at index begin + i of the dimension, for i < n. */
void td_gemm_fill_offsets(const struct td_gemm_dimension *dimension, int operand, int64_t begin,
                          int64_t n, int64_t *offsets);

/* Iterates over the products of the batch. */
struct td_gemm_batch_iter {
    const struct td_gemm_dimension *batch;
    int64_t index[TD_MAX_LOOPS], offset[3];
};

static inline void td_gemm_batch_iter_init(struct td_gemm_batch_iter *iter,
                                           const struct td_gemm_dimension *batch, int64_t i)
{
    iter->batch = batch;
    for (int operand = TD_A; operand <= TD_C; operand++)
        iter->offset[operand] = 0;
    for (int l = batch->rank - 1; l >= 0; l--) {
        iter->index[l] = i % batch->extent[l];
        i /= batch->extent[l];
        for (int operand = TD_A; operand <= TD_C; operand++)
            iter->offset[operand] += iter->index[l] * batch->stride[operand][l];
    }
}

static inline void td_gemm_batch_iter_next(struct td_gemm_batch_iter *iter)
{
    const struct td_gemm_dimension *batch = iter->batch;
    for (int l = batch->rank - 1; l >= 0; l--) {
        const bool wraps = ++iter->index[l] == batch->extent[l];
        const int64_t back = wraps ? batch->extent[l] : 0;
        for (int operand = TD_A; operand <= TD_C; operand++)
            iter->offset[operand] += (1 - back) * batch->stride[operand][l];
        if (!wraps)
            return;
        iter->index[l] = 0;
    }
}

#endif
