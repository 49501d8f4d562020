/* scores.h - the sums from which scores are computed, with loops for each instruction set.
 *
 * Every sum has TD_SEARCH_SUM_BYTES of partial sums, such as 16 floats: element i of a row is added
 * to partial sum i modulo their number, with a fused multiply-add where the processor has one. The
 * partial sums of TD_SEARCH_COLUMNS columns are then added in a fixed order. A sum therefore has
 * the same bits whichever loop computes it: alone or beside other rows and queries, on any thread,
 * and on any instruction set with fused multiply-adds.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_SEARCH_SCORES_H
#define TD_KERNELS_SEARCH_SCORES_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define TD_SEARCH_SUM_BYTES 64
#define TD_SEARCH_COLUMNS   4096
#define TD_SEARCH_BLOCK     64 /* maximum number of rows in a block */
#define TD_SEARCH_TILE      8  /* maximum number of queries in a tile */
#define TD_SEARCH_TILE_ROWS 4  /* number of rows in a tile */
#define TD_SEARCH_AHEAD     48 /* maximum number of rows that are prefetched after a block */

typedef enum td_search_sum {
    TD_SEARCH_PRODUCTS,
    TD_SEARCH_DIFFERENCES, /* squared */
    TD_SEARCH_SUMS
} td_search_sum;

/* A block of rows as they are stored. */
struct td_search_block {
    /* Addresses of the rows, and of `ahead` rows that will be read after them. */
    const char *rows[TD_SEARCH_BLOCK + TD_SEARCH_AHEAD];
    int n_rows, ahead;
    const char *end; /* of the memory that contains the rows */
    int64_t columns;
    /* For int8 and uint8: the value of an element x is x * scale + offset if `by_offset`,
     * otherwise (x - offset) * scale. */
    bool by_offset;
    float scale[TD_SEARCH_BLOCK];
    double offset[TD_SEARCH_BLOCK];
};

/* Sets sums[i] for each row of the block and one query. If norms is not NULL, also sets norms[i] to
 * the sum of the squares of the row. The query and the sums are float, or double for float64
 * rows. */
typedef void td_search_one_fn(void *sums, void *norms, const struct td_search_block *block,
                              const void *query);

/* Sets sums[q * TD_SEARCH_BLOCK + r] for each row r and query q of a tile, whose size is a constant
 * of the loops. Rows and queries have the type of the sums. The queries are stored one after
 * another. */
typedef void td_search_tile_fn(void *sums, const char *const *rows, const void *queries,
                               int64_t columns);

/* Loops with sums of one type, float or double. */
struct td_search_real_loops {
    td_search_tile_fn *tile[TD_SEARCH_SUMS];
    /* Replaces each of n sums of squared differences by minus its root, so that a larger score is
     * better. */
    void (*distances)(void *sums, int n);
    /* Divides each of n sums of products by the norms of row and query, which are given as sums of
     * squares. The result is 0 if either is 0. */
    void (*cosines)(void *sums, const void *norms, double query_norm, int n);
    /* True if any of n scores is at least the threshold. False for NaN. */
    bool (*any_at_least)(const void *scores, int n, double threshold);
};

struct td_search_loops {
    int tile_queries; /* number of queries in a tile */
    /* NULL for dtypes that must be converted first. */
    td_search_one_fn *one[TD_SEARCH_SUMS][TD_DTYPE_COUNT];
    const struct td_search_real_loops *of_float, *of_double;
};

extern const struct td_search_loops td_search_loops_generic;
#ifdef __x86_64__
extern const struct td_search_loops td_search_loops_avx2;
extern const struct td_search_loops td_search_loops_avx512;
#endif

#endif
