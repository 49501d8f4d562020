/* arguments.h - the inputs, attributes and sizes of a search call, and their checks.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_SEARCH_ARGUMENTS_H
#define TD_KERNELS_SEARCH_ARGUMENTS_H

#include "kernels/search/search.h"

struct td_search_attrs td_search_attrs(const struct td_op_args *args);

/* Returns an input's tensor, or NULL if the request does not give it. */
const struct td_tensor *td_search_given(const struct td_op_args *args, int input);

/* Sizes of a call whose arguments have been checked. */
struct td_search_sizes {
    int64_t n_rows, columns; /* of params */
    int64_t n_queries;       /* 1 for a single query */
    int64_t n_scored;        /* rows that are scored for each query: n_rows, or the candidates */
    int64_t n_best;          /* rows that are returned for each query */
    td_dtype real;           /* the dtype of the scores: float32 or float64 */
};
struct td_search_sizes td_search_sizes(const struct td_op_args *args);

/* Checks shapes, and which inputs are given. */
TD_MUST_CHECK td_status td_search_check(const struct td_op_args *args, struct td_error *err);

#endif
