/* loops.h - reductions and maps of blocks of elements, with loops for each instruction set.
 *
 * A block has at most TD_NORM_LANES columns, and each column is reduced separately. A block of
 * contiguous elements has a single column: its elements are distributed to the lanes in turn, and
 * the lanes are combined in pairs at the end. The order of a sum therefore depends only on the
 * block.
 *
 * Aliasing   `to` can be equal to `from`, and does not overlap it otherwise.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_NORMALISATION_LOOPS_H
#define TD_KERNELS_NORMALISATION_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

enum { TD_NORM_LANES = 64 };

struct td_norm_block {
    const void *from;
    void *to;
    int64_t from_stride, to_stride; /* in elements, from one row of columns to the next */
    int64_t n;                      /* number of elements of each column */
    int columns;                    /* 1 if contiguous */
    bool contiguous;
};

/* What is known of each column. */
enum { TD_NORM_SHIFT, TD_NORM_FACTOR, TD_NORM_FACTS };
struct td_norm_facts {
    double of[TD_NORM_FACTS][TD_NORM_LANES];
};

/* The result of a reduction for each column. The moments of a contiguous block are the mean and, in
 * `squares`, the sum of the squared deviations from it. */
struct td_norm_sums {
    double of[TD_NORM_LANES];
    double squares;
};

typedef enum td_norm_reduction {
    TD_NORM_MAXIMUM,      /* the maximum; NaN does not count */
    TD_NORM_EXP_SUM,      /* the sum of e^(x - shift) */
    TD_NORM_EXPONENTIALS, /* TD_NORM_EXP_SUM; also stores the terms to `to` */
    TD_NORM_SQUARES,      /* the sum of x^2, which does not overflow */
    TD_NORM_MOMENTS,      /* contiguous blocks only */
    TD_NORM_REDUCTIONS,   /* also stands for no reduction */
} td_norm_reduction;

typedef enum td_norm_map {
    TD_NORM_SCALE,       /* x * factor */
    TD_NORM_SUBTRACT,    /* x - shift - factor */
    TD_NORM_STANDARDISE, /* (x - shift) * factor * scale + bias; contiguous blocks only */
    TD_NORM_MAPS,
} td_norm_map;

typedef void td_norm_reduce_fn(const struct td_norm_block *block, const struct td_norm_facts *facts,
                               struct td_norm_sums *sums);

/* `scale` and `bias` have an element for each element of a contiguous block. bias can be NULL. */
typedef void td_norm_map_fn(const struct td_norm_block *block, const struct td_norm_facts *facts,
                            const void *scale, const void *bias);

struct td_norm_loops {
    td_norm_reduce_fn *reduce[TD_NORM_REDUCTIONS];
    td_norm_map_fn *map[TD_NORM_MAPS];
};

/* [0]: of float; [1]: of double. */
extern const struct td_norm_loops td_norm_loops_generic[2];
#ifdef __x86_64__
extern const struct td_norm_loops td_norm_loops_avx2[2];
extern const struct td_norm_loops td_norm_loops_avx512[2];
#endif

#endif
