/* nest.h - a loop nest over one or two operands, which is one step of an einsum.
 *
 *     C[c] = sum over the summed loops of A[a] * B[b]        (or of A[a], with one operand)
 *
 * Each loop has an extent and a stride, in elements, for each of A, B and C. A stride of 0 means
 * that the operand does not have the loop. A loop whose C stride is 0 is summed. Diagonals,
 * transpositions and broadcasts are expressed by strides, so no operand is rearranged before the
 * nest runs. With two operands, every summed loop has a stride in both. Every loop has a stride in
 * A or B. */
#ifndef TD_KERNELS_EINSUM_NEST_NEST_H
#define TD_KERNELS_EINSUM_NEST_NEST_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Maximum number of loops of extent at least 2 if the product of the extents is below 2^63. */
#define TD_MAX_LOOPS 62

enum { TD_A, TD_B, TD_C };

struct td_loop {
    int64_t extent;
    int64_t stride[3]; /* indexed by TD_A, TD_B, TD_C */
};

typedef enum td_contraction_kind {
    TD_CONTRACT_PERMUTE,
    TD_CONTRACT_SUMPROD,
    TD_CONTRACT_GEMM
} td_contraction_kind;

struct td_contraction {
    /* dtypes of A, B and C, which all have the same compute type. Without B, dtype[TD_B] equals
     * dtype[TD_A]. */
    td_dtype dtype[3];
    bool has_b;
    td_contraction_kind kind; /* set by td_contraction_simplify */
    int rank;
    struct td_loop *loops; /* borrowed from the plan */
};

/* Size in bytes of a contraction's workspace: `shared` once, and `per_thread` for each thread that
 * works on the contraction. */
struct td_workspace_size {
    uint64_t shared;
    uint64_t per_thread;
    /* The work is a single range, so only one thread needs scratch memory. */
    bool single_threaded;
};

/* Matrix sizes in a nest of kind gemm: a batch of m x k times k x n products. */
struct td_gemm_sizes {
    int64_t batch, m, n, k;
};

#endif
