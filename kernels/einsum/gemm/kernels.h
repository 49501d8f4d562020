/* kernels.h - the inner loops of gemm, built once per instruction set: the microkernels, which
 * compute a tile of C, and the packing of a panel.
 *
 * A tile is `rows` rows times one or two vectors of columns, held in registers over all of k. Rows
 * of A are read one element at a time, so A may have any strides; a row of B is contiguous. So
 * packed panels and operands in memory with such strides are read in the same way.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_GEMM_KERNELS_H
#define TD_KERNELS_EINSUM_GEMM_KERNELS_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maxima over the instruction sets. */
#define TD_GEMM_MAX_MR         14
#define TD_GEMM_MAX_NR         32
#define TD_GEMM_TILE_ROW_BYTES 128 /* a row of a tile: two vectors */
#define TD_GEMM_TILE_VECTORS   2
#define TD_GEMM_PANEL_SLACK    64 /* bytes after a packed panel that packing may overwrite */

/* A panel of B is prefetched in slices, one by each tile that uses the panel before it. */
#define TD_GEMM_PREFETCH_SLICES 8

/* C[i, j] = (accumulate ? C[i, j] : 0) + sum over k of A[i, k] * B[k, j]; strides in elements. With
 * TD_GEMM_BF16 an element of A and B is a pair along k, and k counts pairs. */
struct td_gemm_tile {
    const void *a;
    int64_t a_row, a_k;
    const void *b;
    int64_t b_k;
    /* This tile's slice of the next panel of B, prefetched into the L2 cache: two vectors /
     * TD_GEMM_PREFETCH_SLICES for each k. A hint: any address is valid. */
    const char *next_b;
    int64_t k;
    void *c;
    int64_t c_row;
    int columns; /* the last vector may be partial, but not empty */
    bool accumulate;
};
typedef void td_gemm_microkernel_fn(const struct td_gemm_tile *tile);

/* The real type that the microkernels compute in. */
typedef enum td_gemm_real {
    TD_GEMM_F32,
    TD_GEMM_F64,
    TD_GEMM_U32,
    TD_GEMM_U64,
    TD_GEMM_BF16, /* pairs of bfloat16 products, summed in float32 */
    TD_GEMM_REAL_COUNT
} td_gemm_real;

/* Expands a panel of complex numbers, k rows of n, to a panel of reals, 2 k rows: of A, the n real
 * parts and then the n imaginary parts; of B, (re, im) and then (-im, re). The product of the two
 * has interleaved real and imaginary parts (1m method). */
typedef void td_gemm_expand_fn(void *to, const void *from, int64_t k, int64_t n);

struct td_gemm_microkernels {
    int mr;
    int lanes;
    /* By rows - 1, vectors - 1. */
    td_gemm_microkernel_fn *by_size[TD_GEMM_MAX_MR][TD_GEMM_TILE_VECTORS];
    td_gemm_expand_fn *expand_a, *expand_b;
};

/* to[k * width + i] = from[k_offset[k] + offset[i]] for i < n, 0 for n <= i < padded; offsets in
 * elements. The elements from padded (or n) to width, and TD_GEMM_PANEL_SLACK bytes after the last
 * row, may be overwritten. For TD_GEMM_BF16 rows 2 k and 2 k + 1 become one row of pairs; if k is
 * odd, the last one is paired with 0. */
struct td_gemm_panel {
    void *to;
    int64_t width, n, padded; /* padded > n requires that width is a multiple of the lanes */
    int64_t k;
    const void *from;
    const int64_t *offset;
    const int64_t *k_offset;
    const int64_t *k_run; /* length of the run of consecutive k_offset that begins here */
};
typedef void td_gemm_pack_fn(const struct td_gemm_panel *panel);

/* Packing depends on the element size only: 1, 2, 4, 8, 16. td_gemm_avx512_bf16 has only
 * microkernels of TD_GEMM_BF16 and their packing, of size 2. */
enum { TD_GEMM_WIDTHS = 5 };

struct td_gemm_kernels {
    bool masks; /* masked loads: B may end with its last column. Else its columns must be padded */
    const struct td_gemm_microkernels *microkernels[TD_GEMM_REAL_COUNT];
    td_gemm_pack_fn *pack[TD_GEMM_WIDTHS]; /* by log2 of the size */
};

extern const struct td_gemm_kernels td_gemm_generic;
#ifdef __x86_64__
extern const struct td_gemm_kernels td_gemm_avx2, td_gemm_avx512, td_gemm_avx512_ymm,
    td_gemm_avx512_bf16;
#endif

#endif
