/* op_change.h - ops that change a resident table: what the table's owner needs to know of them.
 *
 *     in place   run writes to params: outputs[0].data is the data of params
 *     by key     find ─► td_row_change ─┬─► rows of the table      (rows/row_change.h)
 *                                       └─► their keys, unless none is new or removed
 *
 * The inputs of a change by key have parts (td_row_part): the table, its keys PER_ROW, the keys to
 * change QUERY, and PER_QUERY their rows, if there are new ones.
 *
 * Threads  Constants; all functions are reentrant. */
#ifndef TD_KERNELS_OP_CHANGE_H
#define TD_KERNELS_OP_CHANGE_H

#include "kernels/op.h"

/* Row from[i] goes to row to[i], for i in [0, n): of the table, or, from its end on, of the new
 * rows. */
struct td_row_change {
    const int64_t *to, *from;
    int64_t n;
    int64_t n_rows;  /* of the table after the change */
    int64_t n_found; /* keys that the table had */
};

/* The bytes of a table that a change writes: `slice_bytes` at each of the offsets; count is 0 when
 * there is nothing to write. */
struct td_written_slices {
    const uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
};

struct td_op_change {
    /* By key; NULL: in place. After infer. What the change points to is in exec->arena. */
    td_status (*find)(const struct td_op_args *args, struct td_exec *exec,
                      struct td_row_change *out, struct td_error *err);
    /* In place. After infer, for indices in range, not for strings. In arena. */
    td_status (*slices)(const struct td_op_args *args, struct td_arena *arena,
                        struct td_written_slices *out, struct td_error *err);
    /* By key: what the reply calls the rows that the table had, and those that it had not. NULL:
     * it does not count them. */
    const char *found, *added;
};

#define TD_OP(folder, name) extern const struct td_op td_op_##name;
#include "kernels/changes.def"
#undef TD_OP

#endif
