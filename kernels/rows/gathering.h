/* gathering.h - code that gather and gather_nd share, in addition to the loops of rows.h: checks,
 * the output, the cost, and the copy of all rows.
 *
 * A gathering op has one output and two inputs with equal batch dimensions: params (the table) and
 * indices. The op supplies a function (td_rows_fn) that maps output rows to table rows.
 *
 * Threads    Reentrant. td_gathering_run splits the output through exec, and the parts never
 *            overlap. */
#ifndef TD_KERNELS_ROWS_GATHERING_H
#define TD_KERNELS_ROWS_GATHERING_H

#include "kernels/rows/rows.h"

/* Positions of the inputs in the descriptor of a gathering op. */
enum { TD_GATHERING_PARAMS, TD_GATHERING_INDICES };

/* Descriptor of the attribute `bounds`, stored in the member `bounds` of the attrs struct
 * `type`. */
#define TD_GATHERING_BOUNDS(type)                                                                  \
    {                                                                                              \
        .name = "bounds",                                                                          \
        .summary = "How indices out of range are handled: error refuses the request, zero gives "  \
                   "zeros or empty strings, clip uses the nearest valid index, wrap counts "       \
                   "modulo the size, so that -1 is the last.",                                     \
        .kind = TD_ATTR_CHOICE, .choices = td_bounds_names, .default_int = TD_BOUNDS_ERROR,        \
        .offset = offsetof(type, bounds),                                                          \
    }

/* Sets INVALID_ARGUMENT for an input that is a scalar but must not be. */
td_status td_gathering_refuse_scalar(const char *input, struct td_error *err);

/* Returns SHAPE_MISMATCH unless the first batch_dims dimensions of both shapes are equal. Both
 * ranks must be at least batch_dims. */
TD_MUST_CHECK td_status td_gathering_check_batch(const struct td_shape *params,
                                                 const struct td_shape *indices, int batch_dims,
                                                 struct td_error *err);

/* Adds both shapes to a SHAPE_MISMATCH error and names indices as the invalid input. */
td_status td_gathering_shapes_at_fault(struct td_error *err, const struct td_shape *params,
                                       const struct td_shape *indices);

/* Sets SHAPE_MISMATCH for indices of rank 1, which form a single tuple. The message says how to
 * pass one tuple per row, which the client probably meant. */
td_status td_gathering_refuse_flat(struct td_error *err, const struct td_shape *params,
                                   const struct td_shape *indices);

/* Sets *space to the dimensions [first_dim, first_dim + depth) of params, which tuples index. The
 * strides are meaningless if params has no elements. */
void td_gathering_tuple_space(const struct td_shape *params, int first_dim, int depth,
                              struct td_tuple_space *space);

/* Describes the output, whose dimensions are the dimensions of the parts in order. Returns
 * RESOURCE_LIMIT if the rank exceeds TD_MAX_RANK. */
struct td_gathering_part {
    const struct td_shape *shape;
    int begin, end;
};
TD_MUST_CHECK td_status td_gathering_output(struct td_op_args *args, td_dtype dtype,
                                            const struct td_gathering_part *parts, int n_parts,
                                            struct td_arena *arena, struct td_error *err);

/* Returns the cost of copying rows of row_numel elements from params to out. */
struct td_cost td_gathering_copy_cost(const struct td_tensor *params, const struct td_tensor *out,
                                      int64_t row_numel);

/* Returns the cost of a call whose output consists of rows of row_numel elements. */
struct td_cost td_gathering_cost(const struct td_op_args *args, int64_t row_numel);

/* Converts row numbers within slices to row numbers in the table. The table consists of slices of
 * slice_rows rows, and the output of slices of slice_out rows. On entry, rows[k] is the row within
 * its slice for output row begin + k. Adds slice_rows * ((begin + k) / slice_out), and leaves
 * TD_ROW_ZERO unchanged. */
void td_gathering_add_slice_offsets(int64_t *rows, int64_t n, int64_t begin, int64_t slice_out,
                                    int64_t slice_rows);

/* Returns the table rows for the output rows [begin, begin + n), where n <= TD_ROWS_CHUNK. Returns
 * `rows` after filling it, or another array that contains the row numbers. Runs on any thread. */
typedef const int64_t *td_rows_fn(const void *context, int64_t begin, int64_t n, int64_t *rows);

/* A gather whose indices have been checked. */
struct td_gathering {
    const struct td_tensor *table;
    struct td_tensor *out;
    int64_t n_rows;    /* number of rows of out; neither n_rows nor row_numel is 0 */
    int64_t row_numel; /* number of elements per row */
    td_rows_fn *rows;
    const void *context;
    bool may_be_zero; /* the function `rows` can return TD_ROW_ZERO */
    /* The elements that replace TD_ROW_ZERO, in the dtype of the table: one row for each row of out
     * if zero_step is 1, or a single row if zero_step is 0. NULL means zeros or empty strings. */
    const struct td_tensor *zero_row;
    int64_t zero_step;
};

/* Fills out. If its dtype differs from the dtype of the table, casts rows while copying them.
 * Neither dtype may then be string, and zero_row must be NULL. The bytes of strings are allocated
 * in exec->arena. */
TD_MUST_CHECK td_status td_gathering_run(const struct td_gathering *job, struct td_exec *exec,
                                         struct td_error *err);

#endif
