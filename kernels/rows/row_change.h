/* row_change.h - applies a change of rows to a table, or to its keys.
 *
 * Ownership  What a change points to is in exec->arena.
 * Threads    Reentrant; work is split by exec. */
#ifndef TD_KERNELS_ROWS_ROW_CHANGE_H
#define TD_KERNELS_ROWS_ROW_CHANGE_H

#include "kernels/op_change.h"

/* Applies the change to `table`; `rows`, of the same dtype, has what is new, and is NULL for a
 * removal. out is described with n_rows rows. Numbers: out->data has the first rows of the table
 * already, as many as both have. Strings: the caller allocates out->offsets; out->data is allocated
 * in exec->arena. RESOURCE_LIMIT as of td_strings_run; errors of exec. */
TD_MUST_CHECK td_status td_row_change_apply(const struct td_row_change *change,
                                            const struct td_tensor *table,
                                            const struct td_tensor *rows, struct td_tensor *out,
                                            struct td_exec *exec, struct td_error *err);

#endif
