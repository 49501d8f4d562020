#include "kernels/split/split.h"

#include "kernels/key_index/search.h"
#include "kernels/op_check.h"
#include "kernels/op_rows.h"
#include "kernels/rows/rows.h"
#include "kernels/split/join_bags.h"

#include <assert.h>
#include <string.h>

struct splitter {
    const struct td_op *op;
    const struct td_op_args *call;
    const int64_t *begin; /* [n_parts + 1] */
    int n_parts;
    int query; /* input that has the queries */
    int64_t n_queries;
    int64_t width; /* elements per query: the components of an index tuple, otherwise 1 */
    int *part;     /* [n_queries], as in td_split */
    int64_t *bag;  /* [n_queries], or NULL */
    int64_t *row;  /* [n_queries], for row numbers only: row within the part */
    struct td_exec *exec;
    struct td_error *err;
};

static const struct td_tensor *queries_of(const struct splitter *s)
{
    return s->call->inputs[s->query].tensors;
}

/* Returns the tensor of an input, or NULL if the op lacks the input or the request omits it. */
static const struct td_tensor *given(const struct splitter *s, td_row_part part)
{
    const int input = td_op_rows_input(s->op, part);
    return input >= 0 && s->call->inputs[input].count > 0 ? s->call->inputs[input].tensors : NULL;
}

static td_status new_tensor(const struct splitter *s, td_dtype dtype, const struct td_shape *shape,
                            struct td_tensor *out)
{
    const td_status status = td_tensor_describe(out, "queries", dtype, shape, s->err);
    return status == TD_OK ? td_tensor_alloc(out, s->exec->arena, s->err) : status;
}

bool td_split_possible(const struct td_op *op, const struct td_op_args *call)
{
    struct td_tuple_space space;
    return op->rows && (op->rows->bags ? call->outputs[0].numel > 0 : op->rows->is_plain(call)) &&
           (!td_op_rows_space(op, call, &space) || space.depth > 0);
}

/* ---- Where the queries' rows are ------------------------------------------------------------- */

/* Returns the part that contains a row: the last part that starts at or before the row. */
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

static td_status refuse_indices(const struct splitter *s, const struct td_tuple_space *space,
                                int64_t first, int64_t n_bad)
{
    const struct td_tensor *queries = queries_of(s);
    if (s->op->rows->query_rank > 0)
        return td_rows_bad_tuple(s->call->inputs[0].tensors, queries, 0, first, n_bad, s->err);
    return td_rows_out_of_bounds(s->err, s->op->inputs[s->query].name, queries, first, n_bad,
                                 space->bound[0], 0,
                                 td_rows_bounds_hint(queries, first, space->bound[0]));
}

/* Returns the row number to ignore, or TD_ATTR_UNSET if there is none. */
static int64_t skipped_row(const struct splitter *s)
{
    int64_t row = TD_ATTR_UNSET;
    if (s->op->rows->bags)
        memcpy(&row, s->call->attrs + s->op->attrs[s->op->rows->bags->skip_attr].offset,
               sizeof row);
    return row;
}

static td_status find_rows(struct splitter *s, struct td_split *out)
{
    const struct td_tensor *queries = queries_of(s);
    const td_bounds policy = policy_of(s);
    const int64_t skipped = skipped_row(s);
    struct td_tuple_space space;
    int64_t first;
    (void)td_op_rows_space(s->op, s->call, &space);
    const td_status status =
        s->op->rows->query_rank > 0
            ? td_rows_check_tuples(queries, &space, s->exec, &out->replaced, &first, s->err)
            : td_rows_check(queries, space.bound[0], s->exec, &out->replaced, &first, s->err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < space.depth; i++)
        if (td_row_policy_refuses(policy, out->replaced, space.bound[i]))
            return refuse_indices(s, &space, first, out->replaced);
    for (int64_t i = 0; i < s->n_queries; i++) {
        const int64_t index = td_tensor_index_at(queries, i * s->width);
        const int64_t row =
            space.bound[0] > 0 ? td_row_resolve_index(index, space.bound[0], policy) : TD_ROW_ZERO;
        s->part[i] = row == TD_ROW_ZERO ? TD_SPLIT_ZEROS : part_with(s, row);
        s->row[i] = row == TD_ROW_ZERO ? row : row - s->begin[s->part[i]];
        if (index == skipped && skipped != TD_ATTR_UNSET)
            s->part[i] = TD_SPLIT_SKIPPED;
    }
    return TD_OK;
}

/* Finds the bag of each query. The caller has checked that offsets and segments are in order. */
static td_status find_bags(struct splitter *s)
{
    const int64_t n_bags = s->call->outputs[0].shape.dim[0];
    const struct td_tensor *offsets = given(s, TD_ROW_PART_OFFSETS),
                           *segments = given(s, TD_ROW_PART_SEGMENTS);
    if (s->op->valid && !s->op->valid(s->call)) {
        struct td_op_args call = *s->call; /* run reports the error before it reads a row */
        return s->op->run(&call, s->exec, s->err);
    }
    s->bag = td_arena_alloc(s->exec->arena, (size_t)s->n_queries, sizeof s->bag[0], s->err);
    if (!s->bag)
        return s->err->status;
    int64_t bag = 0;
    for (int64_t i = 0; i < s->n_queries; i++) {
        while (offsets && bag + 1 < n_bags && td_tensor_index_at(offsets, bag + 1) <= i)
            bag++;
        s->bag[i] = segments  ? td_tensor_index_at(segments, i)
                    : offsets ? bag
                              : i / (s->n_queries / n_bags);
    }
    return TD_OK;
}

static td_status list_places(const struct splitter *s, int p, struct td_split_part *part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_queries; i++)
        n += s->part[i] == p;
    const struct td_shape shape = { .rank = 1, .dim = { n } };
    const td_status status = new_tensor(s, TD_DTYPE_INT64, &shape, &part->places);
    if (status != TD_OK)
        return status;
    int64_t *place = part->places.data;
    for (int64_t i = 0; i < s->n_queries; i++)
        if (s->part[i] == p)
            *place++ = i;
    return TD_OK;
}

/* ---- The inputs of a part -------------------------------------------------------------------- */

/* Returns the rows [begin, end) as a view. */
static struct td_tensor slice(const struct td_tensor *from, int64_t begin, int64_t end)
{
    struct td_tensor to = *from;
    const int64_t n = from->shape.dim[0];
    const int64_t row_numel = n > 0 ? from->numel / n : 0;
    const size_t row_bytes = (size_t)row_numel * td_dtype_info(from->dtype)->size;
    to.shape.dim[0] = end - begin;
    to.numel = (end - begin) * row_numel;
    to.key_index = NULL; /* no index, because the index is for the whole table */
    to.keys = NULL;
    if (from->dtype == TD_DTYPE_STRING) {
        to.offsets = from->offsets ? from->offsets + begin * row_numel : NULL;
        return to;
    }
    to.bytes = (size_t)(end - begin) * row_bytes;
    to.data = from->data ? (char *)from->data + (size_t)begin * row_bytes : NULL;
    return to;
}

/* Makes row numbers relative to the first row of the part. Only the first component of a tuple
 * changes. */
static td_status number_rows(const struct splitter *s, const struct td_tensor *places,
                             struct td_tensor *to)
{
    struct td_shape shape = { .rank = 1, .dim = { places->numel } };
    const struct td_tensor *queries = queries_of(s);
    if (s->op->rows->query_rank > 0)
        shape.dim[shape.rank++] = s->width;
    const td_status status = new_tensor(s, TD_DTYPE_INT64, &shape, to);
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

/* Runs an op that copies rows. The first output uses the memory of `to`. */
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

/* Picks the elements or rows of a part's queries: [Q..., R...] becomes [n, R...]. */
static td_status pick(const struct splitter *s, const struct td_tensor *from,
                      const struct td_tensor *places, struct td_tensor *to)
{
    const int dims = td_op_rows_query_dims(s->op, s->call);
    struct td_shape shape = { .rank = 1, .dim = { s->n_queries } };
    /* Cannot fail, because the rank does not increase. */
    (void)td_shape_append(&shape, &from->shape, dims, from->shape.rank);
    struct td_tensor rows = *from, numbers = *places;
    rows.shape = shape;
    rows.key_index = NULL;
    rows.keys = NULL;
    shape.dim[0] = places->numel;
    td_status status = new_tensor(s, from->dtype, &shape, to);
    if (status != TD_OK)
        return status;
    struct td_op_args args = { .inputs = { { &rows, 1 }, { &numbers, 1 } } };
    td_op_set_defaults(td_op_named("gather", strlen("gather")), &args);
    status = copy_rows("gather", &args, to, s->exec, s->err);
    if (status == TD_OK)
        *to = args.outputs[0];
    return status;
}

/* Writes the bag numbers of the part's queries. */
static td_status number_bags(const struct splitter *s, const struct td_tensor *places,
                             struct td_tensor *to)
{
    const td_status status = new_tensor(s, TD_DTYPE_INT64, &places->shape, to);
    for (int64_t k = 0; status == TD_OK && s->bag && k < places->numel; k++)
        ((int64_t *)to->data)[k] = s->bag[((const int64_t *)places->data)[k]];
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
    case TD_ROW_PART_SEGMENTS:
        return number_bags(s, places, to);
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

/* True if a key without a row is an error. A part cannot report such an error, because the position
 * of the key among all queries and the number of missing keys are known only after all parts have
 * reported the keys that they found. */
static bool refuses_keys(const struct td_op *op, const struct td_op_args *call)
{
    return op->rows->found_output != TD_ROWS_NONE &&
           td_op_choice(&op->attrs[op->rows->policy_attr], call) == TD_ROWS_POLICY_ERROR;
}

/* Sets attributes to their defaults. Bit i of the set stands for attribute i. */
static void set_defaults(const struct td_op *op, struct td_op_args *args, uint32_t set)
{
    struct td_op_args defaults;
    td_op_set_defaults(op, &defaults);
    for (int i = 0; i < op->n_attrs; i++)
        if (set >> i & 1)
            memcpy(args->attrs + op->attrs[i].offset, defaults.attrs + op->attrs[i].offset,
                   td_attr_size(op->attrs[i].kind));
    args->attrs_set &= ~set;
}

static void set_choice(const struct td_op *op, struct td_op_args *args, int i, int choice)
{
    td_op_set_choice(&op->attrs[i], args, choice);
    args->attrs_set |= (uint32_t)1 << i;
}

/* Sets the attributes of a part's bags so that the part computes sums or maxima in a dtype that
 * does not round them. */
static void set_bag_attrs(const struct splitter *s, struct td_op_args *args)
{
    const struct td_op_bags *bags = s->op->rows->bags;
    const struct td_tensor *output = &s->call->outputs[0];
    const bool wide =
        output->dtype == TD_DTYPE_FLOAT64 || s->call->inputs[0].tensors->dtype == TD_DTYPE_FLOAT64;
    const int mode = td_op_choice(&s->op->attrs[bags->mode_attr], s->call),
              count = s->op->rows->count_attr;
    set_defaults(s->op, args, (uint32_t)1 << bags->skip_attr | (uint32_t)1 << bags->last_attr);
    set_choice(s->op, args, bags->mode_attr, mode == TD_BAG_MAX ? mode : TD_BAG_SUM);
    set_choice(s->op, args, bags->dtype_attr, wide ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32);
    memcpy(args->attrs + s->op->attrs[count].offset, &output->shape.dim[0], sizeof(int64_t));
    args->attrs_set |= (uint32_t)1 << count;
}

/* Sets the attributes of a part. Attributes in plain_attrs get their defaults, because their values
 * can count dimensions from the end and a list of queries has fewer dimensions. */
static void set_attrs(const struct splitter *s, struct td_op_args *args)
{
    set_defaults(s->op, args, s->op->rows->plain_attrs);
    if (refuses_keys(s->op, s->call))
        set_choice(s->op, args, s->op->rows->policy_attr, TD_ROWS_POLICY_ZERO);
    if (s->bag)
        set_bag_attrs(s, args);
}

static td_status make_part(const struct splitter *s, int p, struct td_split_part *part)
{
    td_status status = list_places(s, p, part);
    part->args = *s->call;
    set_attrs(s, &part->args);
    for (int i = 0; i < s->op->n_inputs && status == TD_OK; i++) {
        part->args.inputs[i].count = 0;
        const td_row_part of = s->op->inputs[i].part;
        const bool segments = s->bag && of == TD_ROW_PART_SEGMENTS;
        if (of == TD_ROW_PART_OFFSETS || (s->call->inputs[i].count == 0 && !segments))
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
    struct splitter s = { op, call, begin, n_parts, .exec = exec, .err = err };
    assert(n_parts >= 1 && td_split_possible(op, call));
    s.query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    const struct td_shape *shape = &queries_of(&s)->shape;
    s.width = op->rows->query_rank > 0 ? shape->dim[shape->rank - 1] : 1;
    s.n_queries = s.width > 0 ? queries_of(&s)->numel / s.width : 0;
    *out = (struct td_split){ op, .begin = begin, .n_parts = n_parts };
    out->parts = td_arena_alloc(exec->arena, (size_t)n_parts, sizeof out->parts[0], s.err);
    s.part = td_arena_alloc(exec->arena, (size_t)s.n_queries, sizeof s.part[0], s.err);
    if (!part_of)
        s.row = td_arena_alloc(exec->arena, (size_t)s.n_queries, sizeof s.row[0], s.err);
    if (!out->parts || !s.part || (!part_of && !s.row))
        return s.err->status;
    td_status status = op->rows->bags ? find_bags(&s) : TD_OK;
    if (status == TD_OK && !part_of)
        status = find_rows(&s, out);
    out->part = s.part;
    out->bag = s.bag;
    for (int64_t i = 0; part_of && i < s.n_queries; i++)
        s.part[i] = part_of(context, queries_of(&s), i);
    for (int p = 0; p < n_parts && status == TD_OK; p++)
        status = make_part(&s, p, &out->parts[p]);
    return status;
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Converts row numbers in an output to row numbers of the whole table. Keeps -1, which means that
 * there is no row. */
static void raise_numbers(struct td_tensor *output, int64_t begin)
{
    int64_t *number = output->data;
    for (int64_t i = 0; i < output->numel; i++)
        number[i] += number[i] >= 0 ? begin : 0;
}

/* Fills the rest of an output with zeros, after the last row that any part has. */
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

/* Returns the keys of the rows, or NULL if the call has no keys. */
static const struct td_tensor *row_keys(const struct td_op *op, const struct td_op_args *call)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (td_input_is_row_keys(&op->inputs[i]))
            return call->inputs[i].tensors;
    return NULL;
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
    if (n_missing == 0)
        return TD_OK;
    return td_key_not_found(err, split->op->inputs[query].name, row_keys(split->op, call),
                            call->inputs[query].tensors, first, n_missing);
}

td_status td_split_join(const struct td_split *split, struct td_op_args *call, struct td_exec *exec,
                        struct td_error *err)
{
    td_status status = refuses_keys(split->op, call) ? check_found(split, call, err) : TD_OK;
    if (split->bag && status == TD_OK)
        status = td_split_join_bags(split, call, exec, err);
    for (int j = 0; j < call->n_outputs && status == TD_OK && !split->bag; j++)
        status = join_output(split, j, &call->outputs[j], exec, err);
    call->replaced = split->replaced;
    return status;
}
