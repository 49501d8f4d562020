/* kernels.h - the inner loops of gemm, built once per instruction set: the microkernels, which
 * compute a tile of C, and the packing of a panel.
 *
 * A tile has `rows` rows and one or two vectors of columns, which stay in registers over all of k.
 * A microkernel reads A one element at a time, so A can have any strides. A row of B must be
 * contiguous. A microkernel reads packed panels and operands with suitable strides in the same way.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_GEMM_KERNELS_H
#define TD_KERNELS_EINSUM_GEMM_KERNELS_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum values over all instruction sets. */
#define TD_GEMM_MAX_MR         14
#define TD_GEMM_MAX_NR         32
#define TD_GEMM_TILE_ROW_BYTES 128 /* bytes per row of a tile: two vectors */
#define TD_GEMM_TILE_VECTORS   2
/* Number of bytes after a packed panel that packing can overwrite. */
#define TD_GEMM_PANEL_SLACK    64

/* A panel of B is prefetched in slices: each tile that uses the previous panel prefetches one
 * slice. */
#define TD_GEMM_PREFETCH_SLICES 8

/* C[i, j] = (accumulate ? C[i, j] : 0) + sum over k of A[i, k] * B[k, j]. Strides are in elements.
 * With TD_GEMM_BF16, an element of A or B is a pair along k, and k counts pairs. */
struct td_gemm_tile {
    const void *a;
    int64_t a_row, a_k;
    const void *b;
    int64_t b_k;
    /* This tile's slice of the next panel of B, to be prefetched into the L2 cache. For each k, a
     * tile prefetches 1 / TD_GEMM_PREFETCH_SLICES of two vectors. The prefetch is a hint, so any
     * address is valid. */
    const char *next_b;
    int64_t k;
    void *c;
    int64_t c_row;
    /* Number of columns. The last vector can be partial but not empty. */
    int columns;
    bool accumulate;
};
typedef void td_gemm_microkernel_fn(const struct td_gemm_tile *tile);

/* The real type in which the microkernels compute. */
typedef enum td_gemm_real {
    TD_GEMM_F32,
    TD_GEMM_F64,
    TD_GEMM_U32,
    TD_GEMM_U64,
    TD_GEMM_BF16, /* pairs of bfloat16 products, summed in float32 */
    TD_GEMM_REAL_COUNT
} td_gemm_real;

/* Expands a panel of complex numbers with k rows of n elements to a panel of reals with 2 k rows. A
 * row of A becomes a row of the n real parts and a row of the n imaginary parts. A row of B becomes
 * a row of pairs (re, im) and a row of pairs (-im, re). The product of both panels has interleaved
 * real and imaginary parts (1m method). */
typedef void td_gemm_expand_fn(void *to, const void *from, int64_t k, int64_t n);

struct td_gemm_microkernels {
    int mr;
    int lanes;
    /* Indexed by [rows - 1][vectors - 1]. */
    td_gemm_microkernel_fn *by_size[TD_GEMM_MAX_MR][TD_GEMM_TILE_VECTORS];
    td_gemm_expand_fn *expand_a, *expand_b;
};

/* Packs a panel: to[k * width + i] = from[k_offset[k] + offset[i]] for i < n, and 0 for n <= i <
 * padded. Offsets are in elements. Packing can overwrite the elements of a row from max(n, padded)
 * to width, and TD_GEMM_PANEL_SLACK bytes after the last row. For TD_GEMM_BF16, rows 2 k and 2 k +
 * 1 become one row of pairs. If k is odd, the last row is paired with zeros. */
struct td_gemm_panel {
    void *to;
    /* If padded > n, width must be a multiple of the number of lanes. */
    int64_t width, n, padded;
    int64_t k;
    const void *from;
    const int64_t *offset;
    const int64_t *k_offset;
    /* k_run[k] is the number of consecutive values in k_offset from k onwards. */
    const int64_t *k_run;
};
typedef void td_gemm_pack_fn(const struct td_gemm_panel *panel);

/* Packing depends only on the element size: 1, 2, 4, 8 or 16 bytes. td_gemm_avx512_bf16 has only
 * the microkernels of TD_GEMM_BF16 and their packing function, for size 2. */
enum { TD_GEMM_WIDTHS = 5 };

struct td_gemm_kernels {
    /* True if the kernels have masked loads, so B can end with its last column. Without masked
     * loads, the columns of B must be padded. */
    bool masks;
    const struct td_gemm_microkernels *microkernels[TD_GEMM_REAL_COUNT];
    td_gemm_pack_fn *pack[TD_GEMM_WIDTHS]; /* indexed by log2 of the size */
};

extern const struct td_gemm_kernels td_gemm_generic;
#ifdef __x86_64__
extern const struct td_gemm_kernels td_gemm_avx2, td_gemm_avx512, td_gemm_avx512_ymm,
    td_gemm_avx512_bf16;
#endif

#endif
