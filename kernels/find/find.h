/* find.h - finds the row number of each query in a list of keys.
 *
 * Shapes     keys     [n]    int64, uint64 or string, distinct; int32 and uint32 are widened
 *            queries  [...]  dtype of keys
 *            output   [...]  int64: i if keys[i] equals the query, -1 if no key does
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the queries through exec.
 * Errors     INVALID_ARGUMENT, with the positions, if two keys are equal.
 * Cost       Two cache misses per query. If the keys have no index, also the cost of building one
 *            (kernels/key_index/search.h). */
#ifndef TD_KERNELS_FIND_H
#define TD_KERNELS_FIND_H

#include "kernels/op.h"

extern const struct td_op td_op_find;

#endif
