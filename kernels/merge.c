#include "kernels/merge.h"

#include "kernels/by_rows.h"
#include "kernels/op_check.h"
#include "kernels/op_rows.h"

#include <assert.h>
#include <string.h>

/* True if a tensor is shared. `number` counts the tensors of all inputs, with each element of a
 * list counted separately. */
static bool is_shared(uint32_t shared, int number)
{
    return number < 32 && shared >> number & 1;
}

/* ---- Which calls ------------------------------------------------------------------------- */

static bool has_strings(const struct td_op *op, const struct td_op_args *args)
{
    for (int i = 0; i < op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            if (args->inputs[i].tensors[j].dtype == TD_DTYPE_STRING)
                return true;
    return false;
}

/* For concat: true if the input is the same for all queries. */
static bool is_of_table(const struct td_op *op, int i)
{
    return op->inputs[i].part == TD_ROW_PART_TABLE || op->inputs[i].part == TD_ROW_PART_PER_ROW;
}

uint32_t td_merge_shared(const struct td_op *op, const struct td_op_args *args, uint32_t candidates)
{
    uint32_t tables = 0;
    if (!op->rows)
        return candidates;
    for (int i = 0, number = 0; i < op->n_inputs && number < 32; number += args->inputs[i++].count)
        if (args->inputs[i].count > 0 && is_of_table(op, i))
            tables |= (uint32_t)1 << number;
    return candidates & tables;
}

/* True if the tables are shared and nothing else is. */
static bool shares_tables(const struct td_op *op, const struct td_op_args *args, uint32_t shared)
{
    return shared == td_merge_shared(op, args, UINT32_MAX);
}

/* Returns how the call is merged if it can be merged. */
static td_merge_kind kind_if_merged(const struct td_op *op, const struct td_op_args *args,
                                    uint32_t shared)
{
    if (op->rows && shares_tables(op, args, shared) && op->rows->is_plain(args))
        return TD_MERGE_CONCAT;
    return op->stack && op->stack->can_stack(args, shared) ? TD_MERGE_STACK : TD_MERGE_ROWS;
}

/* Returns the tensors that are not shared. */
static td_tensor_set rows_of(const struct td_op *op, const struct td_op_args *args, uint32_t shared)
{
    int n = 0;
    for (int i = 0; i < op->n_inputs; i++)
        n += args->inputs[i].count;
    return n < TD_TENSOR_SET_MOST ? ((UINT64_C(1) << n) - 1) & ~(td_tensor_set)shared : 0;
}

td_merge_kind td_merge_kind_of(const struct td_op *op, const struct td_op_args *args,
                               uint32_t shared)
{
    if (has_strings(op, args))
        return TD_MERGE_NONE;
    const td_merge_kind kind = kind_if_merged(op, args, shared);
    return kind != TD_MERGE_ROWS || td_op_by_rows(args, rows_of(op, args, shared)) ? kind
                                                                                   : TD_MERGE_NONE;
}

/* How calls are merged. */
struct way {
    const struct td_op *op;
    td_merge_kind kind;
    uint32_t shared;
};

/* Returns the first dimension of a tensor of input i that must be equal in all calls. All later
 * dimensions must also be equal. */
static int first_compared_dim(const struct way *way, const struct td_op_args *args, int i,
                              int number)
{
    if (way->kind == TD_MERGE_ROWS)
        return !is_shared(way->shared, number);
    switch (way->op->inputs[i].part) {
    case TD_ROW_PART_QUERY:
    case TD_ROW_PART_PER_QUERY:
        return td_op_rows_query_dims(way->op, args);
    case TD_ROW_PART_OFFSETS:
    case TD_ROW_PART_SEGMENTS:
        return 1;
    default:
        return 0;
    }
}

/* True if attribute i means the same as its default in every call that is merged in this way. */
static bool is_plain_attr(const struct way *way, int i)
{
    return way->kind == TD_MERGE_CONCAT && way->op->rows->plain_attrs >> i & 1;
}

/* True if attribute i is the number of bags, which the merged call replaces by its own number of
 * bags. */
static bool is_count_attr(const struct way *way, int i)
{
    return way->kind == TD_MERGE_CONCAT && way->op->rows->count_attr == i;
}

/* True if a call that leaves attribute i unset differs from every call that sets it, because the
 * default depends on the call, or because the steps of a program have defaults of their own. */
static bool depends_on_call(const struct way *way, int i)
{
    return !is_plain_attr(way, i) && !is_count_attr(way, i) &&
           (way->op->attrs[i].default_text || way->op->is_same);
}

static bool is_given(const struct td_op_args *args, int i)
{
    return args->attrs_set >> i & 1;
}

/* Returns the bytes of attribute i, which must be equal in all calls. Returns NULL for plain_attrs
 * and count_attr, which are not compared. */
static const void *compared_bytes(const struct way *way, const struct td_op_args *args, int i,
                                  size_t *size)
{
    *size = 0;
    return is_plain_attr(way, i) || is_count_attr(way, i)
               ? NULL
               : td_op_attr_bytes(&way->op->attrs[i], args, size);
}

/* Mixes a word into a hash, as in splitmix64. Every bit of the result depends on all bits of the
 * hash and the word. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) + word;
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t size)
{
    hash = mix(hash, size);
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t left = size - done;
        memcpy(&word, (const char *)bytes + done, left < sizeof(word) ? left : sizeof(word));
        hash = mix(hash, word);
    }
    return hash;
}

uint64_t td_merge_key(const struct td_op *op, const struct td_op_args *args, uint32_t shared)
{
    const struct way way = { op, td_merge_kind_of(op, args, shared), shared };
    if (way.kind == TD_MERGE_NONE)
        return 0;
    uint64_t hash = mix(mix_bytes(shared, op->name, strlen(op->name)), way.kind);
    for (int i = 0, number = 0; i < op->n_inputs; i++) {
        hash = mix(hash, (uint64_t)args->inputs[i].count);
        for (int j = 0; j < args->inputs[i].count; j++, number++) {
            const struct td_tensor *tensor = &args->inputs[i].tensors[j];
            const int from = first_compared_dim(&way, args, i, number);
            hash = mix(hash, (uint64_t)tensor->dtype);
            hash = mix_bytes(hash, tensor->shape.dim + from,
                             (size_t)(tensor->shape.rank - from) * sizeof(int64_t));
            if (is_shared(shared, number))
                hash = mix(hash, (uintptr_t)tensor->data);
        }
    }
    for (int i = 0; i < op->n_attrs; i++) {
        size_t size;
        const void *bytes = compared_bytes(&way, args, i, &size);
        hash = mix_bytes(hash, bytes, size);
        if (depends_on_call(&way, i))
            hash = mix(hash, is_given(args, i));
    }
    return hash | 1;
}

static bool same_shape(const struct td_shape *a, int a_from, const struct td_shape *b, int b_from)
{
    return a->rank - a_from == b->rank - b_from &&
           memcmp(a->dim + a_from, b->dim + b_from,
                  (size_t)(a->rank - a_from) * sizeof(a->dim[0])) == 0;
}

static bool same_inputs(const struct way *way, const struct td_op_args *a,
                        const struct td_op_args *b)
{
    for (int i = 0, number = 0; i < way->op->n_inputs; i++) {
        if (a->inputs[i].count != b->inputs[i].count)
            return false;
        for (int j = 0; j < a->inputs[i].count; j++, number++) {
            const struct td_tensor *x = &a->inputs[i].tensors[j], *y = &b->inputs[i].tensors[j];
            if (x->dtype != y->dtype ||
                !same_shape(&x->shape, first_compared_dim(way, a, i, number), &y->shape,
                            first_compared_dim(way, b, i, number)) ||
                (is_shared(way->shared, number) && x->data != y->data))
                return false;
        }
    }
    return true;
}

static bool same_attrs(const struct way *way, const struct td_op_args *a,
                       const struct td_op_args *b)
{
    for (int i = 0; i < way->op->n_attrs; i++) {
        size_t a_size, b_size;
        const void *x = compared_bytes(way, a, i, &a_size), *y = compared_bytes(way, b, i, &b_size);
        if (a_size != b_size || (a_size > 0 && memcmp(x, y, a_size) != 0))
            return false;
        if (depends_on_call(way, i) && is_given(a, i) != is_given(b, i))
            return false;
    }
    return true;
}

static bool same_op(const struct td_op *a, const struct td_op *b)
{
    return a == b || (a->is_same && b->is_same == a->is_same && a->is_same(a, b));
}

bool td_merge_fits(const struct td_op_args *a, const struct td_op_args *b, uint32_t shared)
{
    const struct way way = { a->op, kind_if_merged(a->op, a, shared), shared };
    return same_op(a->op, b->op) && kind_if_merged(b->op, b, shared) == way.kind &&
           same_inputs(&way, a, b) && same_attrs(&way, a, b);
}

/* ---- The merged call --------------------------------------------------------------------- */

struct merger {
    const struct td_op *op;
    struct way way;
    const struct td_op_args *const *calls;
    int n;
    struct td_arena *arena;
    struct td_merged *out;
    struct td_error *err;
};

/* The caller then merges fewer calls. */
static td_status refuse(struct td_error *err)
{
    return td_error_set(err, TD_RESOURCE_LIMIT, "the calls cannot be merged");
}

/* Gives the merged call the tensors of the first call, without data. */
static td_status describe_inputs(struct merger *m)
{
    const struct td_op_args *call = m->calls[0];
    for (int i = 0; i < m->op->n_inputs; i++) {
        struct td_operand *to = &m->out->args.inputs[i];
        to->count = call->inputs[i].count;
        to->tensors = NULL;
        if (to->count == 0) /* optional input that is not given */
            continue;
        to->tensors = td_arena_alloc(m->arena, (size_t)to->count, sizeof(to->tensors[0]), m->err);
        if (!to->tensors)
            return m->err->status;
        for (int j = 0; j < to->count; j++) {
            to->tensors[j] = call->inputs[i].tensors[j];
            to->tensors[j].data = NULL;
            to->tensors[j].owner = NULL;
        }
    }
    return TD_OK;
}

/* Copies the attributes of the first call, except plain_attrs and count_attr. To stack calls, the
 * op later replaces the copies. */
static td_status copy_attrs(struct merger *m)
{
    struct td_op_args *args = &m->out->args;
    td_op_set_defaults(m->op, args);
    for (int i = 0; i < m->op->n_attrs; i++) {
        if (is_plain_attr(&m->way, i) || is_count_attr(&m->way, i))
            continue;
        if (!td_op_attr_copy(&m->op->attrs[i], m->calls[0], args, m->arena, m->err))
            return m->err->status;
        args->attrs_set |= m->calls[0]->attrs_set & (uint32_t)1 << i;
    }
    return TD_OK;
}

/* Returns the tensor of input i, or NULL if it is not given. */
static const struct td_tensor *tensor_of(const struct td_op_args *call, int i)
{
    return call->inputs[i].count > 0 ? call->inputs[i].tensors : NULL;
}

/* True if the values of input i are positions in the queries or numbers of bags. The merged call
 * adds the number of queries or bags in the previous calls to these values. */
static bool is_raised(const struct td_op *op, int i)
{
    return op->inputs[i].part == TD_ROW_PART_OFFSETS || op->inputs[i].part == TD_ROW_PART_SEGMENTS;
}

/* Describes tensor j of input i of the merged call as [rows of all calls, dimensions of a row...].
 * `number` is the number of the tensor. */
static td_status concat_tensor(struct merger *m, int i, int j, int number)
{
    struct td_tensor *to = &m->out->args.inputs[i].tensors[j];
    const int row = first_compared_dim(&m->way, m->calls[0], i, number);
    const td_dtype dtype = is_raised(m->op, i) ? TD_DTYPE_INT64 : to->dtype;
    int64_t n_rows = 0;
    for (int c = 0; c < m->n; c++) {
        const struct td_shape *from = &m->calls[c]->inputs[i].tensors[j].shape;
        const int end = first_compared_dim(&m->way, m->calls[c], i, number);
        int64_t rows;
        if (!td_shape_product(from, 0, end, &rows) || __builtin_add_overflow(n_rows, rows, &n_rows))
            return td_error_resource(m->err, m->op->inputs[i].name, UINT64_MAX, INT64_MAX,
                                     "the merged call");
    }
    struct td_shape shape = { .rank = 1, .dim = { n_rows } };
    (void)td_shape_append(&shape, &to->shape, row, to->shape.rank);
    return td_tensor_describe(to, m->op->inputs[i].name, dtype, &shape, m->err);
}

static td_status set_item_ends(struct merger *m)
{
    const int query = td_op_rows_input(m->op, TD_ROW_PART_QUERY);
    int64_t n_elements = 0;
    m->out->item_end = td_arena_alloc(m->arena, (size_t)m->n, sizeof(m->out->item_end[0]), m->err);
    if (!m->out->item_end)
        return m->err->status;
    for (int c = 0; c < m->n; c++) {
        if (__builtin_add_overflow(n_elements, tensor_of(m->calls[c], query)->numel, &n_elements))
            return td_error_resource(m->err, m->op->inputs[query].name, UINT64_MAX, INT64_MAX,
                                     "the merged call");
        m->out->item_end[c] = n_elements;
    }
    return TD_OK;
}

/* Sets count_attr to the number of bags in all calls. infer refuses a number that is too large. */
static void set_count_attr(struct merger *m)
{
    const int i = m->op->rows->count_attr;
    int64_t rows = 0;
    for (int c = 0; c < m->n; c++)
        if (__builtin_add_overflow(rows, m->calls[c]->outputs[0].shape.dim[0], &rows))
            rows = INT64_MAX;
    memcpy(m->out->args.attrs + m->op->attrs[i].offset, &rows, sizeof(rows));
    m->out->args.attrs_set |= (uint32_t)1 << i;
}

static td_status concat_inputs(struct merger *m)
{
    td_status status = m->op->rows ? set_item_ends(m) : TD_OK;
    for (int i = 0, number = 0; i < m->op->n_inputs; i++)
        for (int j = 0; j < m->calls[0]->inputs[i].count && status == TD_OK; j++, number++) {
            if (is_shared(m->way.shared, number))
                continue;
            status = concat_tensor(m, i, j, number);
            if (m->op->inputs[i].part == TD_ROW_PART_SEGMENTS)
                set_count_attr(m);
        }
    return status;
}

static td_status stack_inputs(struct merger *m)
{
    for (int i = 0, number = 0; i < m->op->n_inputs; i++) {
        const struct td_operand *input = &m->out->args.inputs[i];
        for (int j = 0; j < input->count; j++, number++) {
            struct td_tensor *to = &input->tensors[j];
            struct td_shape shape = { .rank = 1, .dim = { m->n } };
            if (is_shared(m->way.shared, number))
                continue;
            /* can_stack has checked the rank. */
            (void)td_shape_append(&shape, &to->shape, 0, to->shape.rank);
            td_status status =
                td_tensor_describe(to, m->op->inputs[i].name, to->dtype, &shape, m->err);
            if (status != TD_OK)
                return status;
        }
    }
    return m->op->stack->attrs(m->calls[0], m->way.shared, &m->out->args, m->arena, m->err);
}

/* Computes the position of each call's outputs in the merged outputs. In all kinds of merging, the
 * outputs of the calls follow one another. Fails if the merged outputs have another size. */
static td_status place_outputs(struct merger *m)
{
    const int n_outputs = m->out->args.n_outputs;
    size_t *begin =
        td_arena_alloc(m->arena, (size_t)m->n * (size_t)n_outputs, sizeof(begin[0]), m->err);
    if (!begin)
        return m->err->status;
    for (int j = 0; j < n_outputs; j++) {
        size_t at = 0;
        for (int c = 0; c < m->n; c++) {
            begin[c * n_outputs + j] = at;
            at += m->calls[c]->outputs[j].bytes; /* sizes as described by infer */
        }
        if (at != m->out->args.outputs[j].bytes)
            return refuse(m->err);
    }
    m->out->output_begin = begin;
    return TD_OK;
}

/* Describes the outputs of the merged call. A program can refuse a number of rows that differs from
 * that of its calls, for example if it reshapes to fixed sizes. */
static td_status infer_merged(struct merger *m)
{
    struct td_op_args *args = &m->out->args;
    const td_status status = td_op_infer(m->op, args, m->arena, m->err);
    if (m->way.kind != TD_MERGE_ROWS || status == TD_MEMORY_EXHAUSTED)
        return status;
    return status == TD_OK && td_op_by_rows(args, rows_of(m->op, args, m->way.shared))
               ? TD_OK
               : refuse(m->err);
}

td_status td_merge_calls(const struct td_op *op, const struct td_op_args *const *calls, int n,
                         uint32_t shared, struct td_arena *arena, struct td_merged *out,
                         struct td_error *err)
{
    const td_merge_kind kind = kind_if_merged(op, calls[0], shared);
    struct merger m = { op, { op, kind, shared }, calls, n, arena, out, err };
    assert(n >= 1);
    memset(out, 0, sizeof(*out));
    td_status status = describe_inputs(&m);
    if (status == TD_OK)
        status = copy_attrs(&m);
    if (status == TD_OK)
        status = kind == TD_MERGE_STACK ? stack_inputs(&m) : concat_inputs(&m);
    if (status == TD_OK)
        status = infer_merged(&m);
    if (status == TD_OK)
        status = place_outputs(&m);
    return status;
}

/* ---- Its data ---------------------------------------------------------------------------- */

/* Sets to[i] = from[i] + before for all elements. */
static void copy_raised(int64_t *to, const struct td_tensor *from, int64_t before)
{
    for (int64_t i = 0; i < from->numel; i++)
        to[i] = td_tensor_index_at(from, i) + before;
}

static void copy_now(void *context, void *to, const void *from, size_t bytes)
{
    (void)context;
    memcpy(to, from, bytes);
}

void td_merge_copy(const struct td_op *op, const struct td_op_args *const *calls, int n, int number,
                   void *to, td_merge_copy_fn *copy, void *context)
{
    copy = copy ? copy : copy_now;
    char *at = to;
    int64_t before = 0;
    int i = 0, j = number;
    for (; j >= calls[0]->inputs[i].count; i++)
        j -= calls[0]->inputs[i].count;
    const td_row_part part = op->inputs[i].part;
    const int query = part == TD_ROW_PART_OFFSETS ? td_op_rows_input(op, TD_ROW_PART_QUERY) : -1;
    const bool raised = is_raised(op, i);
    for (int c = 0; c < n; c++) {
        const struct td_tensor *from = &calls[c]->inputs[i].tensors[j];
        const size_t bytes = raised ? (size_t)from->numel * sizeof(int64_t) : from->bytes;
        if (raised)
            copy_raised((int64_t *)(void *)at, from, before);
        else if (bytes > 0)
            copy(context, at, from->data, bytes);
        at += bytes;
        before += part == TD_ROW_PART_OFFSETS    ? calls[c]->inputs[query].tensors->numel
                  : part == TD_ROW_PART_SEGMENTS ? calls[c]->outputs[0].shape.dim[0]
                                                 : 0;
    }
}
