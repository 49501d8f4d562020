/* product.h - a loop nest seen as a batch of matrix products.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * Each of z (batch), m, n and k stands for the loops with a stride in the same operands. M and N,
 * and with them A and B, are swapped where vectors along m are more efficient.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_GEMM_PRODUCT_H
#define TD_KERNELS_EINSUM_GEMM_PRODUCT_H

#include "kernels/einsum/gemm/kernels.h"
#include "kernels/einsum/nest/nest.h"
#include "kernels/integers.h"

#include <stdbool.h>
#include <stdint.h>

/* One dimension of the product: the loops that it consists of. */
struct td_gemm_dimension {
    int rank;
    int64_t size;
    int64_t extent[TD_MAX_LOOPS];
    int64_t stride[3][TD_MAX_LOOPS]; /* by TD_A, TD_B, TD_C */
    bool affine[3];                  /* all offsets are multiples of `step` */
    int64_t step[3];
};

struct td_gemm_product {
    struct td_gemm_dimension batch, m, n, k;
    int operand[3]; /* the nest's operand that is A, and B: they may be swapped */
    td_dtype dtype[3];
    bool native[3];     /* stored in the compute type */
    int64_t size[3];    /* bytes of an element */
    td_gemm_real real;  /* the real type that the kernels compute in */
    int64_t components; /* reals of an element: 2 for complex numbers */
    int64_t real_size;
    int64_t kr;        /* elements along k that are packed into one: 2 for TD_GEMM_BF16 */
    double product_ns; /* estimated time of one product of the batch on one thread */
};

/* Fills the four dimensions: rank, size, extents and strides of each. Returns false when the nest
 * is not a matrix product. */
bool td_gemm_product_split(struct td_gemm_product *p, const struct td_contraction *contraction);

/* The nest must satisfy td_gemm_suits. */
void td_gemm_product_make(struct td_gemm_product *p, const struct td_contraction *contraction);

/* Multiplies bfloat16 without widening. Called after the blocking is made: blocking and workspace
 * are those of float32. */
void td_gemm_product_use_bf16(struct td_gemm_product *p);

/* Rows of a packed panel of k rows. */
static inline int64_t td_gemm_packed_rows(const struct td_gemm_product *p, int64_t k)
{
    return td_ceil_div(k, p->kr);
}

/* offsets[i] = the operand's offset at index begin + i of the dimension, for i < n. */
void td_gemm_fill_offsets(const struct td_gemm_dimension *dimension, int operand, int64_t begin,
                          int64_t n, int64_t *offsets);

/* Iterates over the batch. */
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
