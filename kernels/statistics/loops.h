/* loops.h - the loops of statistics.c as built for one instruction set, over a run of values.
 *
 * Bounds   n and rows are 1 or more, n * rows is at most 2^20. Values are aligned to their dtype.
 * Threads  Pure. */
#ifndef TD_KERNELS_STATISTICS_LOOPS_H
#define TD_KERNELS_STATISTICS_LOOPS_H

#include "kernels/statistics/statistics.h"

struct td_run {
    union td_number least, greatest;
    int64_t zeros;
    double sum, squares; /* of the differences from `shift`, and of their squares */
};

struct td_statistics_loops {
    /* Of `rows` rows of n values, one after the other. Adds each value to the sum of its column,
     * unless columns is NULL. Of floats, extremes and zeros are not to be used if the sum shows
     * that a value is not finite; an extreme that is zero may have the sign of any zero. */
    void (*measure)(const void *values, int64_t n, int64_t rows, double shift, double *columns,
                    struct td_run *out);
    /* Of floats: NaN or infinite if a value is. */
    double (*sum)(const void *values, int64_t n);
};

/* For integers, float32 and float64: no functions for others. */
extern const struct td_statistics_loops td_statistics_loops_generic[TD_DTYPE_COUNT];
#ifdef __x86_64__
extern const struct td_statistics_loops td_statistics_loops_avx2[TD_DTYPE_COUNT];
extern const struct td_statistics_loops td_statistics_loops_avx512[TD_DTYPE_COUNT];
#endif

#endif
