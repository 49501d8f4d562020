/* op_change.h - describes ops that change a resident table, for the owner of the table.
 *
 *     in place   run writes to params: outputs[0].data is the data of params
 *     by key     find ─► td_row_change ─┬─► rows of the table      (rows/row_change.h)
 *                                       └─► their keys, unless none is added or removed
 *
 * A change by key has these inputs (td_row_part): the table, its keys (PER_ROW), the keys to change
 * (QUERY), and their new rows, if any (PER_QUERY).
 *
 * Threads  Constants; all functions are reentrant. */
#ifndef TD_KERNELS_OP_CHANGE_H
#define TD_KERNELS_OP_CHANGE_H

#include "kernels/op.h"

/* Moves rows: for i in [0, n), row from[i] becomes row to[i]. In `from`, row numbers past the end
 * of the table select new rows. */
struct td_row_change {
    const int64_t *to, *from;
    int64_t n;
    int64_t n_rows;  /* number of rows after the change */
    int64_t n_found; /* number of keys that the table had before the change */
};

/* The bytes that a change writes: `slice_bytes` bytes at each offset. count is 0 if the change
 * writes nothing. */
struct td_written_slices {
    const uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
};

struct td_op_change {
    /* Computes a change by key, after infer. The arrays of the change are in exec->arena. NULL if
     * the op changes tables in place. */
    td_status (*find)(const struct td_op_args *args, struct td_exec *exec,
                      struct td_row_change *out, struct td_error *err);
    /* Computes the slices that a change in place writes, in the arena. Called after infer if
     * indices are in range, but not for strings. */
    td_status (*slices)(const struct td_op_args *args, struct td_arena *arena,
                        struct td_written_slices *out, struct td_error *err);
    /* For changes by key: the reply member that counts the rows whose keys the table had, and the
     * member that counts all other rows. NULL if the reply does not have the member. */
    const char *found, *added;
};

#define TD_OP(folder, name) extern const struct td_op td_op_##name;
#include "kernels/changes.def"
#undef TD_OP

/* The ops that messages recommend: to write rows by number, to write rows by key, and to remove
 * rows by key. */
extern const struct td_op *const td_row_writer, *const td_key_writer, *const td_row_remover;

#endif
