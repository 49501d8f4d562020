#include "kernels/search/search.h"

#include "kernels/by_rows.h"
#include "kernels/convert/cast_path.h"
#include "kernels/integers.h"
#include "kernels/key_dtype.h"
#include "kernels/merge.h"
#include "kernels/op_pass.h"
#include "kernels/rows/gathering.h"
#include "kernels/search/arguments.h"
#include "kernels/search/scan.h"
#include "kernels/search/scores.h"

#include <string.h>

static const char *const metric_names[] = {
    [TD_SEARCH_DOT] = "dot",
    [TD_SEARCH_COSINE] = "cosine",
    [TD_SEARCH_L2] = "l2",
    NULL,
};

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    td_status status = td_search_check(args, err);
    if (status != TD_OK)
        return status;
    const struct td_search_sizes sizes = td_search_sizes(args);
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS),
                           *rows = td_search_given(args, TD_SEARCH_ROWS);
    const bool single =
        rows ? rows->shape.rank == 0 : td_search_given(args, TD_SEARCH_QUERIES)->shape.rank == 1;
    struct td_shape shape = { .rank = 1, .dim = { sizes.n_best } };
    if (!single)
        shape = (struct td_shape){ .rank = 2, .dim = { sizes.n_queries, sizes.n_best } };
    status = td_op_outputs(args, keys ? TD_SEARCH_OUTPUTS : TD_SEARCH_KEYS_FOUND, arena, err);
    if (status == TD_OK)
        status =
            td_tensor_describe(&args->outputs[TD_SEARCH_SCORES], "scores", sizes.real, &shape, err);
    if (status == TD_OK)
        status = td_tensor_describe(&args->outputs[TD_SEARCH_INDICES], "indices", TD_DTYPE_INT64,
                                    &shape, err);
    if (status == TD_OK && keys)
        status = td_tensor_describe(&args->outputs[TD_SEARCH_KEYS_FOUND], "keys", keys->dtype,
                                    &shape, err);
    return status;
}

/* ---- Cost -------------------------------------------------------------------------------- */

static uint64_t count(const struct td_op_args *args, int input)
{
    const struct td_tensor *tensor = td_search_given(args, input);
    return tensor ? (uint64_t)tensor->numel : 0;
}

/* Counts each row as read once: the passes of a call with many queries compute more than they
 * read. A row without columns still takes the time to compare its score. */
static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_search_sizes sizes = td_search_sizes(args);
    const uint64_t n_scored = (uint64_t)sizes.n_scored, n_queries = (uint64_t)sizes.n_queries;
    const uint64_t columns = (uint64_t)sizes.columns;
    const uint64_t size = td_dtype_info(sizes.real)->size;
    const uint64_t row_bytes =
        columns * td_dtype_info(td_search_given(args, TD_SEARCH_PARAMS)->dtype)->size;
    const uint64_t n_numbers = count(args, TD_SEARCH_ROWS) + count(args, TD_SEARCH_CANDIDATES) +
                               2 * count(args, TD_SEARCH_EXCLUDE);
    struct td_cost cost = {
        .bytes_read = td_capped_product(n_scored, row_bytes) + sizeof(int64_t) * n_numbers,
        .random_reads = count(args, TD_SEARCH_ROWS) + count(args, TD_SEARCH_CANDIDATES),
        .flops = td_capped_product(
            td_capped_product(2 * n_queries, (uint64_t)td_larger(1, sizes.columns)), n_scored),
        .workspace =
            td_capped_product(2 * n_queries + TD_SEARCH_LANES,
                              columns * size + TD_SEARCH_SUM_BYTES) +
            sizeof(int64_t) * n_numbers +
            (n_queries + TD_SEARCH_LANES) * (sizeof(struct td_search_query) + sizeof(double)),
        .workspace_per_thread =
            td_search_scan_scratch(sizes.real, td_search_given(args, TD_SEARCH_PARAMS)->dtype,
                                   sizes.columns, sizes.n_queries, td_larger(sizes.n_best, 1)),
    };
    for (int i = 0; i < args->n_outputs; i++)
        cost.bytes_written += args->outputs[i].bytes;
    return cost;
}

/* ---- Row numbers ------------------------------------------------------------------------- */

/* Checks the row numbers of an input and copies them to *out. Leaves *out NULL if the input is not
 * given. */
static td_status read_numbers(const struct td_op_args *args, int input, const char *name,
                              int64_t **out, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *numbers = td_search_given(args, input);
    const int64_t bound = td_search_given(args, TD_SEARCH_PARAMS)->shape.dim[0];
    int64_t n_bad, first;
    if (!numbers)
        return TD_OK;
    td_status status = td_rows_check(numbers, bound, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (n_bad > 0)
        return td_rows_out_of_bounds(err, name, numbers, first, n_bad, bound, 0, "");
    *out = td_arena_alloc(exec->arena, (size_t)numbers->numel, sizeof((*out)[0]), err);
    if (!*out)
        return err->status;
    td_rows_resolve_indices(numbers, 0, numbers->numel, bound, TD_BOUNDS_ERROR, *out);
    return TD_OK;
}

static bool are_rows(const struct td_op_args *args, int input)
{
    const struct td_tensor *numbers = td_search_given(args, input);
    const int64_t n_rows = td_search_given(args, TD_SEARCH_PARAMS)->shape.dim[0];
    if (numbers && numbers->numel > 0 && !numbers->data)
        return false;
    for (int64_t i = 0; numbers && i < numbers->numel; i++) {
        const int64_t row = td_tensor_index_at(numbers, i);
        if (row < 0 || row >= n_rows)
            return false;
    }
    return true;
}

static bool valid(const struct td_op_args *args)
{
    return are_rows(args, TD_SEARCH_ROWS) && are_rows(args, TD_SEARCH_CANDIDATES) &&
           are_rows(args, TD_SEARCH_EXCLUDE);
}

/* A call whose inputs have been checked and converted: the plan of the call after prepare. If
 * n_queries is 0, there is nothing to search. */
struct job {
    struct td_search_table table;
    int64_t *rows, *candidates, *exclude; /* NULL if not given */
    const struct td_tensor *given;        /* the input queries, or NULL */
    struct td_cast_path path;             /* converts queries */
    char *values;
    size_t query_bytes;
    struct td_search_query *queries;
    int64_t n_queries;
};

static td_status read_all_numbers(const struct td_op_args *args, struct job *job,
                                  struct td_exec *exec, struct td_error *err)
{
    td_status status = read_numbers(args, TD_SEARCH_ROWS, "rows", &job->rows, exec, err);
    if (status == TD_OK)
        status =
            read_numbers(args, TD_SEARCH_CANDIDATES, "candidates", &job->candidates, exec, err);
    if (status == TD_OK)
        status = read_numbers(args, TD_SEARCH_EXCLUDE, "exclude", &job->exclude, exec, err);
    if (status != TD_OK || !job->exclude)
        return status;
    const int64_t n = td_search_given(args, TD_SEARCH_EXCLUDE)->numel;
    int64_t *spare = td_arena_alloc(exec->arena, (size_t)n, sizeof(*spare), err);
    if (!spare)
        return err->status;
    job->exclude = td_search_sort_numbers(job->exclude, n, spare);
    return TD_OK;
}

/* ---- Queries ----------------------------------------------------------------------------- */

static struct td_search_table table_of(const struct td_op_args *args)
{
    const struct td_tensor *params = td_search_given(args, TD_SEARCH_PARAMS),
                           *scale = td_search_given(args, TD_SEARCH_SCALE),
                           *offset = td_search_given(args, TD_SEARCH_OFFSET);
    return (struct td_search_table){
        .data = params->data,
        .row_bytes = (size_t)params->shape.dim[1] * td_dtype_info(params->dtype)->size,
        .dtype = params->dtype,
        .n_rows = params->shape.dim[0],
        .columns = td_search_sizes(args).columns,
        .trailer = td_search_attrs(args).layout == TD_ROW_LAYOUT_BYTE_ROWWISE,
        .scale = scale ? scale->data : NULL,
        .offset = offset ? offset->data : NULL,
        .scale_step = scale ? scale->shape.rank : 0,
        .offset_step = offset ? offset->shape.rank : 0,
        .zero_points = td_zero_points_of(td_search_given(args, TD_SEARCH_ZERO_POINT)),
    };
}

static void convert_queries(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t columns = job->table.columns;
    for (int64_t q = begin; q < end; q++) {
        char *to = job->values + (size_t)q * job->query_bytes;
        if (!job->given) {
            td_search_table_read(&job->table, job->rows[q], to);
            continue;
        }
        const char *from = (const char *)job->given->data +
                           (size_t)(q * columns) * td_dtype_info(job->given->dtype)->size;
        if (job->path.n_steps > 0)
            td_cast_path_run(&job->path, to, from, columns);
        else
            memcpy(to, from, job->query_bytes);
    }
}

static td_status read_queries(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const td_dtype real = job->table.real;
    job->values = td_arena_alloc(exec->arena, (size_t)job->n_queries, job->query_bytes, err);
    if (!job->values)
        return err->status;
    if (job->given)
        td_cast_path_find(&job->path, job->given->dtype, real, td_isa_resolve(exec->isa));
    return td_exec_for(exec, job->n_queries, td_rows_in_range(job->query_bytes), convert_queries,
                       job, err);
}

static td_status describe_queries(const struct td_op_args *args, struct job *job,
                                  struct td_exec *exec, struct td_error *err)
{
    const struct td_search_sizes sizes = td_search_sizes(args);
    const struct td_tensor *exclude = td_search_given(args, TD_SEARCH_EXCLUDE);
    const bool exclude_self = job->rows && td_search_attrs(args).exclude_self;
    char *scores = args->outputs[TD_SEARCH_SCORES].data;
    int64_t *indices = args->outputs[TD_SEARCH_INDICES].data;
    const size_t score_bytes = (size_t)sizes.n_best * td_dtype_info(sizes.real)->size;
    job->queries = td_arena_alloc(exec->arena, (size_t)sizes.n_queries, sizeof(*job->queries), err);
    if (!job->queries)
        return err->status;
    for (int64_t q = 0; q < sizes.n_queries; q++)
        job->queries[q] = (struct td_search_query){
            .k = sizes.n_best,
            .excluded = { .self = exclude_self ? job->rows[q] : TD_SEARCH_NO_ROW,
                          .rows = job->exclude,
                          .n = exclude ? exclude->numel : 0 },
            .scores = scores + (size_t)q * score_bytes,
            .indices = indices + q * sizes.n_best,
        };
    return TD_OK;
}

/* ---- Execution --------------------------------------------------------------------------- */

static td_status prepare(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_search_sizes sizes = td_search_sizes(args);
    struct job *job = td_arena_alloc(exec->arena, 1, sizeof(*job), err);
    if (!job)
        return err->status;
    *job =
        (struct job){ .table = table_of(args), .given = td_search_given(args, TD_SEARCH_QUERIES) };
    args->plan = job;
    td_search_table_open(&job->table, sizes.real, td_isa_resolve(exec->isa));
    job->query_bytes = (size_t)sizes.columns * td_dtype_info(sizes.real)->size;
    td_status status = read_all_numbers(args, job, exec, err);
    if (status != TD_OK || args->outputs[TD_SEARCH_SCORES].numel == 0)
        return status;
    job->n_queries = sizes.n_queries;
    status = read_queries(job, exec, err);
    return status == TD_OK ? describe_queries(args, job, exec, err) : status;
}

/* Sets the queries of a scan to the queries of all calls. */
static td_status join_queries(struct td_op_args *const *calls, int n, struct td_search_scan *scan,
                              struct td_exec *exec, struct td_error *err)
{
    const struct job *first = calls[0]->plan;
    for (int i = 0; i < n; i++)
        scan->n_queries += ((const struct job *)calls[i]->plan)->n_queries;
    if (scan->n_queries == first->n_queries) {
        scan->values = first->values;
        scan->queries = first->queries;
        return TD_OK;
    }
    const size_t query_bytes = first->query_bytes;
    char *values = td_arena_alloc(exec->arena, (size_t)scan->n_queries, query_bytes, err);
    struct td_search_query *queries =
        values ? td_arena_alloc(exec->arena, (size_t)scan->n_queries, sizeof(*queries), err) : NULL;
    if (!queries)
        return err->status;
    scan->values = values;
    scan->queries = queries;
    for (int i = 0; i < n; i++) {
        const struct job *job = calls[i]->plan;
        if (job->n_queries == 0)
            continue;
        memcpy(values, job->values, (size_t)job->n_queries * query_bytes);
        memcpy(queries, job->queries, (size_t)job->n_queries * sizeof(*queries));
        values += (size_t)job->n_queries * query_bytes;
        queries += job->n_queries;
    }
    return TD_OK;
}

static td_status run_pass(struct td_op_args *const *calls, int n, struct td_exec *exec,
                          struct td_error *err)
{
    const struct td_op_args *args = calls[0];
    const struct job *first = args->plan;
    struct td_search_scan scan = {
        .table = &first->table,
        .metric = td_search_attrs(args).metric,
        .candidates = first->candidates,
        .n_rows = td_search_sizes(args).n_scored,
    };
    const td_status status = join_queries(calls, n, &scan, exec, err);
    return status == TD_OK && scan.n_queries > 0 ? td_search_scan_run(&scan, exec, err) : status;
}

/* Implements td_rows_fn: the rows that were found, or TD_ROW_ZERO. */
#if TD_SEARCH_NO_ROW != TD_ROW_ZERO
#error "the copy of keys uses the row numbers that were found"
#endif
/* NOLINTNEXTLINE(readability-non-const-parameter): a td_rows_fn can write to rows */
static const int64_t *rows_found(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    (void)n;
    (void)rows;
    return (const int64_t *)context + begin;
}

/* Copies the keys of the rows that were found. */
static td_status finish(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *indices = &args->outputs[TD_SEARCH_INDICES];
    if (args->n_outputs <= TD_SEARCH_KEYS_FOUND || indices->numel == 0)
        return TD_OK;
    const struct td_gathering gathering = {
        .table = td_search_given(args, TD_SEARCH_KEYS),
        .out = &args->outputs[TD_SEARCH_KEYS_FOUND],
        .n_rows = indices->numel,
        .row_numel = 1,
        .rows = rows_found,
        .context = indices->data,
        .may_be_zero = true,
    };
    return td_gathering_run(&gathering, exec, err);
}

/* True if both calls have the same tensor, or neither has one. A tensor that a step of a program
 * has yet to compute has no data, and is never the same. */
static bool is_same(const struct td_op_args *a, const struct td_op_args *b, int input)
{
    const struct td_tensor *x = td_search_given(a, input), *y = td_search_given(b, input);
    return x && y ? x->data && x->data == y->data && x->numel == y->numel && x->dtype == y->dtype
                  : x == y;
}

static const void *table_data(const struct td_op_args *args)
{
    return td_search_given(args, TD_SEARCH_PARAMS)->data;
}

/* Limits of a call that shares a pass. Reading the table takes most of the time of such a call. */
enum { SHARED_QUERIES = 4, SHARED_K = 1024 };

static bool can_share(const struct td_op_args *args)
{
    const struct td_search_sizes sizes = td_search_sizes(args);
    return !td_search_given(args, TD_SEARCH_CANDIDATES) && sizes.n_queries <= SHARED_QUERIES &&
           sizes.n_best <= SHARED_K;
}

/* True if both calls score all rows of one resident table in the same way. */
static bool can_join(const struct td_op_args *a, const struct td_op_args *b)
{
    const struct td_search_attrs x = td_search_attrs(a), y = td_search_attrs(b);
    return td_search_given(a, TD_SEARCH_PARAMS)->owner && can_share(a) && can_share(b) &&
           x.metric == y.metric && x.layout == y.layout &&
           td_search_sizes(a).real == td_search_sizes(b).real && is_same(a, b, TD_SEARCH_PARAMS) &&
           td_shape_equal(&td_search_given(a, TD_SEARCH_PARAMS)->shape,
                          &td_search_given(b, TD_SEARCH_PARAMS)->shape) &&
           is_same(a, b, TD_SEARCH_SCALE) && is_same(a, b, TD_SEARCH_OFFSET) &&
           is_same(a, b, TD_SEARCH_ZERO_POINT);
}

static const struct td_op_pass pass = {
    .can_join = can_join,
    .data = table_data,
    .prepare = prepare,
    .run = run_pass,
    .finish = finish,
};

/* True if the calls differ only in their queries. */
static bool can_stack(const struct td_op_args *args, uint32_t shared)
{
    for (int i = 0, number = 0; i < TD_SEARCH_INPUTS; number += args->inputs[i++].count)
        if (args->inputs[i].count > 0 && (shared >> number & 1) == (i == TD_SEARCH_QUERIES))
            return false;
    return td_search_given(args, TD_SEARCH_QUERIES) && can_share(args);
}

/* Makes one matrix of the stacked queries. */
static td_status stack_queries(const struct td_op_args *call, uint32_t shared,
                               struct td_op_args *merged, struct td_arena *arena,
                               struct td_error *err)
{
    (void)call, (void)shared, (void)arena, (void)err;
    struct td_shape *shape = &merged->inputs[TD_SEARCH_QUERIES].tensors[0].shape;
    if (shape->rank == 3)
        *shape =
            (struct td_shape){ .rank = 2, .dim = { shape->dim[0] * shape->dim[1], shape->dim[2] } };
    return TD_OK;
}

static const struct td_op_stack stack = {
    .can_stack = can_stack,
    .attrs = stack_queries,
};

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    td_status status = prepare(args, exec, err);
    if (status == TD_OK)
        status = run_pass(&args, 1, exec, err);
    return status == TD_OK ? finish(args, exec, err) : status;
}

/* True if each row of queries or rows is a query. Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_tensor *queries = td_search_given(args, TD_SEARCH_QUERIES);
    return (!queries || queries->shape.rank == 2) &&
           td_rows_are_inputs(args, rows, 1 << TD_SEARCH_QUERIES | 1 << TD_SEARCH_ROWS);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))
#define INDICES (TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64))

static const struct td_input_spec inputs_specs[] = {
    [TD_SEARCH_PARAMS] = {
        .name = "params",
        .summary = "The table, a matrix [n, d] with a vector in each row. int8 and uint8 need "
                   "scale, unless layout is byte_rowwise.",
        .dtypes = FLOATS | TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(UINT8),
        .reads_values = true,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_SEARCH_QUERIES] = {
        .name = "queries",
        .summary = "The vectors to search for: a matrix [q, d], or a single query [d].",
        .dtypes = FLOATS,
        .optional = true,
        .reads_values = true,
    },
    [TD_SEARCH_ROWS] = {
        .name = "rows",
        .summary = "Row numbers of params, or keys, whose rows are the queries: a vector [q], or a "
                   "scalar for a single query. A request gives either queries or rows.",
        .role = TD_ROLE_INDEX,
        .dtypes = INDICES,
        .optional = true,
        .or_keys = true,
    },
    [TD_SEARCH_CANDIDATES] = {
        .name = "candidates",
        .summary = "Row numbers, or keys, of the only rows to score. A row that is given twice "
                   "counts once.",
        .role = TD_ROLE_INDEX,
        .dtypes = INDICES,
        .optional = true,
        .or_keys = true,
    },
    [TD_SEARCH_EXCLUDE] = {
        .name = "exclude",
        .summary = "Row numbers, or keys, of rows that are never returned.",
        .role = TD_ROLE_INDEX,
        .dtypes = INDICES,
        .optional = true,
        .or_keys = true,
    },
    [TD_SEARCH_KEYS] = {
        .name = "keys",
        .summary = "The keys of the rows, a vector, from which the output keys is made.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .optional = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_SEARCH_SCALE] = {
        .name = "scale",
        .companion = TD_COMPANION_SCALE,
        .summary = "The factor by which int8 and uint8 params are multiplied: one for each row, "
                   "or one for all rows.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_SEARCH_OFFSET] = {
        .name = "offset",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The number added to int8 and uint8 params after scaling: one for each row, or "
                   "one for all rows. Cannot be combined with zero_point.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_SEARCH_ZERO_POINT] = {
        .name = "zero_point",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The stored value of int8 and uint8 params that represents 0: one for each row, "
                   "or one for all rows. Subtracted before scaling. If neither zero_point nor "
                   "offset is given, it is 0. If NAME.zero_point or NAME.offset is resident beside "
                   "the table NAME, a request with scale must give one of the two.",
        .dtypes = TD_DTYPES_ZERO_POINT,
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
};

enum { ATTR_K, ATTR_METRIC, ATTR_EXCLUDE_SELF, ATTR_LAYOUT, ATTR_COUNT };

static const struct td_int_range count_range = { 1, INT64_MAX };

static const struct td_attr_spec attrs_specs[] = {
    [ATTR_K] = {
        .name = "k",
        .summary = "The number of rows to return for each query.",
        .kind = TD_ATTR_INT,
        .required = true,
        .range = &count_range,
        .offset = offsetof(struct td_search_attrs, k),
    },
    [ATTR_METRIC] = {
        .name = "metric",
        .summary = "How a row is scored: dot is the sum of products, cosine divides it by the "
                   "norms of query and row, l2 is the Euclidean distance; smaller is better.",
        .kind = TD_ATTR_CHOICE,
        .choices = metric_names,
        .default_int = TD_SEARCH_DOT,
        .offset = offsetof(struct td_search_attrs, metric),
    },
    [ATTR_EXCLUDE_SELF] = {
        .name = "exclude_self",
        .summary = "True if a query that is a row of params does not return this row.",
        .kind = TD_ATTR_BOOL,
        .default_int = true,
        .offset = offsetof(struct td_search_attrs, exclude_self),
    },
    [ATTR_LAYOUT] = {
        .name = "layout",
        .summary = "Where scale and offset are: plain, in the inputs of these names; byte_rowwise, "
                   "in the last 8 bytes of each row, as two float32 numbers.",
        .kind = TD_ATTR_CHOICE,
        .choices = td_row_layout_names,
        .default_int = TD_ROW_LAYOUT_PLAIN,
        .offset = offsetof(struct td_search_attrs, layout),
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    [TD_SEARCH_SCORES] = {
        .name = "scores",
        .summary = "The scores, the best first. If fewer rows qualify, the rest is -inf, or inf "
                   "with l2.",
        .shape_rule = "[q, min(k, n)], without q for a single query; with candidates [m], "
                      "min(k, n, m)",
        .dtypes = TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64),
        .dtype_rule = "float64 if params or queries is float64, otherwise float32",
    },
    [TD_SEARCH_INDICES] = {
        .name = "indices",
        .summary = "The row numbers. If fewer rows qualify, the rest is -1.",
        .shape_rule = "like scores",
        .dtypes = TD_DTYPE_BIT(INT64),
    },
    [TD_SEARCH_KEYS_FOUND] = {
        .name = "keys",
        .summary = "The keys of the rows, if the table has keys. If fewer rows qualify, the rest "
                   "is 0 or empty strings.",
        .shape_rule = "like scores",
        .dtype_of = "keys",
    },
};

static const struct td_op_example examples[] = {
    { "the two nearest rows",
      "{\"params\":[[1,0],[0.5,1],[0,1]],\"queries\":[[1,0.5],[0,2]],\"k\":2}" },
    { "rows like row 0, by angle, without row 2",
      "{\"params\":[[1,0],[0.5,1],[0,1],[3,0.5]],\"rows\":0,\"exclude\":[2],\"k\":3,"
      "\"metric\":\"cosine\"}" },
    { "distances to some rows, with their keys",
      "{\"params\":[[1,0],[0.5,1],[0,1]],\"keys\":[\"a\",\"b\",\"c\"],\"queries\":[1,0.5],"
      "\"candidates\":[0,2],\"k\":2,\"metric\":\"l2\"}" },
    { NULL, NULL },
};

const struct td_op td_op_search = {
    .name = "search",
    .summary = "Finds the nearest rows of a table for each query.",
    .source = "faiss.IndexFlat.search (Faiss) with dot and l2; with cosine, rows, candidates, "
              "exclude and keys as additions",
    .inputs = inputs_specs,
    .n_inputs = TD_SEARCH_INPUTS,
    .attrs = attrs_specs,
    .n_attrs = ATTR_COUNT,
    .outputs = outputs_specs,
    .n_outputs = TD_SEARCH_OUTPUTS,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
    .valid = valid,
    .pass = &pass,
    .stack = &stack,
};
