/* gathering.h - what gather and gather_nd have in common besides the loops of rows.h: checks, the
 * output, the cost, and the copy of all rows.
 *
 * Such an op has the inputs params (the table) and indices, whose leading batch dimensions are
 * equal, and one output. It supplies one function (td_rows_fn) that maps output rows to table rows.
 *
 * Threads  Reentrant. td_gathering_run splits the output through exec; the parts never overlap. */
#ifndef TD_KERNELS_ROWS_GATHERING_H
#define TD_KERNELS_ROWS_GATHERING_H

#include "kernels/rows/rows.h"

/* The inputs of a gathering op, in the order of its descriptor. */
enum { TD_GATHERING_PARAMS, TD_GATHERING_INDICES };

/* The bounds attribute, as member `bounds` of the attrs struct `type`. */
#define TD_GATHERING_BOUNDS(type)                                                                  \
    {                                                                                              \
        .name = "bounds",                                                                          \
        .summary = "How indices out of range are handled: error refuses the request, zero "        \
                   "gives zeros (empty strings), clip uses the nearest valid index, wrap "         \
                   "counts modulo the size, so that -1 is the last.",                              \
        .kind = TD_ATTR_CHOICE, .choices = td_bounds_names, .default_int = TD_BOUNDS_ERROR,        \
        .offset = offsetof(type, bounds),                                                          \
    }

/* Reports INVALID_ARGUMENT: the input is a scalar and must not be one. */
td_status td_gathering_refuse_scalar(const char *input, struct td_error *err);

/* SHAPE_MISMATCH unless the first batch_dims dimensions of both are equal. Neither rank is below
 * batch_dims. */
TD_MUST_CHECK td_status td_gathering_check_batch(const struct td_shape *params,
                                                 const struct td_shape *indices, int batch_dims,
                                                 struct td_error *err);

/* Adds both shapes to a SHAPE_MISMATCH, and indices as the input at fault. */
td_status td_gathering_shapes_at_fault(struct td_error *err, const struct td_shape *params,
                                       const struct td_shape *indices);

/* Refuses indices of rank 1 that are one tuple where a tuple for each row was meant. Returns
 * SHAPE_MISMATCH. */
td_status td_gathering_refuse_flat(struct td_error *err, const struct td_shape *params,
                                   const struct td_shape *indices);

/* *space = the dimensions [first_dim, first_dim + depth) of params, which tuples index. The strides
 * are meaningless when params has no elements. */
void td_gathering_tuple_space(const struct td_shape *params, int first_dim, int depth,
                              struct td_tuple_space *space);

/* Reports INDEX_OUT_OF_BOUNDS for element `first` of indices, a component of a tuple, with the
 * whole tuple in the message. Component 0 indexes dimension first_dim of params. */
td_status td_gathering_bad_tuple(const struct td_tensor *params, const struct td_tensor *indices,
                                 int first_dim, int64_t first, int64_t n_bad, struct td_error *err);

/* Describes the output, of this dtype, whose dimensions are those of the parts, in order.
 * RESOURCE_LIMIT when they are more than TD_MAX_RANK. */
struct td_gathering_part {
    const struct td_shape *shape;
    int begin, end;
};
TD_MUST_CHECK td_status td_gathering_output(struct td_op_args *args, td_dtype dtype,
                                            const struct td_gathering_part *parts, int n_parts,
                                            struct td_arena *arena, struct td_error *err);

/* The cost of copying rows of row_numel elements from params to out. */
struct td_cost td_gathering_copy_cost(const struct td_tensor *params, const struct td_tensor *out,
                                      int64_t row_numel);

/* The cost of a call whose output consists of rows of row_numel elements. */
struct td_cost td_gathering_cost(const struct td_op_args *args, int64_t row_numel);

/* The table consists of slices of slice_rows rows, the output of slices of slice_out rows. On entry
 * rows[k] is the number of a row within its slice, for output row begin + k; on return it is its
 * number in the whole table: slice_rows * ((begin + k) / slice_out) is added. TD_ROW_ZERO stays. */
void td_gathering_add_slice_offsets(int64_t *rows, int64_t n, int64_t begin, int64_t slice_out,
                                    int64_t slice_rows);

/* Returns the table rows for the output rows [begin, begin + n), n <= TD_ROWS_CHUNK: either `rows`,
 * after writing them there, or an array that has them already. Runs on any thread. */
typedef const int64_t *td_rows_fn(const void *context, int64_t begin, int64_t n, int64_t *rows);

/* A gather with checked indices. */
struct td_gathering {
    const struct td_tensor *table;
    struct td_tensor *out;
    int64_t n_rows;    /* of out; neither this nor row_numel is 0 */
    int64_t row_numel; /* elements in a row */
    td_rows_fn *rows;
    const void *context;
    bool may_be_zero; /* rows may return TD_ROW_ZERO */
    /* The row_numel elements, of the dtype of the table, that TD_ROW_ZERO gives; NULL: zeros, empty
     * strings. With zero_step 1 there is such a row for each row of out, with 0 one for all. */
    const struct td_tensor *zero_row;
    int64_t zero_step;
};

/* Fills out, which has the dtype of the table; or any other if neither is string and there is no
 * zero_row: then rows are cast while they are copied. The bytes of strings are allocated in
 * exec->arena. */
TD_MUST_CHECK td_status td_gathering_run(const struct td_gathering *job, struct td_exec *exec,
                                         struct td_error *err);

#endif
