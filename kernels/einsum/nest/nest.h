/* nest.h - a nest of loops over one or two operands, which is what one step of an einsum is.
 *
 *     C[c] = sum over the summed loops of A[a] * B[b]        (or of A[a] alone)
 *
 * Each loop has an extent and a stride for each of A, B and C, in elements. A stride of 0 means
 * that the operand does not have the loop; a loop with C stride 0 is summed. Diagonals,
 * transpositions and broadcasts are nothing but strides, so no operand is ever rearranged for its
 * own sake. With two operands every summed loop moves both; every loop moves A or B. */
#ifndef TD_KERNELS_EINSUM_NEST_NEST_H
#define TD_KERNELS_EINSUM_NEST_NEST_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Extents of 2 or more whose product fits 63 bits. */
#define TD_MAX_LOOPS 62

enum { TD_A, TD_B, TD_C };

struct td_loop {
    int64_t extent;
    int64_t stride[3]; /* by TD_A, TD_B, TD_C */
};

typedef enum td_contraction_kind {
    TD_CONTRACT_PERMUTE,
    TD_CONTRACT_SUMPROD,
    TD_CONTRACT_GEMM
} td_contraction_kind;

struct td_contraction {
    td_dtype
        dtype[3]; /* of A, B and C; all compute in the same type. B's is A's when there is none */
    bool has_b;
    td_contraction_kind kind; /* set by td_contraction_simplify */
    int rank;
    struct td_loop *loops; /* borrowed: the plan's */
};

/* Memory a contraction needs beside its operands: `shared` once, `per_thread` for each thread that
 * works on it. */
struct td_workspace_need {
    uint64_t shared;
    uint64_t per_thread;
    bool alone; /* all of it is one range: one thread's part is enough */
};

/* The sizes of the matrices in a nest of kind gemm: batch of m x k times k x n. */
struct td_gemm_sizes {
    int64_t batch, m, n, k;
};

#endif
