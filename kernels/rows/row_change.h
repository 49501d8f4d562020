/* row_change.h - applies a change of rows to a table or to its keys.
 *
 * Ownership  The arrays of a change are in exec->arena.
 * Threads    Reentrant. exec splits the work. */
#ifndef TD_KERNELS_ROWS_ROW_CHANGE_H
#define TD_KERNELS_ROWS_ROW_CHANGE_H

#include "kernels/op_change.h"

/* Applies the change to `table`. `rows` contains the new rows, in the same dtype, or is NULL for a
 * removal. `out` must be described with n_rows rows. For numbers, out->data must already contain
 * the first rows of the table, as many as both tensors have. For strings, the caller allocates
 * out->offsets, and out->data is allocated in exec->arena. Fails with RESOURCE_LIMIT like
 * td_strings_run, or with an error of exec. */
TD_MUST_CHECK td_status td_row_change_apply(const struct td_row_change *change,
                                            const struct td_tensor *table,
                                            const struct td_tensor *rows, struct td_tensor *out,
                                            struct td_exec *exec, struct td_error *err);

#endif
