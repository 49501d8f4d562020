/* upsert.h - rows of a table replaced, appended and removed by their keys.
 *
 *     upsert   a key that the table has: its row is replaced; the others are appended in their
 *              order
 *     remove   the rows of the keys that the table has are taken out, and the last rows move up:
 *              the first gap gets the last row, the next one the row before it, until none is left
 *
 * Both have two steps, so that the caller can allocate the table in between: find computes a
 * td_row_change, which is then applied to the rows and to their keys.
 *
 *     find ─► td_row_change ─┬─► rows of the table
 *                            └─► their keys, unless none is new or removed
 *
 * Shapes     params [R, S...], row_keys [R]; keys [n], rows [n, S...]
 * Keys       int64, uint64 or string, of one dtype; int32 and uint32 are widened. Of equal
 *            keys of an upsert the last row counts, at the place of the first.
 * Ownership  What a change points to is in exec->arena.
 * Threads    Reentrant; work is split by exec. */
#ifndef TD_KERNELS_UPSERT_H
#define TD_KERNELS_UPSERT_H

#include "kernels/op.h"

enum { TD_UPSERT_PARAMS, TD_UPSERT_ROW_KEYS, TD_UPSERT_KEYS, TD_UPSERT_ROWS };

/* Not among td_ops(): they change a resident table, under the URL path of that table. They have no
 * outputs and no run. */
extern const struct td_op td_op_upsert, td_op_remove;

/* Row from[i] goes to row to[i], for i in [0, n): of the table, or, from its end on, of `rows`. */
struct td_row_change {
    const int64_t *to, *from;
    int64_t n;
    int64_t n_rows;  /* of the table after the change */
    int64_t n_found; /* keys that the table had */
};

/* After infer. Errors of exec. */
TD_MUST_CHECK td_status td_upsert_find(const struct td_op_args *args, struct td_exec *exec,
                                       struct td_row_change *out, struct td_error *err);

/* After infer. */
TD_MUST_CHECK td_status td_remove_find(const struct td_op_args *args, struct td_exec *exec,
                                       struct td_row_change *out, struct td_error *err);

/* Applies the change to `table`; `rows`, of the same dtype, has what is new, and is NULL for a
 * removal. out is described with n_rows rows. Numbers: out->data has the first rows of the table
 * already, as many as both have. Strings: the caller allocates out->offsets; out->data is allocated
 * in exec->arena. RESOURCE_LIMIT as of td_strings_run; errors of exec. */
TD_MUST_CHECK td_status td_row_change_apply(const struct td_row_change *change,
                                            const struct td_tensor *table,
                                            const struct td_tensor *rows, struct td_tensor *out,
                                            struct td_exec *exec, struct td_error *err);

#endif
