/* gemm_pack.h - blocks of A and B, widened and in the order in which tiles read them.
 *
 * Threads  Reentrant: each caller has a slot to itself. */
#ifndef TD_KERNELS_EINSUM_GEMM_PACK_H
#define TD_KERNELS_EINSUM_GEMM_PACK_H

#include "kernels/einsum/gemm/call.h"

#include <stdint.h>

/* Where packed B begins, for columns from n0 and rows from k0 on: blocks of kc rows, in each the
 * panels one after the other. */
struct td_gemm_packed_b {
    char *data;
    int64_t k0, n0, panels;
};

/* Bytes of a row of a packed panel of B. */
static inline int64_t td_gemm_panel_row_bytes(const struct td_gemm_call *g)
{
    return (int64_t)g->tiles->lanes * TD_GEMM_VECTORS * g->p->real_size * g->p->parts;
}

/* Where the panel of columns from n on lies, in the block of k_n rows from k on. */
char *td_gemm_packed_panel(const struct td_gemm_call *g, const struct td_gemm_packed_b *b,
                           int64_t k, int64_t k_n, int64_t n);

/* Panels of columns [n, n_end) of one block of k. */
void td_gemm_pack_b(const struct td_gemm_call *g, struct td_gemm_scratch *scratch, const char *from,
                    const struct td_gemm_packed_b *b, int64_t k, int64_t k_n, int64_t n,
                    int64_t n_end);

/* `m` rows of A, whose offsets are in scratch->m_a, to the slot's block: panels of `rows`. */
void td_gemm_pack_a(const struct td_gemm_call *g, void *slot, const char *from, int64_t m,
                    int64_t rows, int64_t k, int64_t k_n);

#endif
