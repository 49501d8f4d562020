/* gathering.h - the frame of an op that gathers rows: what gather and gather_nd share beside the
 * loops of rows.h.
 *
 * Such an op takes params (the table) and indices, which agree in their leading batch dimensions,
 * and gives one output. It supplies one function, from output rows to table rows.
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
        .summary = "What an index out of range gives: error refuses the request, zero stores "     \
                   "zeros (empty strings), clip takes the nearest valid one, wrap counts modulo "  \
                   "the size, so that -1 is the last.",                                            \
        .kind = TD_ATTR_CHOICE, .choices = td_bounds_names, .default_int = TD_BOUNDS_ERROR,        \
        .offset = offsetof(type, bounds),                                                          \
    }

/* An input that must have a dimension has none: INVALID_ARGUMENT. */
td_status td_gathering_refuse_scalar(const char *input, struct td_error *err);

/* SHAPE_MISMATCH unless the first batch_dims dimensions agree; both have as many. */
TD_MUST_CHECK td_status td_gathering_check_batch(const struct td_shape *params,
                                                 const struct td_shape *indices, int batch_dims,
                                                 struct td_error *err);

/* Adds to a SHAPE_MISMATCH the two shapes that do not go together; indices is the input at fault.
 */
td_status td_gathering_shapes_at_fault(struct td_error *err, const struct td_shape *params,
                                       const struct td_shape *indices);

/* The dimensions [first_dim, first_dim + depth) of params, as tuples index them. Strides tell
 * nothing where params has no elements. */
void td_gathering_tuple_space(const struct td_shape *params, int first_dim, int depth,
                              struct td_tuple_space *space);

/* Reports element `first` of indices, a component of a tuple in that space: INDEX_OUT_OF_BOUNDS,
 * with the tuple it stands in. */
td_status td_gathering_bad_tuple(const struct td_tensor *params, const struct td_tensor *indices,
                                 int first_dim, int64_t first, int64_t n_bad, struct td_error *err);

/* Makes the one output, whose dimensions are those of the parts in order. RESOURCE_LIMIT when they
 * are more than TD_MAX_RANK. */
struct td_gathering_part {
    const struct td_shape *shape;
    int begin, end;
};
TD_MUST_CHECK td_status td_gathering_output(struct td_op_args *args,
                                            const struct td_gathering_part *parts, int n_parts,
                                            struct td_arena *arena, struct td_error *err);

/* Of a call whose output consists of rows of row_numel elements. */
struct td_cost td_gathering_cost(const struct td_op_args *args, int64_t row_numel);

/* Output row begin + k belongs to slice (begin + k) / slice_out of the table, which begins at row
 * slice * slice_rows: moves rows[k], a row number in the slice, there. */
void td_gathering_into_slices(int64_t *rows, int64_t n, int64_t begin, int64_t slice_out,
                              int64_t slice_rows);

/* Table rows of output rows begin .. begin + n, n <= TD_ROWS_CHUNK: written to `rows` and returned,
 * or returned from where they are. Runs on any thread. */
typedef const int64_t *td_rows_fn(const void *context, int64_t begin, int64_t n, int64_t *rows);

/* A gather whose indices have been checked. */
struct td_gathering {
    const struct td_tensor *table;
    struct td_tensor *out;
    int64_t n_rows;    /* of out; neither this nor row_numel is 0 */
    int64_t row_numel; /* elements in a row */
    td_rows_fn *rows;
    const void *context;
    bool may_be_zero; /* rows gives TD_ROW_ZERO at times */
};

/* Fills out. Strings: their bytes come from exec->arena. */
TD_MUST_CHECK td_status td_gathering_run(const struct td_gathering *job, struct td_exec *exec,
                                         struct td_error *err);

#endif
