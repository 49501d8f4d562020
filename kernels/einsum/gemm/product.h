/* gemm_product.h - a nest of loops read as a batch of matrix products.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * where each of z (batch), m, n and k stands for the loops that move the operands it is in. M and N
 * change places where vectors lie better along m.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_EINSUM_GEMM_PRODUCT_H
#define TD_KERNELS_EINSUM_GEMM_PRODUCT_H

#include "kernels/einsum/gemm/gemm_isa.h"
#include "kernels/einsum/nest/nest.h"
#include "kernels/integers.h"

#include <stdbool.h>
#include <stdint.h>

/* One dimension of the product: the loops that make it up. */
struct td_gemm_dimension {
    int rank;
    int64_t size;
    int64_t extent[TD_MAX_LOOPS];
    int64_t stride[3][TD_MAX_LOOPS]; /* by TD_A, TD_B, TD_C */
    bool affine[3];                  /* are offsets all multiples of one step? */
    int64_t step[3];
};

struct td_gemm_product {
    struct td_gemm_dimension batch, m, n, k;
    int operand[3]; /* which of the nest's operands is A, is B: M and N may change places */
    td_dtype dtype[3];
    bool native[3];    /* stored as it is computed in */
    int64_t size[3];   /* bytes of an element */
    td_gemm_real real; /* what it is computed in, */
    int64_t parts;     /* in reals for each number: 2 for complex ones */
    int64_t real_size;
    int64_t depth;  /* numbers along k in one of a packed panel: 2 for TD_GEMM_BF16 */
    double item_ns; /* estimate of one of the batch on one thread */
};

/* Fills the four dimensions, of which each has rank, size, extents and strides then. False when the
 * nest is no product of matrices. */
bool td_gemm_product_split(struct td_gemm_product *p, const struct td_contraction *contraction);

/* Of a nest that td_gemm_suits. */
void td_gemm_product_make(struct td_gemm_product *p, const struct td_contraction *contraction);

/* Products of bfloat16 as bfloat16: called when the blocks are made, which are those of float32,
 * and so is the workspace. */
void td_gemm_product_use_pairs(struct td_gemm_product *p);

/* Rows of a panel of k rows, packed. */
static inline int64_t td_gemm_packed_rows(const struct td_gemm_product *p, int64_t k)
{
    return td_ceil_div(k, p->depth);
}

/* Offsets of positions [begin, begin + n). */
void td_gemm_offsets(const struct td_gemm_dimension *dimension, int operand, int64_t begin,
                     int64_t n, int64_t *offsets);

/* A walk along the batch. */
struct td_gemm_walk {
    const struct td_gemm_dimension *batch;
    int64_t position[TD_MAX_LOOPS], offset[3];
};

static inline void td_gemm_walk_begin(struct td_gemm_walk *walk,
                                      const struct td_gemm_dimension *batch, int64_t i)
{
    walk->batch = batch;
    for (int operand = TD_A; operand <= TD_C; operand++)
        walk->offset[operand] = 0;
    for (int l = batch->rank - 1; l >= 0; l--) {
        walk->position[l] = i % batch->extent[l];
        i /= batch->extent[l];
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += walk->position[l] * batch->stride[operand][l];
    }
}

static inline void td_gemm_walk_on(struct td_gemm_walk *walk)
{
    const struct td_gemm_dimension *batch = walk->batch;
    for (int l = batch->rank - 1; l >= 0; l--) {
        const bool ends = ++walk->position[l] == batch->extent[l];
        const int64_t back = ends ? batch->extent[l] : 0;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += (1 - back) * batch->stride[operand][l];
        if (!ends)
            return;
        walk->position[l] = 0;
    }
}

#endif
