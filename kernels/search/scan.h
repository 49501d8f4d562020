/* scan.h - scores the rows of a table against queries, and selects the best rows of each query.
 *
 * Rows are read in blocks that stay in the cache. The scores of a block go through the threshold of
 * each query, and the few that pass are kept (best.h). Each thread has its own selections, which
 * are merged at the end. Each range of parallel_for is a chunk of rows and a group of queries, so
 * many rows or many queries keep all threads busy.
 *
 * Threads    td_search_scan_run uses exec from the calling thread. */
#ifndef TD_KERNELS_SEARCH_SCAN_H
#define TD_KERNELS_SEARCH_SCAN_H

#include "kernels/exec.h"
#include "kernels/search/best.h"
#include "kernels/search/search.h"
#include "kernels/search/table.h"

struct td_search_query {
    int64_t k; /* number of places in the outputs, at least 1 */
    struct td_search_excluded excluded;
    void *scores; /* float or double */
    int64_t *indices;
};

struct td_search_scan {
    const struct td_search_table *table; /* opened */
    td_search_metric metric;
    /* Row numbers to score, in any order, or NULL for all rows. */
    const int64_t *candidates;
    int64_t n_rows; /* number of candidates, or of rows in the table */
    /* [n_queries, columns], in the type of the table's numbers */
    const void *values;
    const struct td_search_query *queries;
    int64_t n_queries;
};

/* Returns the scratch memory of each thread in bytes, for rows of the dtype `stored` and queries
 * with at most k best rows. */
uint64_t td_search_scan_scratch(td_dtype real, td_dtype stored, int64_t columns, int64_t n_queries,
                                int64_t k);

TD_MUST_CHECK td_status td_search_scan_run(const struct td_search_scan *scan, struct td_exec *exec,
                                           struct td_error *err);

#endif
