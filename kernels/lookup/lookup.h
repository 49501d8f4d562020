/* lookup.h - picks rows of a table by their keys.
 *
 * Shapes     params   [n, P...]     any dtype, including string
 *            keys     [n]           int64, uint64 or string, distinct; int32 and uint32 are widened
 *            queries  [Q...]        dtype of keys
 *            default  [P...], [] or [Q..., P...]  dtype of params
 *            output   [Q..., P...]  dtype of params: params[i] if keys[i] equals the query
 *            found    [Q...]        bool: true if a key equals the query
 * Missing    The attribute missing handles queries that no key equals. With `error`, the first such
 *            query, in row-major order, ends the call with KEY_NOT_FOUND. `zero` gives rows of
 *            zeros or empty strings. `default` gives the row `default`, a row filled with the
 *            scalar `default`, or the query's own row of `default`.
 * Ownership  Borrows all tensors for the call; writes only the outputs.
 * Threads    Reentrant. Splits the queries, then the rows, through exec.
 * Cost       The cost of find (kernels/find) plus the cost of gather (kernels/gather). */
#ifndef TD_KERNELS_LOOKUP_H
#define TD_KERNELS_LOOKUP_H

#include "kernels/op.h"

/* Positions of the inputs in the descriptor. */
enum { TD_LOOKUP_PARAMS, TD_LOOKUP_KEYS, TD_LOOKUP_QUERIES, TD_LOOKUP_DEFAULT, TD_LOOKUP_INPUTS };

typedef enum td_missing { TD_MISSING_ERROR, TD_MISSING_ZERO, TD_MISSING_DEFAULT } td_missing;

struct td_lookup_attrs {
    td_missing missing;
};

extern const struct td_op td_op_lookup;

#endif
