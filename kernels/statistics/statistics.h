/* statistics.h - what the values of a tensor are like: extremes, mean, deviation, norm, how many
 * are not numbers, and the means of blocks for a picture of it.
 *
 * Values     numbers and bool: themselves, true is 1; complex numbers: their absolute values;
 *            strings: their lengths in bytes. All but the counts are of the finite values. -0.0 is
 *            less than 0.0, as in totalOrder of IEEE 754.
 * Blocks     the tensor is seen as a matrix, [first dimension, product of the others]; a scalar is
 *            [1, 1]. Its rows and columns are divided into at most 64 ranges each, whose sizes
 *            differ by at most one, the larger ones first (numpy.array_split).
 * Results    as numpy.mean, numpy.std and numpy.linalg.norm of the values as float64, but no sum on
 *            the way to them overflows: a result is infinite only if it is too large for float64
 *            itself. Their bits depend neither on the number of threads nor on the instruction
 *            set: values are summed in tiles, of which the sums are added in order.
 * Threads    Reentrant. Splits its tiles through exec.
 * Errors     MEMORY_EXHAUSTED, RESOURCE_LIMIT of the arena, and the errors of exec.
 * Source     numpy.mean, numpy.std, numpy.array_split in the NumPy reference; T. F. Chan, G. H.
 *            Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
 *            Variances" (1979). */
#ifndef TD_KERNELS_STATISTICS_H
#define TD_KERNELS_STATISTICS_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

enum { TD_STATISTICS_BLOCKS = 64 }; /* the most along rows, and along columns */

/* How the minimum and the maximum value are given. */
typedef enum {
    TD_NUMBERS_REAL,
    TD_NUMBERS_INTEGER, /* int8 to int64 */
    TD_NUMBERS_NATURAL  /* bool, uint8 to uint64, lengths of strings */
} td_numbers;

union td_number {
    double real;
    int64_t integer;
    uint64_t natural;
};

struct td_statistics {
    int64_t numel, zeros, nans, positive_infinities, negative_infinities;
    int64_t finite;                   /* values, of which follows: */
    td_numbers numbers;               /* of */
    union td_number minimum, maximum; /* not set unless `finite` is 1 or more */
    double mean, deviation;           /* not set unless `finite` is 1 or more */
    double norm;                      /* 0 of none */
    uint64_t bytes;                   /* of strings; 0 for others */
    int64_t rows, columns;            /* of the matrix */
    int row_blocks, column_blocks;
    double minimum_mean, maximum_mean; /* of means; NaN if all are */
    double means[]; /* [row_blocks, column_blocks]; NaN: no finite value in the block */
};

/* Bytes of the statistics of such a tensor; less than 33 KiB. */
size_t td_statistics_bytes(const struct td_tensor *tensor);

/* Where range `block` of `blocks` begins; td_statistics_begin(n, blocks, blocks) is n. */
int64_t td_statistics_begin(int64_t n, int blocks, int block);

/* Estimated, for admission. */
struct td_cost td_statistics_cost(const struct td_tensor *tensor);

/* *out has td_statistics_bytes(tensor). The values may change meanwhile; results are then of
 * any. */
TD_MUST_CHECK td_status td_statistics_run(const struct td_tensor *tensor, struct td_exec *exec,
                                          struct td_statistics *out, struct td_error *err);

#endif
