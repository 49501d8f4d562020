/* pack.h - packs blocks of A and B in the order in which the microkernels read them, and widens
 * their elements.
 *
 * Threads  Reentrant. Each caller has its own scratch memory. */
#ifndef TD_KERNELS_EINSUM_GEMM_PACK_H
#define TD_KERNELS_EINSUM_GEMM_PACK_H

#include "kernels/einsum/gemm/context.h"

#include <stdint.h>

/* Packed B from column n0 and row k0 onwards: blocks of kc rows, each a sequence of panels. */
struct td_gemm_packed_b {
    char *data;
    int64_t k0, n0, panels;
};

/* Returns the size in bytes of a row of a packed panel of B. */
static inline int64_t td_gemm_panel_row_bytes(const struct td_gemm_context *g)
{
    return (int64_t)g->microkernels->lanes * TD_GEMM_TILE_VECTORS * g->p->real_size *
           g->p->components;
}

/* Returns the panel that starts at column n, in the block of k_n rows that starts at row k. */
char *td_gemm_packed_panel(const struct td_gemm_context *g, const struct td_gemm_packed_b *b,
                           int64_t k, int64_t k_n, int64_t n);

/* Packs the panels of columns [n, n_end) of one block of k. */
void td_gemm_pack_b(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                    const char *from, const struct td_gemm_packed_b *b, int64_t k, int64_t k_n,
                    int64_t n, int64_t n_end);

/* Packs `m` rows of A, whose offsets are in scratch->m_a, into panels of `rows` rows at
 * td_gemm_packed_a(scratch). */
void td_gemm_pack_a(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                    const char *from, int64_t m, int64_t rows, int64_t k, int64_t k_n);

#endif
