/* gemm_kernels.h - the two inner loops of gemm, built once per instruction set: a tile of C, and
 * the packing of a panel.
 *
 * A tile is `rows` rows times one or two vectors of columns, kept in registers over all of k. Rows
 * are read one number at a time, so A may have any strides; a row of B is contiguous. Panels that
 * were packed and operands that lie in memory as a tile wants them are the same to it.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_EINSUM_GEMM_GEMM_ISA_H
#define TD_KERNELS_EINSUM_GEMM_GEMM_ISA_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of any instruction set. */
#define TD_GEMM_MAX_ROWS    14
#define TD_GEMM_TILE_BYTES  128 /* a row of a tile: two vectors */
#define TD_GEMM_VECTORS     2
#define TD_GEMM_MAX_COLUMNS 32
#define TD_GEMM_PANEL_SLACK 64 /* bytes behind a packed panel that packing may overwrite */

/* So many tiles share the fetching of the next panel of B. */
#define TD_GEMM_NEXT_SHARES 8

/* C[i, j] = (add ? C[i, j] : 0) + sum over k of A[i, k] * B[k, j]; all strides in numbers. Of
 * TD_GEMM_BF16 a number of A and B is a pair along k, and k counts pairs. */
struct td_gemm_tile {
    const void *a;
    int64_t a_row, a_k;
    const void *b;
    int64_t b_k;
    /* This tile's share of the panel of B that follows, fetched into the second cache meanwhile, two
     * vectors / TD_GEMM_NEXT_SHARES for each k. A hint: any address will do. */
    const char *next;
    int64_t k;
    void *c;
    int64_t c_row;
    int columns; /* more than the vectors before the last have, at most what all have */
    bool add;
};
typedef void td_gemm_tile_fn(const struct td_gemm_tile *tile);

/* What a tile of C computes in. */
typedef enum td_gemm_real {
    TD_GEMM_F32,
    TD_GEMM_F64,
    TD_GEMM_U32,
    TD_GEMM_U64,
    TD_GEMM_BF16, /* products of bfloat16, two of them at a time, summed in float32 */
    TD_GEMM_REAL_COUNT
} td_gemm_real;

/* From a panel of complex numbers, k rows of n, to one of reals, 2 k rows: A's of the n real parts
 * and then the n imaginary ones, B's of (re, im) and then (-im, re). Their product has real and
 * imaginary parts in turn. */
typedef void td_gemm_expand_fn(void *to, const void *from, int64_t k, int64_t n);

struct td_gemm_tiles {
    int rows;
    int lanes;
    td_gemm_tile_fn *tile[TD_GEMM_MAX_ROWS][TD_GEMM_VECTORS]; /* by rows - 1, vectors - 1 */
    td_gemm_expand_fn *expand_a, *expand_b;
};

/* to[k * width + i] = from[k_offset[k] + offset[i]] for i < n, 0 for n <= i < padded; offsets in
 * elements. What lies between padded (or n) and width, and TD_GEMM_PANEL_SLACK bytes behind the
 * last row, may be overwritten. For TD_GEMM_BF16 rows 2 k and 2 k + 1 become one row of pairs, the
 * last with 0 where k is odd. */
struct td_gemm_panel {
    void *to;
    int64_t width, n, padded; /* padded > n only with width a multiple of the lanes */
    int64_t k;
    const void *from;
    const int64_t *offset;
    const int64_t *k_offset;
    const int64_t
        *k_run; /* how many of k_offset follow each other by 1 from here, itself counted */
};
typedef void td_gemm_pack_fn(const struct td_gemm_panel *panel);

/* Packing moves data and looks at no value: by element size 1, 2, 4, 8, 16. td_gemm_avx512_bf16 has
 * tiles of TD_GEMM_BF16 and their packing, by size 2, and nothing else. */
enum { TD_GEMM_WIDTHS = 5 };

struct td_gemm_isa {
    bool masks; /* may the last columns of B end where memory ends? Else they are padded */
    const struct td_gemm_tiles *tiles[TD_GEMM_REAL_COUNT];
    td_gemm_pack_fn *pack[TD_GEMM_WIDTHS]; /* by log2 of the size */
};

extern const struct td_gemm_isa td_gemm_generic;
#ifdef __x86_64__
extern const struct td_gemm_isa td_gemm_avx2, td_gemm_avx512, td_gemm_avx512_short,
    td_gemm_avx512_bf16;
#endif

#endif
