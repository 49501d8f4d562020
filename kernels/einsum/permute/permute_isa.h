/* permute_isa.h - transposition of a tile as built for one instruction set; permute.c chooses. */
#ifndef TD_KERNELS_EINSUM_PERMUTE_PERMUTE_ISA_H
#define TD_KERNELS_EINSUM_PERMUTE_PERMUTE_ISA_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element [p][q] of A to [q][p] of C, for p in [0, rows) and q in [0, columns). Neighbours along q
 * touch in A, neighbours along p in C; a_row and c_row are the other two strides, in bytes. With
 * `stream` the stores pass the cache by: then rows is a multiple of the table's row count, and c
 * and c_row of its store size. */
typedef void td_transpose_fn(char *restrict c, int64_t c_row, const char *restrict a, int64_t a_row,
                             int64_t rows, int64_t columns, bool stream);

/* Widths 1, 2, 4, 8 and 16. */
#define TD_TRANSPOSE_WIDTHS 5

struct td_transpositions {
    td_transpose_fn *by_log2_width[TD_TRANSPOSE_WIDTHS];
    int64_t
        store_bytes; /* of one store: rows * width is a multiple of it where streaming is asked */
};

/* isa as td_isa_resolve gives it. */
const struct td_transpositions *td_transpositions(td_isa isa);

extern const struct td_transpositions td_transpositions_generic;
#ifdef __x86_64__
extern const struct td_transpositions td_transpositions_avx2;
extern const struct td_transpositions td_transpositions_avx512;
#endif

#endif
