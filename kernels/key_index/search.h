/* search.h - finds the rows of the keys that a call asks for, with or without an open index.
 *
 * Keys without an index are first checked for duplicates. If they are in ascending order, they are
 * distinct, and a few queries are found by bisection. In all other cases, an index is built for the
 * call.
 *
 * Ownership  Borrows keys and queries. The index of a call is in exec->arena. Threads
 * td_key_search_rows is reentrant. td_key_search_begin is called once, before it. Errors
 * INVALID_ARGUMENT if two keys are equal, as in td_key_index_build. */
#ifndef TD_KERNELS_KEY_INDEX_SEARCH_H
#define TD_KERNELS_KEY_INDEX_SEARCH_H

#include "kernels/key_index/key_index.h"
#include "kernels/op.h"

#include <stdatomic.h>

struct td_key_search {
    const struct td_tensor *keys, *queries;
    const struct td_key_index *index; /* NULL: the keys are in ascending order */
    struct td_key_index built;
};

/* Returns SHAPE_MISMATCH unless the keys are a vector. `input` is the name of the keys. */
TD_MUST_CHECK td_status td_key_search_check(const struct td_tensor *keys, const char *input,
                                            struct td_error *err);

/* Adds the cost of td_key_search_begin and of finding all queries. */
void td_key_search_add_cost(const struct td_tensor *keys, const struct td_tensor *queries,
                            struct td_cost *cost);

/* Prepares the search. The queries must have the dtype of the keys. `input` is the name of the
 * keys. */
TD_MUST_CHECK td_status td_key_search_begin(struct td_key_search *search,
                                            const struct td_tensor *keys, const char *input,
                                            const struct td_tensor *queries, struct td_exec *exec,
                                            struct td_error *err);

/* Sets rows[k] to the row of query begin + k, or to TD_ROW_NONE, for k in [0, n). */
void td_key_search_rows(const struct td_key_search *search, int64_t begin, int64_t n,
                        int64_t *rows);

/* Number of queries in one range of parallel_for: 20 us of work at two cache misses per query. */
#define TD_KEY_SEARCH_GRAIN 1024

/* The results of all queries. */
struct td_key_rows {
    int64_t *rows; /* row of each query, or TD_ROW_NONE; the caller's memory */
    bool *found;   /* true for each query that has a row; NULL if not needed */
    /* Number of queries without a row. The sum and the minimum do not depend on the order of the
     * ranges. Relaxed accesses are enough, because the end of parallel_for publishes the values. */
    atomic_int_fast64_t n_missing;
    atomic_int_fast64_t first_missing; /* position of the first query without a row, or INT64_MAX */
};

/* Finds all queries, splitting the work through exec. */
TD_MUST_CHECK td_status td_key_search_all(const struct td_key_search *search,
                                          struct td_key_rows *out, struct td_exec *exec,
                                          struct td_error *err);

/* Sets KEY_NOT_FOUND for element `first` of the queries, n_bad of which have no row. The message
 * shows the first key, so the client sees how keys are written. `keys` is NULL if they are not
 * available here. */
td_status td_key_not_found(struct td_error *err, const char *input, const struct td_tensor *keys,
                           const struct td_tensor *queries, int64_t first, int64_t n_bad);

#endif
