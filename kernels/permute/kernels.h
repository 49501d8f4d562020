/* kernels.h - transposition of a tile and copies of a strided run, built once per instruction
 * set.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_PERMUTE_KERNELS_H
#define TD_KERNELS_PERMUTE_KERNELS_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets C[q][p] = A[p][q] for p in [0, rows) and q in [0, columns). A is contiguous along q, and C
 * along p. a_row and c_row are the strides of rows, in bytes. If `stream` is true, the stores are
 * non-temporal, and rows * width, c and c_row must be multiples of the table's store_bytes. */
typedef void td_transpose_fn(char *restrict c, int64_t c_row, const char *restrict a, int64_t a_row,
                             int64_t rows, int64_t columns, bool stream);

/* Copies n elements, which are a_step bytes apart in A, to consecutive places in C. a_step can be
 * negative. */
typedef void td_collect_fn(char *restrict c, const char *restrict a, int64_t a_step, int64_t n);

/* Number of element widths: 1, 2, 4, 8 and 16 bytes. */
#define TD_TRANSPOSE_WIDTHS 5

struct td_transpose_kernels {
    td_transpose_fn *by_log2_width[TD_TRANSPOSE_WIDTHS];
    td_collect_fn *collect[TD_TRANSPOSE_WIDTHS]; /* by log2 of the width */
    int64_t store_bytes;                         /* size in bytes of a non-temporal store */
};

/* Returns the kernels for `isa`, which must be a result of td_isa_resolve. */
const struct td_transpose_kernels *td_transpose_kernels(td_isa isa);

extern const struct td_transpose_kernels td_transpose_generic;
#ifdef __x86_64__
extern const struct td_transpose_kernels td_transpose_avx2;
extern const struct td_transpose_kernels td_transpose_avx512;
#endif

#endif
