/* measure.h - shared by the benchmarks: time, medians, populated memory.
 *
 * Ownership  Memory is the caller's to free().
 * Errors     Without memory the program ends. */
#ifndef TD_TESTS_BENCH_MEASURE_H
#define TD_TESTS_BENCH_MEASURE_H

#include <stddef.h>

/* Monotonic time; a double is exact to the nanosecond for a hundred days after a boot. */
double now_ns(void);

/* Sorts the values; the upper of the two middle ones if their number is even. */
double median(double *values, int n);

/* Populated memory, in huge pages if it is larger than one and the system has them, as the daemon's
 * buffers. */
void *huge_pages(size_t bytes);

/* Zeros, aligned to a cache line. */
void *zeroed_memory(size_t bytes);

/* Prints a line such as "label: AMD EPYC", or nothing if the model is unknown. */
void print_cpu(const char *label);

#endif
