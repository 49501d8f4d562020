/* kernels.h - sums and products over runs, for each compute type, built once per instruction set.
 * block.c combines the kernels.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_KERNELS_H
#define TD_KERNELS_EINSUM_SUMPROD_KERNELS_H

#include "kernels/convert/convert.h"

/* Runs are contiguous and have the compute type T. Consecutive rows are a_step or b_step elements
 * apart. Totals have type W, in which many blocks are added: double for float32, complex128 for
 * complex64, and T for other types.
 *
 * Contiguous rows cost no more than one long row if they are short: at most
 * TD_SUMPROD_FOLDED_ROW_BYTES if all are added into one row, or TD_SUMPROD_SHORT_RUN elements if
 * each row is summed. */
#define TD_SUMPROD_FOLDED_ROW_BYTES 256
#define TD_SUMPROD_SHORT_RUN        4 /* elements */
/* `reduce` reads this number of long rows together, which is faster than one long row. */
#define TD_SUMPROD_ROWS_TOGETHER    8
struct td_sumprod_kernels {
    /* Adds the sum of each row to its total: totals[r] += sum over i of a[r][i] * b[r][i] or, if b
     * is NULL, of a[r][i]. If b_step is 0, all rows have the same b. The sum over i is computed in
     * T, so the caller must limit n. */
    void (*reduce)(void *totals, const void *a, int64_t a_step, const void *b, int64_t b_step,
                   int64_t rows, int64_t n);
    /* Add rows to sums: sums[i] += sum over r of a[r][i] (add_rows), of a[r][i] * scalars[r]
     * (scale_rows), or of a[r][i] * b[r][i] (multiply_rows). */
    void (*add_rows)(void *sums, const void *a, int64_t a_step, int64_t rows, int64_t n);
    void (*scale_rows)(void *sums, const void *a, int64_t a_step, const void *scalars, int64_t rows,
                       int64_t n);
    void (*multiply_rows)(void *sums, const void *a, int64_t a_step, const void *b, int64_t b_step,
                          int64_t rows, int64_t n);
    /* Set to[i] = a[i] * b[i] (multiply), or to[i] = a[i] * *scalar (scale). */
    void (*multiply)(void *to, const void *a, const void *b, int64_t n);
    void (*scale)(void *to, const void *a, const void *scalar, int64_t n);
    /* Adds sums[i] to totals[i], and sets sums[i] to 0. */
    void (*flush)(void *totals, void *sums, int64_t n);
    void (*add_totals)(void *totals, const void *more, int64_t n);
    void (*round)(void *to, const void *totals, int64_t n);
};

#define TD_SUMPROD_KERNELS(isa)                                                                    \
    extern const struct td_sumprod_kernels td_sumprod_##isa[TD_COMPUTE_COUNT];
TD_SUMPROD_KERNELS(generic)
#ifdef __x86_64__
TD_SUMPROD_KERNELS(avx2)
TD_SUMPROD_KERNELS(avx512)
#endif
#undef TD_SUMPROD_KERNELS

#endif
