/* blocking.h - the block sizes of a product, and the workspace that they require.
 *
 * Block sizes depend only on the sizes of the product, so every sum is split at the same places for
 * any number of threads.
 *
 *     shared       packed B: k_packed x nc elements for each of batch_block products. With k_range,
 *                  an m x n matrix of sums for each range of each of batch_block products.
 *     per thread   struct td_gemm_scratch | packed A | sums, if C is not native | B of the thread
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_GEMM_BLOCKING_H
#define TD_KERNELS_EINSUM_GEMM_BLOCKING_H

#include "kernels/einsum/gemm/kernels.h"
#include "kernels/einsum/gemm/product.h"

#include <stdint.h>

/* Maximum number of rows of a block of A, and maximum length in reals of a block along k. Packed A
 * stays in the L2 cache. MC is a multiple of the number of rows of every tile.
 *
 * On Zen 4 in float32, 1024^3 reached 104, 105 and 107 GFLOP/s with a KC of 256, 384 and 512. With
 * an MC of 112 and 168, 2048^3 on two threads reached 199 and 210 GFLOP/s, or 96 and 104 GFLOP/s in
 * float64. */
#define TD_GEMM_MC               168
#define TD_GEMM_KC               512
/* Maximum number of columns whose sums are kept in scratch memory if C is not native. */
#define TD_GEMM_SUMS_COLUMNS     256
/* Size in bytes of the buffer for a panel before it is widened or expanded. No panel is longer than
 * TD_GEMM_KC reals; in complex128, KC is half as many elements. */
#define TD_GEMM_RAW_BYTES        ((int64_t)TD_GEMM_MAX_MR * TD_GEMM_KC * 8)
/* Waking a thread is not worthwhile for a product that takes less than TD_GEMM_SINGLE_THREAD_NS. No
 * range is much shorter than TD_GEMM_RANGE_NS or longer than TD_GEMM_MAX_RANGE_NS. Ranges of a
 * split k are kept short, because the estimate assumes long vectors and SSE2 takes ten times as
 * long. */
#define TD_GEMM_SINGLE_THREAD_NS 100e3
#define TD_GEMM_RANGE_NS         50e3
#define TD_GEMM_MAX_RANGE_NS     8e6

/* The first part of a thread's scratch memory. The functions at the end of this file return the
 * other parts. */
struct td_gemm_scratch {
    int64_t m_a[TD_GEMM_MC], m_c[TD_GEMM_MC];             /* row offsets */
    int64_t n[TD_GEMM_MAX_NR], n_c[TD_GEMM_SUMS_COLUMNS]; /* column offsets in B and C */
    int64_t k[TD_GEMM_KC], k_run[TD_GEMM_KC];             /* k_offset and k_run of td_gemm_panel */
    _Alignas(64) char tile[TD_GEMM_MAX_MR * TD_GEMM_TILE_ROW_BYTES];
    _Alignas(64) char raw[TD_GEMM_RAW_BYTES + TD_GEMM_PANEL_SLACK];
};

struct td_gemm_blocking {
    /* Length of a block of k. Sums are split only at multiples of kc. */
    int64_t kc;
    /* For split-K, the length of a range that is summed separately. 0 if k is not split. */
    int64_t k_range;
    int64_t nc; /* number of columns of packed B */
    /* Number of rows of packed B, in elements: a multiple of kc, or all rows. */
    int64_t k_packed;
    /* Number of products that are computed together. 0 if nothing is shared. */
    int64_t batch_block;
    /* Size in bytes of packed B, or of a block of packed B, in a thread's scratch memory. 0 if
     * threads do not pack B. */
    int64_t thread_b_bytes;
};

void td_gemm_blocking_make(struct td_gemm_blocking *blocking, const struct td_gemm_product *p);

/* Returns the workspace of a product with this blocking. */
struct td_workspace_size td_gemm_blocking_workspace(const struct td_gemm_blocking *blocking,
                                                    const struct td_gemm_product *p);

/* If k_range is set, return the number of ranges of k and the size in bytes of one range's sums. */
int64_t td_gemm_k_ranges(const struct td_gemm_blocking *blocking, const struct td_gemm_product *p);
int64_t td_gemm_partial_bytes(const struct td_gemm_product *p);

/* Returns the grain of a parallel loop over `count` items, each of which takes each_ns. */
int64_t td_gemm_grain(int64_t count, double each_ns);

/* ---- The parts of a thread's scratch ---------------------------------------------------- */

static inline int64_t td_gemm_packed_a_bytes(const struct td_gemm_product *p)
{
    return p->real_size * TD_GEMM_KC * (TD_GEMM_MC + TD_GEMM_MAX_MR) + TD_GEMM_PANEL_SLACK;
}

static inline char *td_gemm_packed_a(struct td_gemm_scratch *scratch)
{
    return (char *)scratch + sizeof(struct td_gemm_scratch);
}

static inline char *td_gemm_sums(const struct td_gemm_product *p, struct td_gemm_scratch *scratch)
{
    return td_gemm_packed_a(scratch) + td_gemm_packed_a_bytes(p);
}

static inline int64_t td_gemm_sums_bytes(const struct td_gemm_product *p)
{
    return p->native[TD_C] ? 0 : (int64_t)TD_GEMM_MC * TD_GEMM_SUMS_COLUMNS * 8;
}

static inline char *td_gemm_thread_b(const struct td_gemm_product *p,
                                     struct td_gemm_scratch *scratch)
{
    return td_gemm_sums(p, scratch) + td_gemm_sums_bytes(p);
}

#endif
