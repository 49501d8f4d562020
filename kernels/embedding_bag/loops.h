/* loops.h - the loops of embedding_bag as built for one instruction set; bags.c chooses.
 *
 * A batch is some bags whose row numbers are known. Sums of float64 are computed in double, of all
 * others in float: this is the type `real` of weights, factors and sums below.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_EMBEDDING_BAG_LOOPS_H
#define TD_KERNELS_EMBEDDING_BAG_LOOPS_H

#include "kernels/zero_point.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_bag_batch {
    const char *table; /* the first column of row 0 */
    size_t row_bytes;  /* from a row to the next */
    int64_t columns;   /* 1 or more */
    const int64_t *rows;
    int64_t n_known;     /* so many rows are known, of this batch and the next ones */
    int64_t ahead;       /* a row is prefetched so many rows before it is read; 0: never */
    const void *weights; /* real, of each of `rows`; NULL: all are 1 */
    /* int8, uint8: a float for each row of the table, and the distance from one to the next. */
    const char *scales;
    size_t scale_bytes;
    const char *offsets; /* NULL: zero_points */
    size_t offset_bytes;
    struct td_zero_points zero_points;
    const int64_t *ends; /* of each bag in rows; the first begins at 0 */
    int64_t n_bags;
    bool single;         /* each has one row */
    const void *factors; /* real, of each bag, for its sum; NULL: all are 1 */
    void *sums;          /* real [n_bags, columns], or of the dtype of the table if `narrow` */
    size_t sums_bytes;   /* from a bag to the next */
    bool narrow;         /* float16 and bfloat16, where td_bag_loops.narrows */
    bool stream;         /* written with streaming stores; for whole vectors, aligned to them */
};

typedef void td_bag_fn(const struct td_bag_batch *batch);

/* NULL for other dtypes. Those of int8 and uint8 are given scales and offsets. */
struct td_bag_loops {
    bool narrows; /* rounds sums to float16 and bfloat16 */
    td_bag_fn *sum[TD_DTYPE_COUNT];
    td_bag_fn *weighted_sum[TD_DTYPE_COUNT];
    td_bag_fn *greatest[TD_DTYPE_COUNT]; /* -infinity for a bag without rows; NaN wins */
};

extern const struct td_bag_loops td_bag_loops_generic;
#ifdef __x86_64__
extern const struct td_bag_loops td_bag_loops_avx2;
extern const struct td_bag_loops td_bag_loops_avx512;
#endif

#endif
