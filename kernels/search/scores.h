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
#define TD_SEARCH_BLOCK     60 /* maximum number of rows in a block */
#define TD_SEARCH_TILE_ROWS 12 /* a multiple of the number of rows in a tile */
#define TD_SEARCH_LANES     16 /* maximum number of queries in a panel */
#define TD_SEARCH_PANELS    2  /* maximum number of panels in a tile */
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

/* Sets sums[q * TD_SEARCH_BLOCK + r] for each query q and each row r of the block. If norms is not
 * NULL, also sets norms[r] to the sum of the squares of the row. The queries and the sums are
 * float, or double for float64 rows. */
typedef void td_search_sums_fn(void *sums, void *norms, const struct td_search_block *block,
                               const void *queries);

/* Several queries are packed into panels of `lanes` queries, so that a vector contains one element
 * of each query. The function sets sums[(p * TD_SEARCH_BLOCK + r) * lanes + q] for each of n_rows
 * rows r, which are a multiple of TD_SEARCH_TILE_ROWS, and for query q of each of n panels p, at
 * most TD_SEARCH_PANELS. It prefetches the n_rows rows at `later`. Rows and queries have the type
 * of the sums. */
typedef void td_search_tile_fn(void *sums, const char *const *rows, const char *const *later,
                               int n_rows, const void *panels, int n, int64_t columns);

/* Loops with sums of one type, float or double. */
struct td_search_real_loops {
    int alone; /* maximum number of queries for which it is faster to score them one by one */
    int few;   /* number of queries that are interleaved; 0 if there is no loop for them */
    /* Interleaves n queries, at most `few`. `to` has room for `few` queries, whose columns are
     * rounded up to TD_SEARCH_SUM_BYTES. The queries that are missing are 0. */
    void (*interleave)(void *to, const void *queries, int n, int64_t columns);
    int lanes; /* number of queries in a panel */
    td_search_tile_fn *tile[TD_SEARCH_SUMS];
    /* Replaces each of n sums of squared differences by minus its root, so that a larger score is
     * better. */
    void (*distances)(void *sums, int n);
    /* Divides each of n sums of products by the norms of row and query, which are given as sums of
     * squares. The result is 0 if either is 0. */
    void (*cosines)(void *sums, const void *norms, double query_norm, int n);
    /* True if any of n scores is at least the threshold. False for NaN. */
    bool (*any_at_least)(const void *scores, int n, double threshold);
    /* Packs n queries, at most `lanes`, into a panel of `lanes` queries. The others are 0. */
    void (*pack)(void *panel, const void *queries, int n, int64_t columns);
    /* As `cosines`, for the sums of a panel. */
    void (*panel_cosines)(void *sums, const void *norms, const double *query_norms, int n_rows);
    /* Sets bit q of lanes[r] if the score of row r and query q of a panel is at least
     * thresholds[q]. Returns true if any bit is set. */
    bool (*reach)(const void *scores, const double *thresholds, int n_rows, uint16_t *lanes);
};

struct td_search_loops {
    /* NULL for dtypes that must be converted first. */
    td_search_sums_fn *one[TD_SEARCH_SUMS][TD_DTYPE_COUNT]; /* for one query */
    td_search_sums_fn *few[TD_SEARCH_SUMS][TD_DTYPE_COUNT]; /* for interleaved queries */
    const struct td_search_real_loops *of_float, *of_double;
};

extern const struct td_search_loops td_search_loops_generic;
#ifdef __x86_64__
extern const struct td_search_loops td_search_loops_avx2;
extern const struct td_search_loops td_search_loops_avx512;
#endif

#endif
