/* keyed_rows.h - finds the rows of a table by its keys, for ops that pick rows by number.
 *
 *     describe, before infer: turns the input into a tensor of int64 row numbers without data
 *     find, before run:       sets the row numbers
 *
 * Ownership  Borrows the keys. The described tensor is in the arena, and the row numbers are in
 *            exec->arena.
 * Threads    Reentrant.
 * Errors     `name` is the name of the keys in errors. INVALID_ARGUMENT if the table has no keys,
 *            if the op does not pick along the first dimension, or if its policy needs a row
 *            number. UNSUPPORTED_DTYPE if the keys do not have the dtype of the table's keys.
 *            KEY_NOT_FOUND unless the policy is zero. */
#ifndef TD_KERNELS_KEY_INDEX_KEYED_ROWS_H
#define TD_KERNELS_KEY_INDEX_KEYED_ROWS_H

#include "kernels/exec.h"
#include "kernels/op.h"

/* Sets missing inputs that take the keys of rows to the keys of the table, if it has keys. */
TD_MUST_CHECK td_status td_keyed_rows_fill(const struct td_op *op, struct td_op_args *args,
                                           struct td_arena *arena, struct td_error *err);

/* Describes input `input`, which the keys replace. Widens 32-bit keys. */
TD_MUST_CHECK td_status td_keyed_rows_describe(const struct td_op *op, struct td_op_args *args,
                                               int input, struct td_tensor *keys, const char *name,
                                               struct td_arena *arena, struct td_error *err);

TD_MUST_CHECK td_status td_keyed_rows_find(const struct td_op *op, struct td_op_args *args,
                                           int input, const struct td_tensor *keys,
                                           const char *name, struct td_exec *exec,
                                           struct td_error *err);

/* Adds the cost of td_keyed_rows_find. */
void td_keyed_rows_add_cost(const struct td_op_args *args, const struct td_tensor *keys,
                            struct td_cost *cost);

#endif
