#include "kernels/split/split.h"

#include "kernels/key_index/search.h"
#include "kernels/op_rows.h"
#include "kernels/rows/rows.h"

#include <assert.h>
#include <string.h>

/* The rows of a table that are in no part. */
enum { NO_PART = -1 };

struct splitter {
    const struct td_op *op;
    const struct td_op_args *call;
    const int64_t *begin; /* [n_parts + 1] */
    int n_parts;
    int query; /* the input that has the queries */
    int64_t n_queries;
    int64_t width; /* elements of a query: the components of an index tuple, else 1 */
    int *part;     /* [n_queries] */
    int64_t *row;  /* [n_queries]: within the part; row numbers only */
    struct td_exec *exec;
    struct td_error *err;
};

static const struct td_tensor *queries_of(const struct splitter *s)
{
    return s->call->inputs[s->query].tensors;
}

/* The dimensions of the queries that count them. */
static int query_dims(const struct td_op *op, const struct td_op_args *call)
{
    const int query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    return call->inputs[query].tensors->shape.rank - op->rows->query_rank;
}

bool td_split_possible(const struct td_op *op, const struct td_op_args *call)
{
    struct td_tuple_space space;
    return op->rows && op->rows->is_plain(call) && !td_op_rows_in_bags(op) &&
           (!td_op_rows_space(op, call, &space) || space.depth > 0);
}

/* ---- Where the queries' rows are ------------------------------------------------------------- */

/* The part that has a row: the last one that begins at it or before. */
static int part_with(const struct splitter *s, int64_t row)
{
    int low = 0, high = s->n_parts;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (s->begin[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static td_bounds policy_of(const struct splitter *s)
{
    const int attr = s->op->rows->policy_attr;
    return attr == TD_ROWS_NONE ? TD_BOUNDS_ERROR
                                : (td_bounds)td_op_choice(&s->op->attrs[attr], s->call);
}

/* The error of indices out of range is that of the op, which reports it before it reads a row. */
static td_status refuse_indices(const struct splitter *s)
{
    struct td_op_args call = *s->call;
    const td_status status = s->op->run(&call, s->exec, s->err);
    assert(status != TD_OK);
    return status;
}

static td_status find_rows(struct splitter *s, struct td_split *out)
{
    const struct td_tensor *queries = queries_of(s);
    const td_bounds policy = policy_of(s);
    struct td_tuple_space space;
    int64_t first;
    (void)td_op_rows_space(s->op, s->call, &space);
    const td_status status =
        s->op->rows->query_rank > 0
            ? td_rows_check_tuples(queries, &space, s->exec, &out->replaced, &first, s->err)
            : td_rows_check(queries, space.bound[0], s->exec, &out->replaced, &first, s->err);
    if (status != TD_OK)
        return status;
    bool empty = false; /* no row is the nearest one */
    for (int i = 0; i < space.depth; i++)
        empty |= space.bound[i] == 0;
    if (out->replaced > 0 && (policy == TD_BOUNDS_ERROR || (empty && policy != TD_BOUNDS_ZERO)))
        return refuse_indices(s);
    for (int64_t i = 0; i < s->n_queries; i++) {
        const int64_t row =
            td_row_resolve_index(td_tensor_index_at(queries, i * s->width), space.bound[0], policy);
        s->part[i] = row == TD_ROW_ZERO ? NO_PART : part_with(s, row);
        s->row[i] = row == TD_ROW_ZERO ? row : row - s->begin[s->part[i]];
    }
    return TD_OK;
}

static td_status list_places(const struct splitter *s, int p, struct td_split_part *part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_queries; i++)
        n += s->part[i] == p;
    const struct td_shape shape = { .rank = 1, .dim = { n } };
    td_status status = td_tensor_describe(&part->places, "queries", TD_DTYPE_INT64, &shape, s->err);
    if (status == TD_OK)
        status = td_tensor_alloc(&part->places, s->exec->arena, s->err);
    if (status != TD_OK)
        return status;
    int64_t *place = part->places.data;
    for (int64_t i = 0; i < s->n_queries; i++)
        if (s->part[i] == p)
            *place++ = i;
    return TD_OK;
}

/* ---- The inputs of a part -------------------------------------------------------------------- */

/* The rows [begin, end), as a view. */
static struct td_tensor slice(const struct td_tensor *from, int64_t begin, int64_t end)
{
    struct td_tensor to = *from;
    const int64_t n = from->shape.dim[0];
    const int64_t row_numel = n > 0 ? from->numel / n : 0;
    const size_t row_bytes = (size_t)row_numel * td_dtype_info(from->dtype)->size;
    to.shape.dim[0] = end - begin;
    to.numel = (end - begin) * row_numel;
    to.key_index = NULL; /* of all rows */
    to.keys = NULL;
    if (from->dtype == TD_DTYPE_STRING) {
        to.offsets = from->offsets ? from->offsets + begin * row_numel : NULL;
        return to;
    }
    to.bytes = (size_t)(end - begin) * row_bytes;
    to.data = from->data ? (char *)from->data + (size_t)begin * row_bytes : NULL;
    return to;
}

/* Row numbers, counted from the first row of the part; tuples keep their other components. */
static td_status number_rows(const struct splitter *s, const struct td_tensor *places,
                             struct td_tensor *to)
{
    struct td_shape shape = { .rank = 1, .dim = { places->numel } };
    const struct td_tensor *queries = queries_of(s);
    if (s->op->rows->query_rank > 0)
        shape.dim[shape.rank++] = s->width;
    td_status status =
        td_tensor_describe(to, s->op->inputs[s->query].name, TD_DTYPE_INT64, &shape, s->err);
    if (status == TD_OK)
        status = td_tensor_alloc(to, s->exec->arena, s->err);
    if (status != TD_OK)
        return status;
    int64_t *number = to->data;
    for (int64_t i = 0; i < places->numel; i++) {
        const int64_t place = ((const int64_t *)places->data)[i];
        *number++ = s->row[place];
        for (int64_t k = 1; k < s->width; k++)
            *number++ = td_tensor_index_at(queries, place * s->width + k);
    }
    return TD_OK;
}

/* Runs an op that copies rows. Its first output has the memory of `to`. */
static td_status copy_rows(const char *name, struct td_op_args *args, struct td_tensor *to,
                           struct td_exec *exec, struct td_error *err)
{
    const struct td_op *op = td_op_named(name, strlen(name));
    const td_status status = td_op_infer(op, args, exec->arena, err);
    if (status != TD_OK)
        return status;
    args->outputs[0].data = to->data;
    args->outputs[0].offsets = to->offsets;
    return op->run(args, exec, err);
}

/* What belongs to the queries of a part, [Q..., R...], as [n, R...]. */
static td_status pick(const struct splitter *s, const struct td_tensor *from,
                      const struct td_tensor *places, struct td_tensor *to)
{
    const int dims = query_dims(s->op, s->call);
    struct td_shape shape = { .rank = 1, .dim = { s->n_queries } };
    (void)td_shape_append(&shape, &from->shape, dims, from->shape.rank); /* not longer */
    struct td_tensor rows = *from, numbers = *places;
    rows.shape = shape;
    rows.key_index = NULL;
    rows.keys = NULL;
    shape.dim[0] = places->numel;
    td_status status = td_tensor_describe(to, "queries", from->dtype, &shape, s->err);
    if (status == TD_OK)
        status = td_tensor_alloc(to, s->exec->arena, s->err);
    if (status != TD_OK)
        return status;
    struct td_op_args args = { .inputs = { { &rows, 1 }, { &numbers, 1 } } };
    td_op_set_defaults(td_op_named("gather", strlen("gather")), &args);
    status = copy_rows("gather", &args, to, s->exec, s->err);
    if (status == TD_OK)
        *to = args.outputs[0];
    return status;
}

static td_status make_input(const struct splitter *s, int p, int i, const struct td_tensor *places,
                            struct td_tensor *to)
{
    const struct td_tensor *from = s->call->inputs[i].tensors;
    const int64_t n_rows = s->begin[s->n_parts];
    switch (s->op->inputs[i].part) {
    case TD_ROW_PART_QUERY:
        return s->row ? number_rows(s, places, to) : pick(s, from, places, to);
    case TD_ROW_PART_PER_QUERY:
        return pick(s, from, places, to);
    case TD_ROW_PART_TABLE:
        *to = slice(from, s->begin[p], s->begin[p + 1]);
        return TD_OK;
    case TD_ROW_PART_PER_ROW:
        *to = from->shape.rank > 0 && from->shape.dim[0] == n_rows
                  ? slice(from, s->begin[p], s->begin[p + 1])
                  : *from;
        return TD_OK;
    default:
        *to = *from;
        return TD_OK;
    }
}

/* Is a key without a row an error? A part cannot tell: its position among all queries, and how many
 * there are, are known when all parts have said which keys they found. */
static bool refuses_keys(const struct td_op *op, const struct td_op_args *call)
{
    return op->rows->found_output != TD_ROWS_NONE &&
           td_op_choice(&op->attrs[op->rows->policy_attr], call) == TD_ROWS_POLICY_ERROR;
}

/* As plain_attrs mean it: a value that counts dimensions from the end does not fit a list of
 * queries. */
static void set_plain_attrs(const struct td_op *op, struct td_op_args *args)
{
    struct td_op_args defaults;
    td_op_set_defaults(op, &defaults);
    for (int i = 0; i < op->n_attrs; i++) {
        if (!(op->rows->plain_attrs >> i & 1))
            continue;
        memcpy(args->attrs + op->attrs[i].offset, defaults.attrs + op->attrs[i].offset,
               td_attr_size(op->attrs[i].kind));
        args->attrs_set &= ~((uint32_t)1 << i);
    }
}

static td_status make_part(const struct splitter *s, int p, struct td_split_part *part)
{
    td_status status = list_places(s, p, part);
    part->args = *s->call;
    set_plain_attrs(s->op, &part->args);
    if (refuses_keys(s->op, s->call))
        td_op_set_choice(&s->op->attrs[s->op->rows->policy_attr], &part->args, TD_ROWS_POLICY_ZERO);
    for (int i = 0; i < s->op->n_inputs && status == TD_OK; i++) {
        if (s->call->inputs[i].count == 0)
            continue;
        struct td_tensor *tensor = td_arena_alloc(s->exec->arena, 1, sizeof *tensor, s->err);
        if (!tensor)
            return s->err->status;
        part->args.inputs[i] = (struct td_operand){ tensor, 1 };
        status = make_input(s, p, i, &part->places, tensor);
    }
    return status == TD_OK ? td_op_infer(s->op, &part->args, s->exec->arena, s->err) : status;
}

td_status td_split_call(const struct td_op *op, const struct td_op_args *call, const int64_t *begin,
                        int n_parts, td_split_part_of *part_of, const void *context,
                        struct td_exec *exec, struct td_split *out, struct td_error *err)
{
    struct td_error local;
    struct splitter s = { op, call, begin, n_parts, .exec = exec, .err = err ? err : &local };
    assert(n_parts >= 1 && td_split_possible(op, call));
    s.query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    const struct td_shape *shape = &queries_of(&s)->shape;
    s.width = op->rows->query_rank > 0 ? shape->dim[shape->rank - 1] : 1;
    s.n_queries = queries_of(&s)->numel / s.width;
    *out = (struct td_split){ op, .begin = begin, .n_parts = n_parts };
    out->parts = td_arena_alloc(exec->arena, (size_t)n_parts, sizeof out->parts[0], s.err);
    s.part = td_arena_alloc(exec->arena, (size_t)s.n_queries, sizeof s.part[0], s.err);
    if (!part_of)
        s.row = td_arena_alloc(exec->arena, (size_t)s.n_queries, sizeof s.row[0], s.err);
    if (!out->parts || !s.part || (!part_of && !s.row))
        return s.err->status;
    td_status status = part_of ? TD_OK : find_rows(&s, out);
    for (int64_t i = 0; part_of && i < s.n_queries; i++)
        s.part[i] = part_of(context, queries_of(&s), i);
    for (int p = 0; p < n_parts && status == TD_OK; p++)
        status = make_part(&s, p, &out->parts[p]);
    return status;
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Row numbers in an output become those of the whole table; -1 is none. */
static void raise_numbers(struct td_tensor *output, int64_t begin)
{
    int64_t *number = output->data;
    for (int64_t i = 0; i < output->numel; i++)
        number[i] += number[i] >= 0 ? begin : 0;
}

/* Rows that no part has are zeros: those after the last row that one has, too. */
static void end_output(const struct td_tensor *joined, struct td_tensor *out)
{
    if (out->dtype != TD_DTYPE_STRING) {
        memset((char *)out->data + joined->bytes, 0, out->bytes - joined->bytes);
        return;
    }
    out->data = joined->data;
    out->bytes = joined->bytes;
    for (int64_t i = joined->numel; i < out->numel; i++)
        out->offsets[i + 1] = out->offsets[i];
}

static td_status join_output(const struct td_split *split, int j, struct td_tensor *out,
                             struct td_exec *exec, struct td_error *err)
{
    const size_t n = (size_t)split->n_parts;
    struct td_tensor *places = td_arena_alloc(exec->arena, n, sizeof *places, err),
                     *rows = td_arena_alloc(exec->arena, n, sizeof *rows, err);
    if (!places || !rows)
        return err->status;
    for (int p = 0; p < split->n_parts; p++) {
        places[p] = split->parts[p].places;
        rows[p] = split->parts[p].args.outputs[j];
        if (split->op->rows->numbers_output == j)
            raise_numbers(&rows[p], split->begin[p]);
    }
    struct td_op_args args = { .inputs = { { places, (int)n }, { rows, (int)n } } };
    const td_status status = copy_rows("parallel_dynamic_stitch", &args, out, exec, err);
    if (status == TD_OK)
        end_output(&args.outputs[0], out);
    return status;
}

static td_status check_found(const struct td_split *split, const struct td_op_args *call,
                             struct td_error *err)
{
    const int query = td_op_rows_input(split->op, TD_ROW_PART_QUERY);
    int64_t first = INT64_MAX, n_missing = 0;
    for (int p = 0; p < split->n_parts; p++) {
        const struct td_split_part *part = &split->parts[p];
        const bool *found = part->args.outputs[split->op->rows->found_output].data;
        const int64_t *place = part->places.data;
        for (int64_t i = 0; i < part->places.numel; i++) {
            if (!found[i] && place[i] < first)
                first = place[i];
            n_missing += !found[i];
        }
    }
    return n_missing == 0 ? TD_OK
                          : td_key_not_found(err, split->op->inputs[query].name,
                                             call->inputs[query].tensors, first, n_missing);
}

td_status td_split_join(const struct td_split *split, struct td_op_args *call, struct td_exec *exec,
                        struct td_error *err)
{
    struct td_error local;
    td_status status =
        refuses_keys(split->op, call) ? check_found(split, call, err ? err : &local) : TD_OK;
    for (int j = 0; j < call->n_outputs && status == TD_OK; j++)
        status = join_output(split, j, &call->outputs[j], exec, err ? err : &local);
    call->replaced = split->replaced;
    return status;
}
