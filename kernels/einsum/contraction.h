/* contraction.h - one step of an einsum: a nest of loops over one or two operands.
 *
 *     C[c] = sum over the summed loops of A[a] * B[b]        (or of A[a] alone)
 *
 * Each loop has an extent and says how far it moves A, B and C, in elements. A stride of 0 means
 * that the operand does not have the loop; a loop with C stride 0 is summed. Diagonals,
 * transpositions and broadcasts are nothing but strides, so no operand is ever rearranged for its
 * own sake. With two operands every summed loop moves both; every loop moves A or B.
 *
 * What a nest turns into is decided from its loops alone, never from the number of threads:
 *
 *     permute   one operand, nothing summed, dtypes equal: data moves, values are not looked at
 *     sumprod   sums and products too thin for a matrix kernel: reductions, traces, dot, GEMV,
 *               elementwise and outer products, and conversions between dtypes
 *     gemm      two operands whose loops fall into batch (A, B, C), M (A, C), N (B, C) and
 *               K (A, B), with M, N and K large enough
 *
 * Shapes     At least one loop; every extent is 2 or more after td_contraction_simplify, so there
 *            are at most TD_MAX_LOOPS. An extent of 0 never comes here: the caller has settled
 *            empty results and empty sums.
 * Ownership  Borrows the operands; writes C, every element that the loops reach, and does not read
 *            it before. C does not overlap A or B.
 * Threads    Reentrant; splits its work through exec. The bits of C do not depend on how.
 * Cost       td_contraction_workspace tells the bytes it takes from its workspace. */
#ifndef TD_KERNELS_EINSUM_CONTRACTION_H
#define TD_KERNELS_EINSUM_CONTRACTION_H

#include "kernels/dtype.h"
#include "kernels/exec.h"
#include "kernels/status.h"

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

/* Drops loops of extent 1, joins loops that are one in every operand (stride of one = stride times
 * extent of the other), orders the rest by falling C stride, summed ones last by falling A stride,
 * and sets kind. A nest without loops is left with one of extent 1. */
void td_contraction_simplify(struct td_contraction *contraction);

/* Memory a contraction needs beside its operands: `shared` once, `per_thread` for each thread that
 * works on it. */
struct td_workspace_need {
    uint64_t shared;
    uint64_t per_thread;
    bool alone; /* all of it is one range: one thread's part is enough */
};
struct td_workspace_need td_contraction_workspace(const struct td_contraction *contraction);

/* The sizes of the matrices in a nest of kind gemm: batch of m x k times k x n. */
struct td_gemm_sizes {
    int64_t batch, m, n, k;
};
struct td_gemm_sizes td_contraction_gemm_sizes(const struct td_contraction *contraction);

struct td_workspace; /* workspace.h */

/* DEADLINE_EXCEEDED from exec is the only failure; C is then worth nothing. */
TD_MUST_CHECK td_status td_contraction_run(const struct td_contraction *contraction, const void *a,
                                           const void *b, void *c, struct td_workspace *workspace,
                                           struct td_exec *exec, struct td_error *err);

#endif
