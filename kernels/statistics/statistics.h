/* statistics.h - describes the values of a tensor: extremes, mean, deviation, norm, the numbers of
 * values that are not finite, and block means for a picture of the tensor.
 *
 * Values     The elements for real numbers and bool (true is 1), the absolute values for complex
 *            numbers, and the lengths in bytes for strings. All results except the counts cover
 *            only the finite values. -0.0 is less than 0.0, as in totalOrder of IEEE 754.
 * Blocks     The tensor is treated as a matrix [first dimension, product of the others]; a scalar
 *            is [1, 1]. Rows and columns are each divided into at most 64 ranges, whose sizes
 *            differ by at most 1, larger ranges first (numpy.array_split).
 * Results    The results equal numpy.mean, numpy.std and numpy.linalg.norm of the values as
 *            float64, except that intermediate sums do not overflow: a result is infinite only if
 *            it is itself too large for float64. The bits do not depend on the number of threads or
 *            on the instruction set, because values are summed in tiles and the sums of the tiles
 *            are added in order.
 * Threads    Reentrant. Splits its tiles through exec.
 * Errors     MEMORY_EXHAUSTED or RESOURCE_LIMIT from the arena, and the errors of exec.
 * Source     numpy.mean, numpy.std, numpy.array_split in the NumPy reference; T. F. Chan, G. H.
 *            Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
 *            Variances" (1979). */
#ifndef TD_KERNELS_STATISTICS_H
#define TD_KERNELS_STATISTICS_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

enum { TD_STATISTICS_BLOCKS = 64 }; /* maximum number of blocks along rows, and along columns */

/* The member of td_number that holds the minimum and the maximum. */
typedef enum {
    TD_NUMBERS_REAL,
    TD_NUMBERS_INTEGER, /* int8 to int64 */
    TD_NUMBERS_NATURAL  /* for bool, uint8 to uint64, and lengths of strings */
} td_numbers;

union td_number {
    double real;
    int64_t integer;
    uint64_t natural;
};

struct td_statistics {
    int64_t numel, zeros, nans, positive_infinities, negative_infinities;
    /* Number of finite values; the members below describe these values. */
    int64_t finite;
    td_numbers numbers;               /* the member used by minimum and maximum */
    union td_number minimum, maximum; /* set only if there are finite values */
    double mean, deviation;           /* set only if there are finite values */
    double norm;                      /* 0 if no value is finite */
    uint64_t bytes;                   /* strings: total length; otherwise 0 */
    int64_t rows, columns;            /* shape of the matrix */
    int row_blocks, column_blocks;
    double minimum_mean, maximum_mean; /* extremes of `means`; NaN if all means are NaN */
    double means[]; /* [row_blocks, column_blocks]; NaN if a block has no finite value */
};

/* Returns the size in bytes of the statistics of a tensor, which is less than 33 KiB. */
size_t td_statistics_bytes(const struct td_tensor *tensor);

/* Returns the start of range `block`, for n elements divided into `blocks` ranges.
 * td_statistics_begin(n, blocks, blocks) is n. */
int64_t td_statistics_begin(int64_t n, int blocks, int block);

/* Returns the estimated cost, for admission control. */
struct td_cost td_statistics_cost(const struct td_tensor *tensor);

/* Fills *out, which has td_statistics_bytes(tensor) bytes. If values change during the run, the
 * results can describe any mix of old and new values. */
TD_MUST_CHECK td_status td_statistics_run(const struct td_tensor *tensor, struct td_exec *exec,
                                          struct td_statistics *out, struct td_error *err);

#endif
