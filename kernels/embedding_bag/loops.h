/* loops.h - the loops of embedding_bag for each instruction set; bags.c chooses one.
 *
 * A batch is a set of bags whose row numbers are known. Weights, factors and sums have a type
 * called `real` below: double for float64, and float for all other dtypes.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_EMBEDDING_BAG_LOOPS_H
#define TD_KERNELS_EMBEDDING_BAG_LOOPS_H

#include "kernels/zero_point.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_bag_batch {
    const char *table; /* first column of row 0 */
    size_t row_bytes;  /* distance in bytes between consecutive rows */
    int64_t columns;   /* at least 1 */
    const int64_t *rows;
    /* Number of known elements of `rows`: the rows of this batch, followed by rows of the next
     * batches. */
    int64_t n_known;
    /* Number of rows by which a prefetch precedes the read of a row. 0: no prefetch. */
    int64_t ahead;
    /* True for the first batch of a range: its first rows have not been prefetched. */
    bool fresh;
    const void *weights; /* weights as real, one for each of `rows`; NULL: all are 1 */
    /* Scales of int8 and uint8 tables, one float per row, and the distance in bytes between
     * consecutive floats. */
    const char *scales;
    size_t scale_bytes;
    const char *offsets; /* offset of each row; if NULL, zero_points is used */
    size_t offset_bytes;
    struct td_zero_points zero_points;
    const int64_t *ends; /* end of each bag in `rows`; the first bag starts at 0 */
    int64_t n_bags;
    bool single;         /* each bag has exactly one row */
    const void *factors; /* factor of each bag's sum, as real; NULL: all are 1 */
    /* Sums as real [n_bags, columns], or in the dtype of the table if `narrow` is true. */
    void *sums;
    size_t sums_bytes; /* distance in bytes between consecutive bags */
    /* True if sums are written as float16 or bfloat16. Requires td_bag_loops.narrows. */
    bool narrow;
    /* True if sums are written with streaming stores. Requires rows of whole, aligned vectors. */
    bool stream;
};

typedef void td_bag_fn(const struct td_bag_batch *batch);

/* Loops by dtype, or NULL for dtypes without loops. The loops for int8 and uint8 require scales,
 * and either offsets or zero_points. */
struct td_bag_loops {
    bool narrows; /* true if the loops can round sums to float16 and bfloat16 */
    td_bag_fn *sum[TD_DTYPE_COUNT];
    td_bag_fn *weighted_sum[TD_DTYPE_COUNT];
    /* The maximum is -infinity for a bag without rows, and NaN if a row contains NaN. */
    td_bag_fn *greatest[TD_DTYPE_COUNT];
};

extern const struct td_bag_loops td_bag_loops_generic;
#ifdef __x86_64__
extern const struct td_bag_loops td_bag_loops_avx2;
extern const struct td_bag_loops td_bag_loops_avx512;
#endif

#endif
