/* measure.h - time, medians and populated memory for the benchmarks.
 *
 * Ownership  The caller frees memory with free().
 * Errors     The program ends if there is no memory. */
#ifndef TD_TESTS_BENCH_MEASURE_H
#define TD_TESTS_BENCH_MEASURE_H

#include <stddef.h>

/* Returns monotonic time in ns. A double is exact to 1 ns for a hundred days after boot. */
double now_ns(void);

/* Sorts the values and returns the median, or the upper of the two middle values if `n` is even. */
double median(double *values, int n);

/* Returns populated memory. If it is larger than a huge page and the system has huge pages, it uses
 * them, as the daemon's buffers do. */
void *huge_pages(size_t bytes);

/* Returns zeroed memory, aligned to a cache line. */
void *zeroed_memory(size_t bytes);

/* Prints a line such as "label: AMD EPYC", or nothing if the model is unknown. */
void print_cpu(const char *label);

#endif
