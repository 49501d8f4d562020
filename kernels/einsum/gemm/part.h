/* gemm_part.h - a part of one product, computed by one thread: blocks of A are packed, tiles run
 * over them, and what they sum goes to C.
 *
 * Threads  Reentrant: each caller has a slot to itself, and parts of C do not overlap. */
#ifndef TD_KERNELS_EINSUM_GEMM_PART_H
#define TD_KERNELS_EINSUM_GEMM_PART_H

#include "kernels/einsum/gemm/call.h"
#include "kernels/einsum/gemm/pack.h"

#include <stdbool.h>
#include <stdint.h>

/* A part of one product: rows [m0, m0 + m), columns [n0, n0 + n), over k in [k0, k0 + k). */
struct td_gemm_part {
    const char *a, *b;
    char *c;
    int64_t m0, m, n0, n, k0, k;
    const struct td_gemm_packed_b *packed;
    bool add;      /* to what is in C */
    bool a_packed; /* by the part beside it */
};

/* C of the part. At most g->most_rows rows; not `add` where C is not native. */
void td_gemm_multiply(const struct td_gemm_call *g, void *slot, const struct td_gemm_part *part);

/* Sums of columns [n0, n0 + n), of which there are at most TD_GEMM_NARROW_WIDTH, to their places in
 * the row of C that begins at `c`; rounded or cut to its dtype. */
void td_gemm_store_row(const struct td_gemm_call *g, struct td_gemm_scratch *scratch, char *c,
                       char *sums, int64_t n0, int64_t n);

/* The strides of those operands that tiles use where they lie. */
void td_gemm_strides_in_place(const struct td_gemm_call *g, struct td_gemm_tile *tile);

#endif
