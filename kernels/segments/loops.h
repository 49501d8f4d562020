/* loops.h - the loops of the segment ops for each instruction set; reduce.c chooses one.
 *
 * Threads    Reentrant. Two calls at the same time must not write the same sums. */
#ifndef TD_KERNELS_SEGMENTS_LOOPS_H
#define TD_KERNELS_SEGMENTS_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of elements. Sums of complex numbers are sums of their parts. */
typedef enum td_segment_type {
    TD_SEGMENT_I32,
    TD_SEGMENT_U32,
    TD_SEGMENT_I64,
    TD_SEGMENT_U64,
    TD_SEGMENT_F32,
    TD_SEGMENT_F64,
    TD_SEGMENT_TYPES
} td_segment_type;

typedef enum td_segment_combination {
    TD_SEGMENT_SUMS, /* signed integers are added as unsigned integers, which wrap around */
    TD_SEGMENT_PRODUCTS,
    TD_SEGMENT_LARGEST, /* NaN if an element is NaN */
    TD_SEGMENT_SMALLEST,
    TD_SEGMENT_COMBINATIONS
} td_segment_combination;

/* Up to 65536 rows of data. "Sums" are also products and extremes. */
struct td_segment_batch {
    const char *data;        /* first column of row 0 */
    size_t row_bytes;        /* distance in bytes between consecutive rows */
    int64_t columns;         /* at least 1 */
    const int64_t *segments; /* the segment of each row; rows with a negative segment are ignored */
    int64_t n_segments;
    const uint16_t *picked; /* the rows to add, in order; the other rows are ignored */
    int64_t n_picked;
    bool all;          /* all rows are picked */
    char *sums;        /* first column of segment 0; aligned to the type */
    size_t sums_bytes; /* distance in bytes between consecutive segments */
    int64_t *counts;   /* number of rows of each segment; NULL: not needed */
    /* Number of rows by which a prefetch precedes the use of a segment's sums. 0: no prefetch. */
    int64_t ahead;
};

/* Combines the sums of segments with the picked rows, in their order, and adds to counts. Returns
 * false if a segment is not below n_segments; its row is ignored. */
typedef bool td_segment_fn(const struct td_segment_batch *batch);

struct td_segment_loops {
    td_segment_fn *loop[TD_SEGMENT_COMBINATIONS][TD_SEGMENT_TYPES];
};

extern const struct td_segment_loops td_segment_loops_generic;
#ifdef __x86_64__
extern const struct td_segment_loops td_segment_loops_avx2;
extern const struct td_segment_loops td_segment_loops_avx512;
#endif

#endif
