/* loops.h - the loops over the values of a tile, for each instruction set. All sets give the same
 * bits, because each loop has LANES partial sums, which are added in order.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_STATISTICS_LOOPS_H
#define TD_KERNELS_STATISTICS_LOOPS_H

#include <stdint.h>

struct td_statistics_loops {
    /* Measures n >= 1 values. If a value is not finite, *sum is not finite, and the other results
     * are meaningless. */
    void (*measure)(const double *values, int64_t n, double *sum, double *minimum, double *maximum,
                    int64_t *zeros);
    /* Returns the sum of the squared differences from the mean, and adds values[i] to
     * columns[i]. */
    double (*squares)(const double *values, int64_t n, double mean, double *columns);
};

extern const struct td_statistics_loops td_statistics_loops_generic, td_statistics_loops_avx2,
    td_statistics_loops_avx512;

#endif
