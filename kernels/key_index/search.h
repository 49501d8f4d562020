/* search.h - finds the rows of the keys that a call asks for: through the open index of the keys,
 * or without one.
 *
 * Keys of a call that have no index are an input that nobody has checked yet: they must be
 * distinct. If they ascend they are, and few queries are found by bisection; otherwise an index is
 * built for the call.
 *
 * Ownership  Borrows keys and queries. The index of a call is in exec->arena.
 * Threads    td_key_search_rows is reentrant; td_key_search_begin is called once, before it.
 * Errors     INVALID_ARGUMENT when two keys are equal, as td_key_index_build. */
#ifndef TD_KERNELS_KEY_INDEX_SEARCH_H
#define TD_KERNELS_KEY_INDEX_SEARCH_H

#include "kernels/key_index/key_index.h"
#include "kernels/op.h"

#include <stdatomic.h>

struct td_key_search {
    const struct td_tensor *keys, *queries;
    const struct td_key_index *index; /* NULL: the keys ascend */
    struct td_key_index built;
};

/* SHAPE_MISMATCH unless the keys are a vector. `input` is their name. */
TD_MUST_CHECK td_status td_key_search_check(const struct td_tensor *keys, const char *input,
                                            struct td_error *err);

/* Adds the cost of td_key_search_begin, and of finding all queries. */
void td_key_search_add_cost(const struct td_tensor *keys, const struct td_tensor *queries,
                            struct td_cost *cost);

/* The queries have the dtype of the keys. `input` is the name of the keys. */
TD_MUST_CHECK td_status td_key_search_begin(struct td_key_search *search,
                                            const struct td_tensor *keys, const char *input,
                                            const struct td_tensor *queries, struct td_exec *exec,
                                            struct td_error *err);

/* rows[k] = the row of query begin + k, or TD_ROW_NONE, for k in [0, n). */
void td_key_search_rows(const struct td_key_search *search, int64_t begin, int64_t n,
                        int64_t *rows);

/* Queries in one range of parallel_for: 20 us where each is two cache misses. */
#define TD_KEY_SEARCH_GRAIN 1024

/* What is found of all queries. */
struct td_key_rows {
    int64_t *rows; /* of each query, or TD_ROW_NONE; the caller's memory */
    bool *found;   /* whether it has one; NULL: not asked for */
    /* Sum and minimum do not depend on the order of the ranges. Relaxed: the end of parallel_for
     * publishes them. */
    atomic_int_fast64_t n_missing;
    atomic_int_fast64_t first_missing; /* the first query without a row; INT64_MAX for none */
};

/* Finds all queries; exec splits the work. */
TD_MUST_CHECK td_status td_key_search_all(const struct td_key_search *search,
                                          struct td_key_rows *out, struct td_exec *exec,
                                          struct td_error *err);

/* Reports KEY_NOT_FOUND for element `first` of the queries, of which n_bad have no row. The message
 * has the first of the keys, which shows how they are written; NULL: they are elsewhere. */
td_status td_key_not_found(struct td_error *err, const char *input, const struct td_tensor *keys,
                           const struct td_tensor *queries, int64_t first, int64_t n_bad);

#endif
