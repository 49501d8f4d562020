/* gemm_blocking.h - how far a product is taken at a time, and the memory that this takes.
 *
 * The blocks are made by sizes alone, so that every sum is cut at the same places however many
 * threads there are.
 *
 *     shared   packed B: k_chunk x n_chunk numbers for each of `items`; with k_piece a sum, m x n,
 *              for every piece of each of `items`
 *     a slot   struct td_gemm_scratch | block of A | sums, where C is not native | own_b
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_EINSUM_GEMM_BLOCKING_H
#define TD_KERNELS_EINSUM_GEMM_BLOCKING_H

#include "kernels/einsum/gemm/gemm_isa.h"
#include "kernels/einsum/gemm/product.h"

#include <stdint.h>

/* Rows of A that are packed together, at most, and their length in reals: what is packed of A stays
 * in the second cache. At 1024^3 on Zen 4, a length of 256, 384, 512 gave 104, 105, 107 GFLOP/s in
 * float32; at 2048^3, 112 and 168 rows gave 199 and 210 on two threads, in float64 96 and 104. A
 * multiple of the rows of all tiles. */
#define TD_GEMM_BLOCK_ROWS   168
#define TD_GEMM_BLOCK_K      512
/* Columns of a result that is not native: they are summed up beside it. */
#define TD_GEMM_NARROW_WIDTH 256
/* A panel on its way to be widened or expanded: at the most a block of k of complex128, whose k is
 * half as long. */
#define TD_GEMM_RAW_BYTES    ((int64_t)TD_GEMM_MAX_ROWS * TD_GEMM_BLOCK_K * 8)
/* A product that takes less than this is not worth waking a thread for, and no range is to be much
 * shorter than TD_GEMM_RANGE_NS nor longer than TD_GEMM_LONGEST_NS (where k is cut, as estimated for
 * long vectors: a small part of it, and SSE2 takes ten times as long). */
#define TD_GEMM_ALONE_NS     100e3
#define TD_GEMM_RANGE_NS     50e3
#define TD_GEMM_LONGEST_NS   8e6

/* What a thread needs beside A's block: at the beginning of its slot. */
struct td_gemm_scratch {
    int64_t m_a[TD_GEMM_BLOCK_ROWS], m_c[TD_GEMM_BLOCK_ROWS];
    int64_t n[TD_GEMM_MAX_COLUMNS], n_c[TD_GEMM_NARROW_WIDTH];
    int64_t k[TD_GEMM_BLOCK_K], k_run[TD_GEMM_BLOCK_K];
    _Alignas(64) char tile[TD_GEMM_MAX_ROWS * TD_GEMM_TILE_BYTES];
    _Alignas(64) char raw[TD_GEMM_RAW_BYTES + TD_GEMM_PANEL_SLACK];
};

struct td_gemm_blocking {
    int64_t kc;      /* length of a block of k; every element's sum is cut here and nowhere else */
    int64_t k_piece; /* length of a piece of k that is summed apart; 0: all of k is one sum */
    int64_t n_chunk; /* packed B has so many columns, */
    int64_t k_chunk; /* so many rows (of numbers; a multiple of kc or all), */
    int64_t items;   /* of so many of the batch; 0: nothing is shared */
    int64_t own_b;   /* bytes of B, or of a block of it, that a thread packs for itself; 0: never */
};

void td_gemm_blocking_make(struct td_gemm_blocking *blocking, const struct td_gemm_product *p);

/* The workspace of a product with these blocks. */
struct td_workspace_size td_gemm_blocking_need(const struct td_gemm_blocking *blocking,
                                               const struct td_gemm_product *p);

/* With k_piece: pieces of k, and bytes of the sum of one. */
int64_t td_gemm_pieces(const struct td_gemm_blocking *blocking, const struct td_gemm_product *p);
int64_t td_gemm_sum_bytes(const struct td_gemm_product *p);

/* Items, or parts of one, in a range. */
int64_t td_gemm_grain(int64_t count, double each_ns);

/* ---- The parts of a slot -------------------------------------------------------------------- */

static inline int64_t td_gemm_block_a_bytes(const struct td_gemm_product *p)
{
    return p->real_size * TD_GEMM_BLOCK_K * (TD_GEMM_BLOCK_ROWS + TD_GEMM_MAX_ROWS) +
           TD_GEMM_PANEL_SLACK;
}

static inline struct td_gemm_scratch *td_gemm_slot_scratch(void *slot)
{
    return slot;
}

static inline char *td_gemm_slot_block(void *slot)
{
    return (char *)slot + sizeof(struct td_gemm_scratch);
}

static inline char *td_gemm_slot_sums(const struct td_gemm_product *p, void *slot)
{
    return td_gemm_slot_block(slot) + td_gemm_block_a_bytes(p);
}

static inline int64_t td_gemm_sums_bytes(const struct td_gemm_product *p)
{
    return p->native[TD_C] ? 0 : (int64_t)TD_GEMM_BLOCK_ROWS * TD_GEMM_NARROW_WIDTH * 8;
}

static inline char *td_gemm_slot_b(const struct td_gemm_product *p, void *slot)
{
    return td_gemm_slot_sums(p, slot) + td_gemm_sums_bytes(p);
}

#endif
