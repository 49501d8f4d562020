/* measure.h - what the programs here have in common: time, medians, memory that does not disturb.
 *
 * Ownership  Memory is the caller's to free().
 * Errors     Without memory the program ends. */
#ifndef TD_TESTS_BENCH_MEASURE_H
#define TD_TESTS_BENCH_MEASURE_H

#include <stddef.h>

/* Monotonic time, exact to the nanosecond for the first hundred days after a boot. */
double now_ns(void);

/* Sorts the values; of an even number the upper one in the middle. */
double median(double *values, int n);

/* In huge pages where there is more than one and the system gives them, as the daemon's buffers
 * are; each page is there already. */
void *huge_pages(size_t bytes);

/* Zeros at a cache line. */
void *zeroed_memory(size_t bytes);

/* A line such as "label: AMD EPYC"; nothing where the system does not tell. */
void print_cpu(const char *label);

#endif
