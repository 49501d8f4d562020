/* search.h - the op search: the best rows of a table for each query, exactly, in one pass.
 *
 *     params [n, d], queries [q, d] or [d]          scores, indices, keys [q, c] or [c]
 *     params [n, d], rows [q] or []                 c = min(k, n), or min(k, m) with candidates [m]
 *
 * Semantics  README.md. The table is read once for all queries of a pass, in blocks that stay in
 *            the cache; scores of all rows are never stored (scan.h).
 * Threads    See op.h. */
#ifndef TD_KERNELS_SEARCH_SEARCH_H
#define TD_KERNELS_SEARCH_SEARCH_H

#include "kernels/op.h"
#include "kernels/quantized.h"

/* Positions of the inputs in the descriptor. */
enum {
    TD_SEARCH_PARAMS,
    TD_SEARCH_QUERIES,
    TD_SEARCH_ROWS,
    TD_SEARCH_CANDIDATES,
    TD_SEARCH_EXCLUDE,
    TD_SEARCH_KEYS,
    TD_SEARCH_SCALE,
    TD_SEARCH_OFFSET,
    TD_SEARCH_ZERO_POINT,
    TD_SEARCH_INPUTS
};

enum { TD_SEARCH_SCORES, TD_SEARCH_INDICES, TD_SEARCH_KEYS_FOUND, TD_SEARCH_OUTPUTS };

/* How a row is scored against a query. The values are in the order of the attribute's choices. */
typedef enum td_search_metric {
    TD_SEARCH_DOT,
    TD_SEARCH_COSINE,
    TD_SEARCH_L2 /* the Euclidean distance; the smallest is the best */
} td_search_metric;

struct td_search_attrs {
    int64_t k;
    td_search_metric metric;
    td_row_layout layout;
    bool exclude_self;
};

extern const struct td_op td_op_search;

#endif
