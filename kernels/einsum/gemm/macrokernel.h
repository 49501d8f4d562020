/* macrokernel.h - computes a block of C of one product on one thread: packs blocks of A, runs the
 * microkernels over tiles and stores the sums to C.
 *
 * Threads  Reentrant. Each caller has its own scratch memory, and blocks of C do not overlap. */
#ifndef TD_KERNELS_EINSUM_GEMM_MACROKERNEL_H
#define TD_KERNELS_EINSUM_GEMM_MACROKERNEL_H

#include "kernels/einsum/gemm/context.h"
#include "kernels/einsum/gemm/pack.h"

#include <stdbool.h>
#include <stdint.h>

/* A block of C: rows [m0, m0 + m) and columns [n0, n0 + n), summed over k in [k0, k0 + k). */
struct td_gemm_block {
    const char *a, *b;
    char *c;
    int64_t m0, m, n0, n, k0, k;
    const struct td_gemm_packed_b *packed;
    bool accumulate; /* add the sums to the contents of C */
    bool a_packed;   /* the block to the left has already packed A */
};

/* Computes the block, which has at most g->mc rows. `accumulate` requires a native C. */
void td_gemm_macrokernel(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                         const struct td_gemm_block *block);

/* Stores the sums of columns [n0, n0 + n), at most TD_GEMM_SUMS_COLUMNS columns, to the row that
 * starts at `c`. Rounds or truncates the sums to the dtype of C. */
void td_gemm_store_row(const struct td_gemm_context *g, struct td_gemm_scratch *scratch, char *c,
                       char *sums, int64_t n0, int64_t n);

/* Sets the strides of the operands that are used in place. */
void td_gemm_set_in_place_strides(const struct td_gemm_context *g, struct td_gemm_tile *tile);

#endif
