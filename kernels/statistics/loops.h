/* loops.h - the loops over the values of a tile, for each instruction set. They give the same bits
 * on all of them: each has LANES partial sums, which are added in order.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_STATISTICS_LOOPS_H
#define TD_KERNELS_STATISTICS_LOOPS_H

#include <stdint.h>

struct td_statistics_loops {
    /* Of n >= 1 values. The sum is not finite if a value is not; then the others mean nothing. */
    void (*measure)(const double *values, int64_t n, double *sum, double *minimum, double *maximum,
                    int64_t *zeros);
    /* The sum of the squares of the differences from the mean. Adds values[i] to columns[i]. */
    double (*squares)(const double *values, int64_t n, double mean, double *columns);
};

extern const struct td_statistics_loops td_statistics_loops_generic, td_statistics_loops_avx2,
    td_statistics_loops_avx512;

#endif
