#include "kernels/lookup/lookup.h"

#include "kernels/key_dtype.h"
#include "kernels/key_index/search.h"
#include "kernels/op_rows.h"
#include "kernels/rows/gathering.h"
#include "kernels/workspace.h"

#include <string.h>

enum { OUTPUT, FOUND, OUTPUTS };

static const char *const missing_names[] = {
    [TD_MISSING_ERROR] = "error",
    [TD_MISSING_ZERO] = "zero",
    [TD_MISSING_DEFAULT] = "default",
    NULL,
};

_Static_assert(sizeof(td_missing) == sizeof(unsigned), "choices are stored as unsigned int");

static td_missing missing_of(const struct td_op_args *args)
{
    struct td_lookup_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.missing;
}

static bool uses_default(const struct td_op_args *args)
{
    return missing_of(args) == TD_MISSING_DEFAULT;
}

/* ---- Checks ------------------------------------------------------------------------------ */

static td_status check_keys(const struct td_shape *params, const struct td_tensor *keys,
                            struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_status status = td_key_search_check(keys, "keys", err);
    if (status != TD_OK || keys->shape.dim[0] == params->dim[0])
        return status;
    td_error_set(
        err, TD_SHAPE_MISMATCH, "keys has shape %s and params %s; expected a key for each row",
        td_shape_text(&keys->shape, text, sizeof(text)), td_shape_text(params, more, sizeof(more)));
    td_error_add_shape(err, "params", params);
    td_error_add_shape(err, "keys", &keys->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "keys");
}

/* Sets *out to the shape of the rows found for all queries. Returns false if the rank is too
 * high. */
static bool rows_shape(const struct td_op_args *args, struct td_shape *out)
{
    const struct td_shape *params = &args->inputs[TD_LOOKUP_PARAMS].tensors->shape;
    *out = args->inputs[TD_LOOKUP_QUERIES].tensors->shape;
    return td_shape_append(out, params, 1, params->rank);
}

/* True if the default has one row per query. */
static bool has_default_rows(const struct td_op_args *args)
{
    const struct td_operand *given = &args->inputs[TD_LOOKUP_DEFAULT];
    struct td_shape rows;
    return given->count > 0 && given->tensors[0].shape.rank > 0 && rows_shape(args, &rows) &&
           td_shape_equal(&given->tensors[0].shape, &rows);
}

static td_status check_default(const struct td_op_args *args, td_missing missing,
                               struct td_error *err)
{
    const struct td_shape *params = &args->inputs[TD_LOOKUP_PARAMS].tensors->shape,
                          *queries = &args->inputs[TD_LOOKUP_QUERIES].tensors->shape;
    const struct td_operand *given = &args->inputs[TD_LOOKUP_DEFAULT];
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (missing == TD_MISSING_DEFAULT && given->count == 0) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "default is missing; expected a tensor with missing = default");
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "default");
    }
    if (missing != TD_MISSING_DEFAULT)
        return TD_OK;
    const struct td_shape *shape = &given->tensors[0].shape;
    struct td_shape row = { .rank = 0 };
    (void)td_shape_append(&row, params, 1, params->rank);
    if (shape->rank == 0 || td_shape_equal(shape, &row) || has_default_rows(args))
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "default has shape %s; expected a scalar, a row of params, which has shape %s, or "
                 "one such row per query",
                 td_shape_text(shape, text, sizeof(text)), td_shape_text(&row, more, sizeof(more)));
    td_error_add_shape(err, "params", params);
    td_error_add_shape(err, "queries", queries);
    td_error_add_shape(err, "default", shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "default");
}

static td_status describe(const struct td_op_args *args, struct td_tensor *outputs,
                          struct td_error *err)
{
    const struct td_tensor *params = args->inputs[TD_LOOKUP_PARAMS].tensors;
    const struct td_shape *queries = &args->inputs[TD_LOOKUP_QUERIES].tensors->shape;
    struct td_shape shape;
    if (!rows_shape(args, &shape))
        return td_error_resource(err, "rank", (uint64_t)(queries->rank + params->shape.rank - 1),
                                 TD_MAX_RANK, "output");
    td_status status = td_tensor_describe(&outputs[OUTPUT], "output", params->dtype, &shape, err);
    return status == TD_OK
               ? td_tensor_describe(&outputs[FOUND], "found", TD_DTYPE_BOOL, queries, err)
               : status;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_shape *params = &args->inputs[TD_LOOKUP_PARAMS].tensors->shape;
    if (params->rank == 0)
        return td_gathering_refuse_scalar("params", err);
    td_status status = check_keys(params, args->inputs[TD_LOOKUP_KEYS].tensors, err);
    if (status == TD_OK)
        status = check_default(args, missing_of(args), err);
    if (status == TD_OK)
        status = td_op_outputs(args, OUTPUTS, arena, err);
    return status == TD_OK ? describe(args, args->outputs, err) : status;
}

/* ---- Cost -------------------------------------------------------------------------------- */

/* Returns the number of elements per row, or 0 if the output has no elements. */
static int64_t row_numel(const struct td_op_args *args)
{
    const int64_t numel = args->outputs[OUTPUT].numel;
    return numel > 0 ? numel / args->inputs[TD_LOOKUP_QUERIES].tensors->numel : 0;
}

/* Returns the size in bytes of a row filled with a scalar default. For strings, counts only the
 * offsets. */
static uint64_t repeated_bytes(const struct td_op_args *args)
{
    const struct td_operand *given = &args->inputs[TD_LOOKUP_DEFAULT];
    if (missing_of(args) != TD_MISSING_DEFAULT || given->tensors[0].shape.rank > 0)
        return 0;
    const uint64_t numel = (uint64_t)row_numel(args);
    return given->tensors[0].dtype == TD_DTYPE_STRING
               ? td_workspace_align((numel + 1) * sizeof(uint64_t))
               : td_workspace_align(numel * td_dtype_info(given->tensors[0].dtype)->size);
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *queries = args->inputs[TD_LOOKUP_QUERIES].tensors;
    struct td_cost cost = td_gathering_copy_cost(args->inputs[TD_LOOKUP_PARAMS].tensors,
                                                 &args->outputs[OUTPUT], row_numel(args));
    cost.bytes_written += args->outputs[FOUND].bytes;
    cost.workspace =
        td_workspace_align((uint64_t)queries->numel * sizeof(int64_t)) + repeated_bytes(args);
    td_key_search_add_cost(args->inputs[TD_LOOKUP_KEYS].tensors, queries, &cost);
    return cost;
}

/* ---- Search ------------------------------------------------------------------------------ */

/* The state of a lookup. All queries are searched before any row is copied, so the counted rows are
 * the copied rows even if a client writes to keys and queries during the call. */
struct job {
    struct td_key_search search;
    struct td_key_rows found;
};

static td_status find_rows(struct job *job, const struct td_op_args *args, struct td_exec *exec,
                           struct td_error *err)
{
    const struct td_tensor *queries = args->inputs[TD_LOOKUP_QUERIES].tensors;
    struct td_key_rows *found = &job->found;
    found->rows = td_arena_alloc(exec->arena, (size_t)queries->numel, sizeof(found->rows[0]), err);
    if (!found->rows)
        return err->status;
    found->found = args->outputs[FOUND].data;
    td_status status = td_key_search_begin(&job->search, args->inputs[TD_LOOKUP_KEYS].tensors,
                                           "keys", queries, exec, err);
    if (status == TD_OK)
        status = td_key_search_all(&job->search, found, exec, err);
    if (status == TD_OK && found->n_missing > 0 && missing_of(args) == TD_MISSING_ERROR)
        return td_key_not_found(err, "queries", args->inputs[TD_LOOKUP_KEYS].tensors, queries,
                                found->first_missing, found->n_missing);
    return status;
}

/* ---- Copy -------------------------------------------------------------------------------- */

/* Repeats a string to fill a row. The output has at least one such row, so a row that exceeds the
 * output limit is refused. */
static td_status repeat_string(struct td_tensor *row, const struct td_tensor *scalar, size_t numel,
                               struct td_exec *exec, struct td_error *err)
{
    const char *string = (const char *)scalar->data + scalar->offsets[0];
    const size_t length = scalar->offsets[1] - scalar->offsets[0];
    size_t bytes;
    if (!td_size_mul(numel, length, &bytes))
        bytes = SIZE_MAX;
    if (bytes > exec->output_limit)
        return td_error_resource(err, "output_bytes", bytes, exec->output_limit, "the output");
    row->offsets = td_arena_alloc(exec->arena, numel + 1, sizeof(row->offsets[0]), err);
    row->data = row->offsets ? td_arena_alloc(exec->arena, bytes, 1, err) : NULL;
    if (!row->data)
        return err->status;
    row->offsets[0] = 0;
    for (size_t i = 0; i < numel; i++) {
        memcpy((char *)row->data + i * length, string, length);
        row->offsets[i + 1] = (i + 1) * length;
    }
    return TD_OK;
}

static td_status repeat_number(struct td_tensor *row, const struct td_tensor *scalar, size_t numel,
                               struct td_exec *exec, struct td_error *err)
{
    const size_t size = td_dtype_info(scalar->dtype)->size;
    row->data = td_arena_alloc(exec->arena, numel, size, err);
    if (!row->data)
        return err->status;
    for (size_t i = 0; i < numel; i++)
        memcpy((char *)row->data + i * size, scalar->data, size);
    return TD_OK;
}

/* Sets *row to the default, repeating a scalar default to fill the row. Only the data of the row
 * and, for strings, its offsets are used. */
static td_status default_row(struct td_tensor *row, const struct td_tensor *given, int64_t numel,
                             struct td_exec *exec, struct td_error *err)
{
    *row = *given;
    if (given->shape.rank > 0)
        return TD_OK;
    return given->dtype == TD_DTYPE_STRING ? repeat_string(row, given, (size_t)numel, exec, err)
                                           : repeat_number(row, given, (size_t)numel, exec, err);
}

/* Implements td_rows_fn for lookup. A missing key has the row TD_ROW_ZERO. */
#if TD_ROW_NONE != TD_ROW_ZERO
#error "the copy uses the row numbers of the search"
#endif
/* NOLINTNEXTLINE(readability-non-const-parameter): a td_rows_fn can write to rows */
static const int64_t *rows_found(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct job *job = context;
    (void)n;
    (void)rows;
    return job->found.rows + begin;
}

static td_status copy_rows(const struct job *job, const struct td_op_args *args,
                           struct td_exec *exec, struct td_error *err)
{
    const struct td_operand *given = &args->inputs[TD_LOOKUP_DEFAULT];
    struct td_tensor row;
    struct td_gathering gathering = {
        .table = args->inputs[TD_LOOKUP_PARAMS].tensors,
        .out = &args->outputs[OUTPUT],
        .n_rows = args->inputs[TD_LOOKUP_QUERIES].tensors->numel,
        .row_numel = row_numel(args),
        .rows = rows_found,
        .context = job,
        .may_be_zero = job->found.n_missing > 0,
    };
    if (job->found.n_missing > 0 && missing_of(args) == TD_MISSING_DEFAULT) {
        td_status status = default_row(&row, &given->tensors[0], gathering.row_numel, exec, err);
        if (status != TD_OK)
            return status;
        gathering.zero_row = &row;
        gathering.zero_step = has_default_rows(args);
    }
    return td_gathering_run(&gathering, exec, err);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct job job = { .found = { .rows = NULL } };
    td_status status = find_rows(&job, args, exec, err);
    if (status == TD_KEY_NOT_FOUND && args->inputs[TD_LOOKUP_DEFAULT].count > 0)
        td_error_hint(err, "with missing = default, missing keys give the default");
    if (status != TD_OK || args->outputs[OUTPUT].numel == 0)
        return status;
    return copy_rows(&job, args, exec, err);
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* Returns false if a single default applies to all queries. Such a default belongs to no query, and
 * another call can have a different default. */
static bool is_plain(const struct td_op_args *args)
{
    return args->inputs[TD_LOOKUP_DEFAULT].count == 0 || has_default_rows(args);
}

static const struct td_op_rows rows = {
    .is_plain = is_plain,
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = TD_ROWS_NONE,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = 0,
    .found_output = FOUND,
    .numbers_output = TD_ROWS_NONE,
};

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    [TD_LOOKUP_PARAMS] = {
        .name = "params",
        .summary = "The table, of rank 1 or more. Each row along its first dimension has a key.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_LOOKUP_KEYS] = {
        .name = "keys",
        .summary = "The keys of the rows, a vector of distinct elements.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_LOOKUP_QUERIES] = {
        .name = "queries",
        .summary = "The keys of the rows to pick, a tensor of any rank.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_QUERY,
    },
    [TD_LOOKUP_DEFAULT] = {
        .name = "default",
        .summary = "The result for a missing key: a row, a scalar for all elements of a row, or a "
                   "row for each query. Required with missing = default, otherwise not used.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .optional = true,
        .part = TD_ROW_PART_PER_QUERY,
        .is_used = uses_default,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "missing",
        .summary = "How queries without a matching key are handled: error refuses the request, "
                   "zero gives zeros or empty strings, default gives the input default.",
        .kind = TD_ATTR_CHOICE,
        .choices = missing_names,
        .default_int = TD_MISSING_ERROR,
        .offset = offsetof(struct td_lookup_attrs, missing),
    },
};

static const td_status errors[] = {
    TD_KEY_NOT_FOUND,    TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    [OUTPUT] = {
        .name = "output",
        .summary = "The rows, in the order of queries.",
        .shape_rule = "queries.shape + params.shape[1:]",
        .dtype_of = "params",
    },
    [FOUND] = {
        .name = "found",
        .summary = "True if a key is equal to the query.",
        .shape_rule = "queries.shape",
        .dtypes = TD_DTYPE_BIT(BOOL),
    },
};

static const struct td_op_example examples[] = {
    { "rows by key",
      "{\"params\":[[1,2],[3,4],[5,6]],\"keys\":[\"a\",\"b\",\"c\"],\"queries\":[\"c\",\"a\"]}" },
    { "a default for a missing key",
      "{\"params\":[[1,2],[3,4],[5,6]],\"keys\":[\"a\",\"b\",\"c\"],\"queries\":[\"c\",\"z\"],"
      "\"missing\":\"default\",\"default\":[-1,-1]}" },
    { NULL, NULL },
};

const struct td_op td_op_lookup = {
    .name = "lookup",
    .summary = "Picks rows of a table by their keys.",
    .source = "tf.lookup.StaticHashTable (TensorFlow 2 API reference), with rows as values, and "
              "with missing and found as additions",
    .inputs = inputs_specs,
    .n_inputs = TD_LOOKUP_INPUTS,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = OUTPUTS,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .rows = &rows,
};
