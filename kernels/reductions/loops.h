/* loops.h - the loops of the reductions for each instruction set. All sets give the same bits.
 *
 * Sums and products of floats have a fixed order, which depends only on the numbers of rows and
 * columns: at most CHAIN elements are added in float32 (or float64), and these sums are added in
 * float64. Sums of float64 are compensated from there on, so that no sum is worse than a pairwise
 * one. Integers wrap around. The maximum and the minimum are found with integers in the order of
 * the elements: NaN wins, -0 is less than 0, and the order of the elements does not matter.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_REDUCTIONS_LOOPS_H
#define TD_KERNELS_REDUCTIONS_LOOPS_H

#include "kernels/dtype.h"
#include "kernels/isa.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Number of rows whose elements are added in the dtype of computation. */
    TD_REDUCE_CHAIN = 16,
    /* Maximum number of columns of a call. Their sums stay in the L1 cache. */
    TD_REDUCE_COLUMNS = 1024
};

/* Which elements of bool and number mean "any" is MAX of bool, "all" is MIN of bool. */
typedef enum {
    TD_REDUCE_SUM,
    TD_REDUCE_PROD,
    TD_REDUCE_MAX,
    TD_REDUCE_MIN,
    TD_REDUCE_KINDS
} td_reduce_kind;

/* Returns the dtype of the results of the loops: float64 for sums and products of floats,
 * complex128 for products of complex numbers, otherwise `dtype`. */
td_dtype td_reduce_result(td_reduce_kind kind, td_dtype dtype);

struct td_reduce_loops {
    /* Reduces n_rows contiguous rows of n elements: to[i] is the result of row i. */
    void (*rows)(void *restrict to, const void *restrict from, int64_t n_rows, int64_t n);
    /* Reduces columns: to[j] is the result of from[i * stride + j] for i in [0, n). If n is 0, the
     * result is 0, 1, or the lowest or highest value. */
    void (*columns)(void *restrict to, const void *restrict from, int64_t n, int64_t stride,
                    int64_t columns);
};

/* Returns the loops, which are NULL for strings, for sums and products of bool, for sums of complex
 * numbers, which are sums of their parts, and for the maximum and minimum of complex numbers. isa
 * must be a result of td_isa_resolve. */
const struct td_reduce_loops *td_reduce_loops_of(td_reduce_kind kind, td_dtype dtype, td_isa isa);

struct td_arg_loops {
    /* As td_reduce_loops, but each result is a key, which is larger for a better element and equal
     * for equal elements, and the position of the first element with this key. If another program
     * changes the elements meanwhile, the position can be any position in [0, n). n is at
     * least 1. */
    void (*rows)(int64_t *restrict keys, int64_t *restrict positions, const void *restrict from,
                 int64_t n_rows, int64_t n);
    void (*columns)(int64_t *restrict keys, int64_t *restrict positions, const void *restrict from,
                    int64_t n, int64_t stride, int64_t columns);
};

/* Returns the loops for TD_REDUCE_MAX or TD_REDUCE_MIN, which are NULL for dtypes without order. */
const struct td_arg_loops *td_arg_loops_of(td_reduce_kind kind, td_dtype dtype, td_isa isa);

/* Loops that add elements one after the other: floats as float64, integers in their own dtype.
 * `reverse` starts with the last element. */
struct td_scan_loops {
    /* Sums rows of n elements, which start `stride` elements apart. */
    void (*total_rows)(void *restrict totals, const void *restrict from, int64_t n_rows, int64_t n,
                       int64_t stride, bool reverse);
    /* Sets each element of `to`, which is like `from`, to before[row] plus the sum of the elements
     * of the row up to this one, or, if exclusive, of the elements before this one. */
    void (*scan_rows)(void *restrict to, const void *restrict from, const void *restrict before,
                      int64_t n_rows, int64_t n, int64_t stride, bool reverse, bool exclusive);
    /* Adds the elements of n rows to the sums of their columns. Rows start `stride` elements apart,
     * which is negative for the reverse order. */
    void (*total_columns)(void *restrict sums, const void *restrict from, int64_t n, int64_t stride,
                          int64_t columns);
    /* As total_columns, and sets each element of `to` to before[column] plus the sum. */
    void (*scan_columns)(void *restrict to, void *restrict sums, const void *restrict from,
                         const void *restrict before, int64_t n, int64_t stride, int64_t columns,
                         bool exclusive);
};

/* Returns the loops, which exist for float32, float64 and integers. */
const struct td_scan_loops *td_scan_loops_of(td_dtype dtype, td_isa isa);

/* The loops of one instruction set. */
struct td_reduction_loops {
    struct td_reduce_loops reduce[TD_REDUCE_KINDS][TD_DTYPE_COUNT];
    struct td_arg_loops arg[TD_REDUCE_KINDS][TD_DTYPE_COUNT];
    struct td_scan_loops scan[TD_DTYPE_COUNT];
};

extern const struct td_reduction_loops td_reduction_loops_generic;
#ifdef __x86_64__
extern const struct td_reduction_loops td_reduction_loops_avx2;
extern const struct td_reduction_loops td_reduction_loops_avx512;
#endif

#endif
