/* sumprod_isa.h - sums and products over runs, per compute type, as built for one instruction set;
 * sumprod_unit.c puts them together. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_SUMPROD_ISA_H
#define TD_KERNELS_EINSUM_SUMPROD_SUMPROD_ISA_H

#include "kernels/convert/convert.h"

/* Runs are of the compute type T and dense; rows lie a_step or b_step elements apart. Totals are of
 * a type W that adds up many blocks: double for float32, complex128 for complex64, else T itself.
 *
 * Rows that touch cost no more than one long row where they are short: up to TD_FOLDED_ROW where
 * rows are added to one, up to TD_SHORT_RUN where each is summed. */
#define TD_FOLDED_ROW 256 /* bytes of a row */
#define TD_SHORT_RUN  4   /* elements */
struct td_sumprod_kernels {
    /* totals[r] += sum over i of a[r][i] * b[r][i]; of a[r][i] where b is NULL. A b_step of 0 means
     * that all rows have one b. n is bounded by the caller: it is one block, kept in T. */
    void (*reduce)(void *totals, const void *a, int64_t a_step, const void *b, int64_t b_step,
                   int64_t rows, int64_t n);
    /* sums[i] += sum over r of a[r][i], of a[r][i] * scalars[r], of a[r][i] * b[r][i]. */
    void (*add_rows)(void *sums, const void *a, int64_t a_step, int64_t rows, int64_t n);
    void (*scale_rows)(void *sums, const void *a, int64_t a_step, const void *scalars, int64_t rows,
                       int64_t n);
    void (*multiply_rows)(void *sums, const void *a, int64_t a_step, const void *b, int64_t b_step,
                          int64_t rows, int64_t n);
    /* to[i] = a[i] * b[i], a[i] * *scalar. */
    void (*multiply)(void *to, const void *a, const void *b, int64_t n);
    void (*scale)(void *to, const void *a, const void *scalar, int64_t n);
    /* totals[i] += sums[i], and sums[i] = 0. */
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
