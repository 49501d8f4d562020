#include "tests/gpu/device_cases.h"

#include "kernels/cast/cast.h"
#include "kernels/concat/concat.h"
#include "kernels/dynamic_partition/dynamic_partition.h"
#include "kernels/dynamic_stitch/dynamic_stitch.h"
#include "kernels/einsum/einsum.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/find/find.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/half.h"
#include "kernels/key_index/key_index.h"
#include "kernels/lookup/lookup.h"
#include "kernels/normalisation/normalisation.h"
#include "kernels/reductions/reductions.h"
#include "kernels/search/search.h"
#include "kernels/segments/segments.h"
#include "kernels/shapes/shapes.h"
#include "kernels/top_k/top_k.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

struct generator {
    struct td_arena *arena;
    device_case_fn *fn;
    void *context;
    struct device_case one; /* being generated */
    int64_t n_cases;        /* generated so far */
    int64_t max_items;      /* of a case with several items */
    uint64_t random;
};

/* ---- random numbers, tensors ----------------------------------------------------------------- */

static uint64_t next(struct generator *g) /* splitmix64 */
{
    uint64_t z = (g->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t below(struct generator *g, int64_t n)
{
    return (int64_t)(next(g) % (uint64_t)n);
}

static void *allocate(struct generator *g, size_t count, size_t size)
{
    void *memory = td_arena_alloc(g->arena, count, size, TD_IGNORED);
    if (!memory) {
        fprintf(stderr, "no memory for a case\n");
        exit(1);
    }
    return memory;
}

/* Parses "2,3"; "" is a scalar. Stops at the first character that is neither digit nor comma. */
static struct td_shape shape_of(const char *text)
{
    struct td_shape shape = { .rank = 0 };
    while (*text >= '0' && *text <= '9') {
        char *end;
        shape.dim[shape.rank++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return shape;
}

static struct td_tensor new_tensor(struct generator *g, td_dtype dtype,
                                   const struct td_shape *shape)
{
    struct td_tensor tensor;
    if (!td_tensor_describe(&tensor, "case", dtype, shape, TD_IGNORED) &&
        !td_tensor_alloc(&tensor, g->arena, TD_IGNORED))
        return tensor;
    fprintf(stderr, "no memory for a tensor\n");
    exit(1);
}

/* Random bits: the op moves elements and does not read them. */
static struct td_tensor random_bits(struct generator *g, td_dtype dtype,
                                    const struct td_shape *shape)
{
    struct td_tensor tensor = new_tensor(g, dtype, shape);
    unsigned char *byte = tensor.data;
    for (size_t i = 0; i < tensor.bytes; i++)
        byte[i] = (unsigned char)(dtype == TD_DTYPE_BOOL ? next(g) & 1 : next(g));
    return tensor;
}

static void set_index(struct td_tensor *tensor, int64_t i, int64_t value)
{
    if (tensor->dtype == TD_DTYPE_INT16)
        ((int16_t *)tensor->data)[i] = (int16_t)value;
    else if (tensor->dtype == TD_DTYPE_INT32)
        ((int32_t *)tensor->data)[i] = (int32_t)value;
    else
        ((int64_t *)tensor->data)[i] = value;
}

/* An index outside of [0, bound); every index dtype has some. */
static int64_t bad_index(struct generator *g, td_dtype dtype, int64_t bound)
{
    int64_t smallest = dtype == TD_DTYPE_INT16   ? INT16_MIN
                       : dtype == TD_DTYPE_INT32 ? INT32_MIN
                                                 : INT64_MIN;
    switch (below(g, 6)) {
    case 0:
        return bound;
    case 1:
        return bound + below(g, 1000);
    case 2:
        return -1;
    case 3:
        return -1 - below(g, 3 * bound + 1);
    case 4:
        return smallest;
    default:
        return -(smallest + 1); /* the largest */
    }
}

/* Tuples of depth components, each below its bound; if `bad`, one in four is out of range. */
static struct td_tensor indices_below(struct generator *g, td_dtype dtype,
                                      const struct td_shape *shape, int depth, const int64_t *bound,
                                      bool bad)
{
    struct td_tensor tensor = new_tensor(g, dtype, shape);
    for (int64_t i = 0; i < tensor.numel; i++) {
        int64_t limit = bound[i % depth];
        bool out_of_range = limit == 0 || (bad && below(g, 4) == 0);
        set_index(&tensor, i, out_of_range ? bad_index(g, dtype, limit) : below(g, limit));
    }
    return tensor;
}

/* ---- a case ---------------------------------------------------------------------------------- */

static void begin(struct generator *g, const struct td_op *op)
{
    g->one = (struct device_case){ .op = op, .depth = -1, .n_items = 1 };
    td_op_set_defaults(op, &g->one.args);
}

static void set_operand(struct generator *g, int i, const struct td_tensor *tensors, int count)
{
    struct td_operand *operand = &g->one.args.inputs[i];
    operand->tensors = allocate(g, (size_t)count, sizeof(*tensors));
    operand->count = count;
    memcpy(operand->tensors, tensors, (size_t)count * sizeof(*tensors));
}

static void set_attrs(struct generator *g, const void *attrs, size_t size)
{
    memcpy(g->one.args.attrs, attrs, size);
    g->one.args.attrs_set = (1u << g->one.op->n_attrs) - 1;
}

static void emit(struct generator *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void emit(struct generator *g, const char *format, ...)
{
    int n = snprintf(g->one.says, sizeof(g->one.says), "%s ", g->one.op->name);
    va_list args;
    va_start(args, format);
    vsnprintf(g->one.says + n, sizeof(g->one.says) - (size_t)n, format, args);
    va_end(args);
    g->n_cases++;
    g->fn(g->context, &g->one);
}

/* Splits the indices into n items, some of them empty. */
static void set_items(struct generator *g, int n, int64_t numel, int depth)
{
    int64_t *end = allocate(g, (size_t)n, sizeof(*end)), tuples = depth > 0 ? numel / depth : 0,
            at = 0;
    for (int i = 0; i < n; i++) {
        if (below(g, 4) > 0)
            at += below(g, tuples - at + 1) / (1 + below(g, 3));
        end[i] = (i == n - 1 ? tuples : at) * depth;
    }
    g->one.n_items = n;
    g->one.item_end = end;
}

static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };

static const char *name_of(td_dtype dtype)
{
    return td_dtype_info(dtype)->name;
}

/* Large cases use few dtypes: one of each width, and two index dtypes. */
static bool is_skipped(bool large, td_dtype dtype, td_dtype index)
{
    return large &&
           (index == TD_DTYPE_INT16 || (dtype != TD_DTYPE_INT8 && dtype != TD_DTYPE_FLOAT16 &&
                                        dtype != TD_DTYPE_FLOAT32 && dtype != TD_DTYPE_COMPLEX128));
}

/* ---- gather, batch_gather, gather_nd --------------------------------------------------------- */

struct gather_case {
    const struct td_op *op;
    const char *params, *indices;
    int64_t axis, batch_dims; /* of gather; batch_dims of gather_nd */
    bool large;
};

#define DEFAULT TD_ATTR_UNSET

static const struct gather_case gather_cases[] = {
    { &td_op_gather, "7", "5", DEFAULT, 0, false },
    { &td_op_gather, "1", "3", DEFAULT, 0, false },
    { &td_op_gather, "7,3", "", DEFAULT, 0, false },
    { &td_op_gather, "7,3", "2,3", DEFAULT, 0, false },
    { &td_op_gather, "9,4", "33", 0, 0, false },
    { &td_op_gather, "5,4,3", "6", 1, 0, false },
    { &td_op_gather, "5,4,3", "2,2", 2, 0, false },
    { &td_op_gather, "5,4,3", "4", -2, 0, false },
    { &td_op_gather, "2,3,5,4", "2,3,6", DEFAULT, 2, false },
    { &td_op_gather, "2,3,5,4", "2,3,2", 3, 2, false },
    { &td_op_gather, "3,5,4", "3,2,2", 2, 1, false },
    { &td_op_gather, "3,5,4", "3", 2, 1, false },
    { &td_op_gather, "3,5,4", "3,7", 2, -1, false },
    { &td_op_gather, "2,1,2,1,2,1,2,3,1,2,1,2,1,2", "2,2", 7, 0, false },
    { &td_op_gather, "7,0", "3", DEFAULT, 0, false },
    { &td_op_gather, "7,3", "0", DEFAULT, 0, false },
    { &td_op_gather, "0,3", "0", DEFAULT, 0, false },
    { &td_op_gather, "0,3", "4", DEFAULT, 0, false },
    { &td_op_gather, "2,0,3", "4", 1, 0, false },
    { &td_op_gather, "0,5,3", "4", 1, 0, false },
    { &td_op_gather, "300,17", "1000", DEFAULT, 0, true },
    { &td_op_gather, "1000,64", "5000", DEFAULT, 0, true },
    { &td_op_gather, "100000", "70000", DEFAULT, 0, true },
    { &td_op_gather, "3,20011", "6", DEFAULT, 0, true },
    { &td_op_gather, "40,30,33", "50", 1, 0, true },
    { &td_op_gather, "70,41", "300", 1, 0, true },
    { &td_op_gather, "50,40,8", "50,30", 1, 1, true },
    { &td_op_batch_gather, "7,3", "5", 0, 0, false },
    { &td_op_batch_gather, "3,5,4", "3,2", 0, 0, false },
    { &td_op_batch_gather, "2,3,7", "2,3,4", 0, 0, false },
    { &td_op_batch_gather, "2,3,0", "2,3,4", 0, 0, false },
    { &td_op_batch_gather, "0,3", "0,2", 0, 0, false },
    { &td_op_batch_gather, "2,3,4", "2,0", 0, 0, false },
    { &td_op_batch_gather, "60,50,9", "60,70", 0, 0, true },
    { &td_op_gather_nd, "7", "5,1", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "6,1", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "6,2", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "6,3", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "2,3,2", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "2", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "6,0", 0, 0, false },
    { &td_op_gather_nd, "2,5,4,3", "2,6,2", 0, 1, false },
    { &td_op_gather_nd, "2,3,4,5", "2,3,2,1", 0, 2, false },
    { &td_op_gather_nd, "2,3,4", "2,3,0", 0, 2, false },
    { &td_op_gather_nd, "2,2,2,2,2,2,2,3", "4,8", 0, 0, false },
    { &td_op_gather_nd, "5,0,3", "4,2", 0, 0, false },
    { &td_op_gather_nd, "5,4,0", "4,2", 0, 0, false },
    { &td_op_gather_nd, "5,4,3", "0,2", 0, 0, false },
    { &td_op_gather_nd, "0,4,3", "3,1", 0, 0, false },
    { &td_op_gather_nd, "100,90", "20000,2", 0, 0, true },
    { &td_op_gather_nd, "40,30,20,5", "3000,3", 0, 0, true },
    { &td_op_gather_nd, "8,30,20", "8,500,2", 0, 1, true },
};

/* Sets one.depth and one.bound. */
static void index_bounds(struct generator *g, const struct gather_case *p,
                         const struct td_shape *params, const struct td_shape *indices)
{
    if (p->op == &td_op_gather_nd) {
        g->one.depth = (int)indices->dim[indices->rank - 1];
        memcpy(g->one.bound, params->dim + p->batch_dims,
               (size_t)g->one.depth * sizeof(params->dim[0]));
        return;
    }
    int64_t axis = p->op == &td_op_gather ? p->axis : indices->rank - 1;
    if (axis == DEFAULT)
        axis = p->batch_dims;
    g->one.depth = 1;
    g->one.bound[0] = params->dim[axis < 0 ? axis + params->rank : axis];
}

static void set_gather_attrs(struct generator *g, const struct gather_case *p, td_bounds bounds)
{
    struct td_gather_attrs gather = { .axis = p->axis,
                                      .batch_dims = p->batch_dims,
                                      .bounds = bounds };
    struct td_batch_gather_attrs batch_gather = { bounds };
    struct td_gather_nd_attrs gather_nd = { p->batch_dims, bounds };
    if (p->op == &td_op_gather)
        set_attrs(g, &gather, sizeof(gather));
    else if (p->op == &td_op_batch_gather)
        set_attrs(g, &batch_gather, sizeof(batch_gather));
    else
        set_attrs(g, &gather_nd, sizeof(gather_nd));
    if (p->op == &td_op_gather && p->axis == DEFAULT)
        g->one.args.attrs_set &= ~1u; /* axis */
}

/* Every third case has several items, about every second bad indices; some params are
 * misaligned. */
static void make_gather(struct generator *g, const struct gather_case *p, td_dtype dtype,
                        td_dtype index, td_bounds bounds)
{
    struct td_shape params = shape_of(p->params), indices = shape_of(p->indices);
    bool bad = below(g, 2) == 0;
    begin(g, p->op);
    index_bounds(g, p, &params, &indices);
    struct td_tensor table = random_bits(g, dtype, &params);
    struct td_tensor index_tensor =
        indices_below(g, index, &indices, g->one.depth, g->one.bound, bad);
    set_operand(g, 0, &table, 1);
    set_operand(g, 1, &index_tensor, 1);
    set_gather_attrs(g, p, bounds);
    if (g->n_cases % 3 == 0)
        set_items(g, 1 + (int)below(g, g->max_items), index_tensor.numel, g->one.depth);
    if (g->n_cases % 5 == 0)
        g->one.first_offset = (size_t)(1 + below(g, 20)) * td_dtype_info(dtype)->size;
    emit(g, "%s[%s] by %s[%s] axis %" PRId64 " batch_dims %" PRId64 " bounds %s%s, %d items%s",
         name_of(dtype), p->params, name_of(index), p->indices,
         p->op == &td_op_gather && p->axis != DEFAULT ? p->axis : 0, p->batch_dims,
         td_bounds_name(bounds), bad ? ", some bad" : "", g->one.n_items,
         g->one.first_offset ? ", params misaligned" : "");
}

static void make_all_gathers(struct generator *g)
{
    for (int i = 0; i < COUNT_OF(gather_cases); i++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
            for (int index = 0; index < COUNT_OF(index_dtypes); index++)
                for (int bounds = 0; bounds < TD_BOUNDS_COUNT; bounds++)
                    if (!is_skipped(gather_cases[i].large, (td_dtype)dtype, index_dtypes[index]))
                        make_gather(g, &gather_cases[i], (td_dtype)dtype, index_dtypes[index],
                                    (td_bounds)bounds);
}

/* Many items in a launch, as of many merged calls. */
static void make_gathers_of_many_items(struct generator *g)
{
    static const struct gather_case many[] = {
        { &td_op_gather, "1000,16", "4096", DEFAULT, 0, true },
        { &td_op_gather, "50,7", "1000", DEFAULT, 0, true },
        { &td_op_gather_nd, "30,20,4", "1500,2", 0, 0, true },
    };
    for (int i = 0; i < COUNT_OF(many); i++)
        for (int bounds = 0; bounds < TD_BOUNDS_COUNT; bounds++)
            for (int n = 64; n <= 1024; n *= 4) {
                const struct gather_case *p = &many[i];
                struct td_shape params = shape_of(p->params), indices = shape_of(p->indices);
                begin(g, p->op);
                index_bounds(g, p, &params, &indices);
                struct td_tensor table = random_bits(g, TD_DTYPE_FLOAT32, &params);
                struct td_tensor index_tensor = indices_below(g, TD_DTYPE_INT32, &indices,
                                                              g->one.depth, g->one.bound, n != 256);
                set_operand(g, 0, &table, 1);
                set_operand(g, 1, &index_tensor, 1);
                set_gather_attrs(g, p, (td_bounds)bounds);
                int64_t *end = allocate(g, (size_t)n, sizeof(*end));
                int64_t tuples = index_tensor.numel / g->one.depth;
                for (int k = 0; k < n; k++)
                    end[k] = tuples * (k + 1) / n * g->one.depth;
                g->one.n_items = n;
                g->one.item_end = end;
                emit(g, "of %d items, float32[%s] by int32[%s] bounds %s", n, p->params, p->indices,
                     td_bounds_name((td_bounds)bounds));
            }
}

/* ---- dynamic_stitch, dynamic_partition ------------------------------------------------------- */

static const struct stitch_case {
    int n;
    const char *indices[4]; /* shapes */
    const char *row;        /* shape of one row */
    int64_t below;          /* bound of the indices */
    bool large;
} stitch_cases[] = {
    { 1, { "5" }, "", 5, false },
    { 1, { "5" }, "3", 9, false },
    { 1, { "" }, "4", 3, false },
    { 2, { "4", "2,2" }, "3", 8, false },
    { 3, { "4", "0", "" }, "2,2", 6, false },
    { 4, { "2", "3", "1,2", "" }, "", 30, false },
    { 1, { "0" }, "3", 1, false },
    { 2, { "3", "2" }, "0", 5, false },
    { 2, { "30", "40" }, "33", 200, false },
    { 1, { "1" }, "5", 1000, false },
    { 2, { "3000", "20,50" }, "17", 4000, true },
    { 3, { "5000", "5000", "100" }, "", 12000, true },
    { 2, { "3", "2" }, "20011", 6, true },
};

/* The nth of a sequence of distinct indices: 7919 is a prime. */
static int64_t distinct_index(int64_t n, int64_t limit)
{
    return n * 7919 % limit;
}

static bool may_repeat(const struct td_op *op)
{
    return op == &td_op_dynamic_stitch; /* parallel_dynamic_stitch leaves duplicates undefined */
}

static void make_stitch(struct generator *g, const struct td_op *op, const struct stitch_case *s,
                        td_dtype dtype, td_dtype index)
{
    struct td_tensor indices[4], data[4];
    bool repeat = may_repeat(op) && below(g, 2) == 0;
    int64_t row = 0;
    for (int k = 0; k < s->n; k++) {
        struct td_shape shape = shape_of(s->indices[k]), rest = shape_of(s->row);
        /* Each indices tensor has its own dtype. */
        td_dtype own = index_dtypes[(index + (td_dtype)k) % 3];
        indices[k] = new_tensor(g, own, &shape);
        for (int64_t i = 0; i < indices[k].numel; i++, row++)
            set_index(&indices[k], i, repeat ? below(g, s->below) : distinct_index(row, s->below));
        (void)td_shape_append(&shape, &rest, 0, rest.rank);
        data[k] = random_bits(g, dtype, &shape);
    }
    begin(g, op);
    set_operand(g, 0, indices, s->n);
    set_operand(g, 1, data, s->n);
    emit(g, "%d tensors of %s, the first indices [%s], rows [%s], below %" PRId64 "%s", s->n,
         name_of(dtype), s->indices[0], s->row, s->below, repeat ? ", with duplicates" : "");
}

static void make_all_stitches(struct generator *g, const struct td_op *op)
{
    for (int i = 0; i < COUNT_OF(stitch_cases); i++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
            for (int index = 0; index < COUNT_OF(index_dtypes); index++)
                if (!is_skipped(stitch_cases[i].large, (td_dtype)dtype, index_dtypes[index]))
                    make_stitch(g, op, &stitch_cases[i], (td_dtype)dtype, index_dtypes[index]);
}

static const struct partition_case {
    const char *data, *partitions;
    int64_t n;
    bool large;
} partition_cases[] = {
    { "6", "6", 1, false },         { "6,3", "6", 2, false },
    { "2,3,4", "2,3", 3, false },   { "5", "", 2, false },
    { "", "", 1, false },           { "0,3", "0", 4, false },
    { "6,0", "6", 2, false },       { "40,33", "40", 100, false },
    { "500", "500", 7, false },     { "20000,3", "20000", 16, true },
    { "3000,64", "3000", 3, true }, { "9,20011", "9", 4, true },
    { "7000", "7000", 300, true },
};

static void make_partition(struct generator *g, const struct partition_case *p, td_dtype dtype,
                           td_dtype index)
{
    struct td_shape data_shape = shape_of(p->data), shape = shape_of(p->partitions);
    struct td_dynamic_partition_attrs attrs = { p->n };
    begin(g, &td_op_dynamic_partition);
    struct td_tensor data = random_bits(g, dtype, &data_shape);
    struct td_tensor partitions = indices_below(g, index, &shape, 1, &p->n, false);
    set_operand(g, 0, &data, 1);
    set_operand(g, 1, &partitions, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    emit(g, "%s[%s] by %s[%s] into %" PRId64, name_of(dtype), p->data, name_of(index),
         p->partitions, p->n);
}

static void make_all_partitions(struct generator *g)
{
    for (int i = 0; i < COUNT_OF(partition_cases); i++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
            for (int index = 0; index < COUNT_OF(index_dtypes); index++)
                if (!is_skipped(partition_cases[i].large, (td_dtype)dtype, index_dtypes[index]))
                    make_partition(g, &partition_cases[i], (td_dtype)dtype, index_dtypes[index]);
}

/* ---- find, lookup ---------------------------------------------------------------------------- */

static const struct key_case {
    const char *params; /* the first dimension is the number of keys */
    const char *queries;
} key_cases[] = {
    { "7,3", "5" },     { "7", "2,3" },      { "1,2", "4" },      { "0,3", "3" },
    { "9,4", "0" },     { "9,0", "4" },      { "5,2", "" },       { "12", "30" },
    { "300,17", "70" }, { "5000", "10000" }, { "40,2000", "50" }, { "1000,6", "2000" },
};

/* Keys in no order, with an index. */
static struct td_tensor indexed_keys(struct generator *g, td_dtype dtype, int64_t n)
{
    struct td_shape shape = { .rank = 1, .dim = { n } };
    struct td_tensor keys = new_tensor(g, dtype, &shape);
    const size_t bytes = td_key_index_bytes(n);
    char *image = allocate(g, bytes + TD_KEY_INDEX_ALIGN, 1);
    struct td_key_index *index = allocate(g, 1, sizeof(*index));
    struct td_exec serial;
    struct td_error err;
    uint64_t key = next(g);
    for (int64_t i = 0; i < n; i++, key += 1 + next(g) % 3)
        ((uint64_t *)keys.data)[i] = key;
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t *a = (uint64_t *)keys.data + i, *b = (uint64_t *)keys.data + below(g, i + 1);
        const uint64_t swapped = *a;
        *a = *b;
        *b = swapped;
    }
    image += -(uintptr_t)image % TD_KEY_INDEX_ALIGN;
    td_exec_serial(&serial, g->arena);
    if (td_key_index_build(&keys, "keys", next(g), image, &serial, &err) != TD_OK ||
        !td_key_index_open(image, bytes, &keys, index)) {
        fprintf(stderr, "the index of a case cannot be built: %s\n", err.message);
        exit(1);
    }
    keys.key_index = index;
    return keys;
}

/* Keys, of which one in `missing` is not there; 0: all are. */
static struct td_tensor queries_of(struct generator *g, const struct td_tensor *keys,
                                   const struct td_shape *shape, int64_t missing)
{
    struct td_tensor queries = new_tensor(g, keys->dtype, shape);
    for (int64_t i = 0; i < queries.numel; i++) {
        const bool any = keys->numel == 0 || (missing > 0 && below(g, missing) == 0);
        ((uint64_t *)queries.data)[i] =
            any ? next(g) : ((const uint64_t *)keys->data)[below(g, keys->numel)];
    }
    return queries;
}

static void make_find(struct generator *g, const struct key_case *k, td_dtype dtype)
{
    struct td_shape params = shape_of(k->params), shape = shape_of(k->queries);
    begin(g, &td_op_find);
    struct td_tensor keys = indexed_keys(g, dtype, params.dim[0]);
    struct td_tensor queries = queries_of(g, &keys, &shape, 3);
    set_operand(g, 0, &keys, 1);
    set_operand(g, 1, &queries, 1);
    emit(g, "[%s] in %" PRId64 " keys of %s", k->queries, keys.numel, name_of(dtype));
}

enum default_form { DEFAULT_SCALAR, DEFAULT_ROW, DEFAULT_ROWS, DEFAULT_FORMS };

static void make_lookup(struct generator *g, const struct key_case *k, td_dtype dtype, td_dtype key,
                        td_missing missing, enum default_form form)
{
    struct td_shape params = shape_of(k->params), shape = shape_of(k->queries);
    struct td_shape row = { .rank = 0 };
    struct td_lookup_attrs attrs = { missing };
    const int64_t share = below(g, 2) ? 4 : 0;
    begin(g, &td_op_lookup);
    struct td_tensor table = random_bits(g, dtype, &params);
    struct td_tensor keys = indexed_keys(g, key, params.dim[0]);
    struct td_tensor queries = queries_of(g, &keys, &shape, share);
    set_operand(g, 0, &table, 1);
    set_operand(g, 1, &keys, 1);
    set_operand(g, 2, &queries, 1);
    if (form == DEFAULT_ROWS)
        row = shape;
    if (form != DEFAULT_SCALAR)
        (void)td_shape_append(&row, &params, 1, params.rank);
    if (missing != TD_MISSING_ERROR) { /* not used with zero */
        struct td_tensor other = random_bits(g, dtype, &row);
        set_operand(g, 3, &other, 1);
    }
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.reports_missing = missing == TD_MISSING_ERROR;
    if (g->n_cases % 5 == 0)
        g->one.first_offset = (size_t)(1 + below(g, 20)) * td_dtype_info(dtype)->size;
    emit(g, "[%s] in %s[%s] by keys of %s, missing %d, default %d", k->queries, name_of(dtype),
         k->params, name_of(key), (int)missing, (int)form);
}

static void make_all_lookups(struct generator *g)
{
    for (int i = 0; i < COUNT_OF(key_cases); i++) {
        make_find(g, &key_cases[i], TD_DTYPE_INT64);
        make_find(g, &key_cases[i], TD_DTYPE_UINT64);
    }
    for (int i = 0; i < COUNT_OF(key_cases); i++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
            for (int missing = TD_MISSING_ERROR; missing <= TD_MISSING_DEFAULT; missing++)
                make_lookup(g, &key_cases[i], (td_dtype)dtype,
                            dtype % 2 ? TD_DTYPE_INT64 : TD_DTYPE_UINT64, (td_missing)missing,
                            (enum default_form)below(g, DEFAULT_FORMS));
}

/* ---- einsum ---------------------------------------------------------------------------------- */

static const struct einsum_case {
    const char *equation;
    const char *shapes[4];
    int n;
} einsum_cases[] = {
    { "ij,jk->ik", { "3,4", "4,5" }, 2 },
    { "ij,jk->ik", { "1,7", "7,1" }, 2 },
    { "ij,jk->ik", { "5,1", "1,6" }, 2 },
    { "ij,jk->ik", { "64,64", "64,64" }, 2 },
    { "ij,jk->ik", { "129,65", "65,33" }, 2 },
    { "ij,jk->ik", { "16,300", "300,17" }, 2 },
    { "ij,jk->ik", { "3,0", "0,4" }, 2 },
    { "ij,jk->ik", { "0,3", "3,4" }, 2 },
    { "ij,kj->ik", { "33,20", "40,20" }, 2 },
    { "ji,jk->ki", { "31,8", "31,9" }, 2 },
    { "ji,jk->ik", { "70,66", "70,35" }, 2 },
    { "ij,j->i", { "40,50", "50" }, 2 },
    { "i,ij->j", { "40", "40,50" }, 2 },
    { "ij,jk", { "6,7", "7,8" }, 2 },
    { "bij,bjk->bik", { "5,4,6", "5,6,3" }, 2 },
    { "bij,bjk->bik", { "3,40,33", "3,33,50" }, 2 },
    { "bij,jk->bik", { "5,4,6", "6,3" }, 2 },
    { "ij,bjk->bik", { "4,6", "5,6,3" }, 2 },
    { "bij,bkj->bik", { "17,8,16", "17,8,16" }, 2 },
    { "bqhd,bkhd->bhqk", { "2,6,3,8", "2,5,3,8" }, 2 },
    { "bhqk,bkhd->bqhd", { "2,3,6,5", "2,5,3,8" }, 2 },
    { "ijkl,klmn->ijmn", { "2,3,4,5", "4,5,3,2" }, 2 },
    { "i,i->", { "1000", "1000" }, 2 },
    { "bi,bi->b", { "20,30", "20,30" }, 2 },
    { "i,j->ij", { "50", "60" }, 2 },
    { "ij,ij->ij", { "30,40", "30,40" }, 2 },
    { "ij,ji->", { "30,40", "40,30" }, 2 },
    { "ij->", { "50,60" }, 1 },
    { "ij->i", { "50,60" }, 1 },
    { "ij->j", { "50,60" }, 1 },
    { "ij->i", { "3,5000" }, 1 }, /* of several runs, and a rest */
    { "ij->j", { "5003,3" }, 1 },
    { "ij,ij->i", { "2,4100", "2,4100" }, 2 },
    { "ij,ik->jk", { "700,3", "700,2" }, 2 },
    { "ijk->j", { "9,5,77" }, 1 }, /* of two loops, and of three */
    { "ijk->j", { "40,3,700" }, 1 },
    { "ijk->j", { "3000,2,3" }, 1 },
    { "ijk,ijk->j", { "12,3,300", "12,3,300" }, 2 },
    { "ijk,kji->j", { "6,2,450", "450,2,6" }, 2 },
    { "ijklm->jl", { "7,3,30,5,9" }, 1 },
    { "ijklm,mlkji->l", { "3,4,5,6,70", "70,6,5,4,3" }, 2 },
    { "ij->ij", { "5,6" }, 1 },
    { "ij->ji", { "50,60" }, 1 },
    { "ijk->kji", { "7,8,9" }, 1 },
    { "ijkl->jlik", { "3,4,5,6" }, 1 },
    { "ii->i", { "20,20" }, 1 },
    { "ii->", { "20,20" }, 1 },
    { "i->ii", { "9" }, 1 },
    { "iij->ij", { "6,6,4" }, 1 },
    { "ii,i->i", { "6,6", "6" }, 2 },
    { "ij->i", { "4,0" }, 1 },
    { "->", { "" }, 1 },
    { ",->", { "", "" }, 2 },
    { "i,->i", { "7", "" }, 2 },
    { "...ij,...jk->...ik", { "2,1,3,4", "5,4,2" }, 2 },
    { "...i->...", { "2,3,4" }, 1 },
    { "...,...->...", { "2,1,3", "4,1" }, 2 },
    { "i...,j...->ij...", { "2,3,1", "4,1,5" }, 2 },
    { "ab,bc,cd->ad", { "4,5", "5,6", "6,3" }, 3 },
    { "abc,cd,de->abe", { "2,3,4", "4,5", "5,2" }, 3 },
    { "i,ij,j->", { "6", "6,7", "7" }, 3 },
    { "a,b,c->abc", { "3", "4", "5" }, 3 },
    { "ab,ac,ad,bcd->a", { "3,2", "3,4", "3,2", "2,4,2" }, 4 },
};

static uint16_t round_to(double value, struct td_narrow format)
{
    bool unsure;
    return td_narrow_round(value, format, 0, &unsure);
}

static void set_float(struct td_tensor *tensor, int64_t i, double value)
{
    switch (tensor->dtype) {
    case TD_DTYPE_FLOAT16:
        ((uint16_t *)tensor->data)[i] = round_to(value, TD_NARROW_FLOAT16);
        break;
    case TD_DTYPE_BFLOAT16:
        ((uint16_t *)tensor->data)[i] = round_to(value, TD_NARROW_BFLOAT16);
        break;
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        ((float *)tensor->data)[i] = (float)value;
        break;
    default:
        ((double *)tensor->data)[i] = value;
    }
}

static bool is_float(td_dtype dtype)
{
    return dtype >= TD_DTYPE_FLOAT16 && dtype <= TD_DTYPE_COMPLEX128;
}

/* Terms of sums: integers with random bits, whose sums wrap; floats from -1 to 1, or if `exact`
 * small integers, whose sums are exact in any order. */
static struct td_tensor random_terms(struct generator *g, td_dtype dtype,
                                     const struct td_shape *shape, bool exact)
{
    if (!is_float(dtype))
        return random_bits(g, dtype, shape);
    struct td_tensor tensor = new_tensor(g, dtype, shape);
    bool complex = dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
    for (int64_t i = 0; i < tensor.numel * (complex ? 2 : 1); i++)
        set_float(&tensor, i,
                  exact ? (double)(below(g, 7) - 3) : (double)below(g, 2000001) / 1000000 - 1);
    return tensor;
}

/* Relative to the sum of magnitudes: some hundred units in the last place for sums of thousands of
 * terms, one for dtypes that are rounded at the end. */
static double tolerance_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return 0x1p-10;
    case TD_DTYPE_BFLOAT16:
        return 0x1p-7;
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        return 1e-5;
    default:
        return 1e-13;
    }
}

static void make_einsum(struct generator *g, const char *equation, const struct td_shape *shapes,
                        int n, td_dtype dtype, double tolerance)
{
    struct td_tensor inputs[4];
    char list[200] = "";
    begin(g, &td_op_einsum);
    for (int i = 0; i < n; i++) {
        char text[TD_SHAPE_TEXT];
        inputs[i] = random_terms(g, dtype, &shapes[i], tolerance == 0);
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, " %s",
                 td_shape_text(&shapes[i], text, sizeof(text)));
    }
    char *copy = allocate(g, strlen(equation) + 1, 1);
    strcpy(copy, equation);
    struct td_einsum_attrs attrs = { copy };
    set_operand(g, 0, inputs, n);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.tolerance = tolerance;
    emit(g, "%s of %s%s%s", equation, name_of(dtype), list, tolerance > 0 ? ", rounded" : "");
}

static void make_all_einsums(struct generator *g)
{
    for (int i = 0; i < COUNT_OF(einsum_cases); i++) {
        const struct einsum_case *c = &einsum_cases[i];
        struct td_shape shapes[4];
        for (int k = 0; k < c->n; k++)
            shapes[k] = shape_of(c->shapes[k]);
        for (int dtype = TD_DTYPE_INT8; dtype < TD_DTYPE_STRING; dtype++) {
            make_einsum(g, c->equation, shapes, c->n, (td_dtype)dtype, 0);
            if (is_float((td_dtype)dtype))
                make_einsum(g, c->equation, shapes, c->n, (td_dtype)dtype,
                            tolerance_of((td_dtype)dtype));
        }
    }
}

/* Inputs with random labels of a few, in any order, some of them repeated; an output with some of
 * the labels. */
static void make_random_einsum(struct generator *g, int64_t max)
{
    enum { LABELS = 6, INPUTS = 3, RANK = 4 };
    char equation[64];
    int at = 0, n = 1 + (int)below(g, INPUTS);
    int64_t extent[LABELS];
    bool used[LABELS] = { false };
    struct td_shape shapes[INPUTS];
    for (int i = 0; i < LABELS; i++)
        extent[i] = 1 + below(g, max);
    for (int k = 0; k < n; k++) {
        int rank = (int)below(g, RANK + 1);
        shapes[k].rank = rank;
        for (int d = 0; d < rank; d++) {
            int label = (int)below(g, LABELS);
            used[label] = true;
            shapes[k].dim[d] = extent[label];
            equation[at++] = (char)('a' + label);
        }
        equation[at++] = ',';
    }
    at--;
    equation[at++] = '-';
    equation[at++] = '>';
    int first = (int)below(g, LABELS), step = below(g, 2) ? 1 : LABELS - 1;
    for (int i = 0, label = first; i < LABELS; i++, label = (label + step) % LABELS)
        if (used[label] && below(g, 2))
            equation[at++] = (char)('a' + label);
    equation[at] = '\0';
    static const td_dtype dtypes[] = { TD_DTYPE_INT8,    TD_DTYPE_UINT32,   TD_DTYPE_INT64,
                                       TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64 };
    for (int i = 0; i < COUNT_OF(dtypes); i++)
        make_einsum(g, equation, shapes, n, dtypes[i], 0);
}

/* Appends n dimensions to text, which has room; some are 0. */
static void append_dimensions(struct generator *g, char *text, int n, int64_t max)
{
    for (int i = 0; i < n; i++)
        sprintf(text + strlen(text), "%s%" PRId64, text[0] ? "," : "",
                below(g, 25) == 0 ? 0 : 1 + below(g, max));
}

/* ---- embedding_bag --------------------------------------------------------------------------- */

static const struct bag_case {
    const char *params;
    int64_t n_indices;
    int64_t n_bags;
} bag_cases[] = {
    { "7,3", 12, 4 },    { "7", 9, 3 },         { "5,4", 1, 1 },      { "5,2,3", 20, 6 },
    { "0,3", 4, 2 },     { "7,0", 5, 2 },       { "6,8", 0, 3 },      { "6,8", 0, 0 },
    { "9,16", 300, 1 },  { "40,33", 700, 5 },   { "64,64", 90, 30 },  { "50,257", 60, 3 },
    { "30,5", 1500, 2 }, { "20,300", 520, 40 }, { "300,4", 2000, 9 },
};

/* What a case of embedding_bag has besides its shapes. */
struct bag_form {
    td_dtype dtype, index, out;
    struct td_embedding_bag_attrs attrs;
    bool segments, weighted, has_dtype;
};

static bool is_byte(td_dtype dtype)
{
    return dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8;
}

static const char *const bag_modes[] = { "sum", "mean", "sqrtn", "max" };

/* Sums and maxima are exact: of small integers, times powers of 2. Quotients are rounded; then all
 * is positive, so that the magnitude of a result bounds the error of its parts. */
static bool is_rounded(const struct bag_form *form)
{
    return form->attrs.mode == TD_BAG_MEAN || form->attrs.mode == TD_BAG_SQRTN;
}

/* Bags so short are split neither by the CPU nor by a device, so their sums have the same bits. */
static bool is_short(const struct bag_case *c)
{
    return c->n_indices <= 128;
}

static struct td_tensor small_floats(struct generator *g, td_dtype dtype,
                                     const struct td_shape *shape, int64_t least, int64_t values,
                                     double unit)
{
    struct td_tensor tensor = new_tensor(g, dtype, shape);
    for (int64_t i = 0; i < tensor.numel; i++)
        set_float(&tensor, i, (double)(least + below(g, values)) * unit);
    return tensor;
}

static struct td_tensor bag_params(struct generator *g, const struct bag_form *form,
                                   const struct td_shape *shape)
{
    struct td_tensor params = is_byte(form->dtype) ? random_bits(g, form->dtype, shape)
                                                   : random_terms(g, form->dtype, shape, true);
    const int64_t n = shape->dim[0], d = shape->dim[shape->rank - 1];
    for (size_t i = 0; form->dtype == TD_DTYPE_INT8 && is_rounded(form) && i < params.bytes; i++)
        ((int8_t *)params.data)[i] &= 127;
    for (int64_t i = 0; form->attrs.layout == TD_ROW_LAYOUT_BYTE_ROWWISE && i < n; i++) {
        const float after[2] = { (float)(1 + below(g, 4)) / 4, (float)below(g, 9) };
        memcpy((char *)params.data + (i + 1) * d - TD_ROW_TRAILER, after, sizeof(after));
    }
    return params;
}

/* Where the bags begin, or the bag of each index: some are empty, and some long. */
static struct td_tensor bags_of(struct generator *g, const struct bag_form *form,
                                const struct bag_case *c)
{
    const bool segments = form->segments;
    struct td_shape shape = { .rank = 1, .dim = { segments ? c->n_indices : c->n_bags } };
    struct td_tensor tensor = new_tensor(g, index_dtypes[below(g, 3)], &shape);
    int64_t at = 0, bag = 0;
    for (int64_t i = 0; i < tensor.numel; i++) {
        set_index(&tensor, i, segments ? bag : at);
        if (!segments && below(g, 4) > 0)
            at += below(g, c->n_indices - at + 1) / (below(g, 3) ? 4 : 1);
        else if (segments && below(g, c->n_indices / c->n_bags + 1) == 0)
            bag += bag + 1 < c->n_bags ? 1 + below(g, c->n_bags - bag - 1) / 3 : 0;
    }
    return tensor;
}

static double bag_tolerance(const struct bag_form *form, const struct bag_case *c)
{
    if (is_short(c) || !is_rounded(form))
        return 0;
    const double computed = form->dtype == TD_DTYPE_FLOAT64 ? 1e-13 : 1e-5;
    const double stored = tolerance_of(form->out);
    return computed > stored ? computed : stored;
}

/* A shape of one number for each of n rows, or for all. */
static struct td_shape per_row(struct generator *g, int64_t n)
{
    return (struct td_shape){ .rank = below(g, 2) ? 1 : 0, .dim = { n } };
}

/* Zero points that are not positive, so that no sum is much less than its terms. */
static struct td_tensor zero_points(struct generator *g, int64_t n)
{
    static const td_dtype dtypes[] = { TD_DTYPE_INT8, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    const struct td_shape shape = per_row(g, n);
    struct td_tensor tensor = new_tensor(g, dtypes[below(g, 3)], &shape);
    for (int64_t i = 0; i < tensor.numel; i++) {
        const int value = -(int)below(g, 9);
        if (tensor.dtype == TD_DTYPE_INT64)
            ((int64_t *)tensor.data)[i] = value;
        else if (tensor.dtype == TD_DTYPE_INT32)
            ((int32_t *)tensor.data)[i] = value;
        else
            ((int8_t *)tensor.data)[i] = (int8_t)value;
    }
    return tensor;
}

/* Products of multiples of 0.1 are rounded, of multiples of 0.25 exact. */
static void set_scaling(struct generator *g, int64_t n, bool exact)
{
    struct td_shape shape = per_row(g, n);
    struct td_tensor scale = small_floats(g, TD_DTYPE_FLOAT32, &shape, 1, 4, exact ? 0.25 : 0.1);
    set_operand(g, TD_BAG_SCALE, &scale, 1);
    if (below(g, 2)) {
        struct td_tensor zeros = zero_points(g, n);
        set_operand(g, TD_BAG_ZERO_POINT, &zeros, 1);
        return;
    }
    shape = per_row(g, n);
    struct td_tensor offset = small_floats(g, TD_DTYPE_FLOAT32, &shape, 0, 9, 1);
    set_operand(g, TD_BAG_OFFSET, &offset, 1);
}

static void make_bags(struct generator *g, const struct bag_case *c, const struct bag_form *form)
{
    struct td_shape shape = shape_of(c->params), m = { .rank = 1, .dim = { c->n_indices } };
    const int64_t n = shape.dim[0];
    const bool bad = below(g, 2) == 0;
    begin(g, &td_op_embedding_bag);
    if (form->attrs.layout == TD_ROW_LAYOUT_BYTE_ROWWISE)
        shape.dim[shape.rank - 1] += TD_ROW_TRAILER;
    struct td_tensor params = bag_params(g, form, &shape);
    struct td_tensor indices = indices_below(g, form->index, &m, 1, &n, bad);
    struct td_tensor bags = bags_of(g, form, c);
    set_operand(g, TD_BAG_PARAMS, &params, 1);
    set_operand(g, TD_BAG_INDICES, &indices, 1);
    set_operand(g, form->segments ? TD_BAG_SEGMENT_IDS : TD_BAG_OFFSETS, &bags, 1);
    if (form->weighted) {
        const int64_t least = is_rounded(form) ? 1 : -2;
        const td_dtype dtype = is_byte(form->dtype) ? TD_DTYPE_FLOAT32 : form->dtype;
        struct td_tensor weights = small_floats(g, dtype, &m, least, 5, is_short(c) ? 0.1 : 0.5);
        set_operand(g, TD_BAG_WEIGHTS, &weights, 1);
    }
    if (is_byte(form->dtype) && form->attrs.layout == TD_ROW_LAYOUT_PLAIN)
        set_scaling(g, n, !is_short(c));
    struct td_embedding_bag_attrs attrs = form->attrs;
    attrs.num_segments = form->segments ? c->n_bags : TD_ATTR_UNSET;
    attrs.dtype = form->out;
    set_attrs(g, &attrs, sizeof(attrs));
    for (int i = 0; i < g->one.op->n_attrs; i++) {
        const char *name = g->one.op->attrs[i].name;
        if ((strcmp(name, "dtype") == 0 && !form->has_dtype) ||
            (strcmp(name, "num_segments") == 0 && !form->segments) ||
            (strcmp(name, "padding_index") == 0 && attrs.padding_index == TD_ATTR_UNSET))
            g->one.args.attrs_set &= ~(1u << i);
    }
    g->one.depth = 1;
    g->one.bound[0] = n;
    g->one.tolerance = bag_tolerance(form, c);
    if (g->n_cases % 3 == 0)
        set_items(g, 1 + (int)below(g, g->max_items), c->n_indices, 1);
    if (g->n_cases % 5 == 0)
        g->one.first_offset = (size_t)(1 + below(g, 20)) * td_dtype_info(form->dtype)->size;
    emit(g,
         "%s of %s[%s] by %" PRId64 " %s in %" PRId64 " bags, %s%s, padding %" PRId64
         ", bounds %s%s, to %s, %d items",
         bag_modes[attrs.mode], name_of(form->dtype), c->params, c->n_indices, name_of(form->index),
         c->n_bags, form->segments ? "segments" : "offsets", form->weighted ? ", weighted" : "",
         attrs.padding_index, td_bounds_name(attrs.bounds), bad ? ", some bad" : "",
         name_of(form->out), g->one.n_items);
}

/* Every mode of every dtype; what else there is by turns. */
static struct bag_form draw_form(struct generator *g, td_dtype dtype, td_bag_mode mode)
{
    static const td_dtype outs[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                     TD_DTYPE_FLOAT64 };
    struct bag_form form = {
        .dtype = dtype,
        .index = index_dtypes[below(g, 3)],
        .out = is_byte(dtype) ? TD_DTYPE_FLOAT32 : dtype,
        .attrs = { .mode = mode, .bounds = (td_bounds)below(g, TD_BOUNDS_COUNT) },
        .segments = below(g, 2) == 0,
        .weighted = mode != TD_BAG_MAX && below(g, 2) == 0,
        .has_dtype = below(g, 4) == 0,
    };
    form.attrs.padding_index = below(g, 3) == 0 ? below(g, 3) : TD_ATTR_UNSET;
    if (dtype == TD_DTYPE_UINT8 && below(g, 3) == 0)
        form.attrs.layout = TD_ROW_LAYOUT_BYTE_ROWWISE;
    if (form.has_dtype)
        form.out = outs[below(g, 4)];
    return form;
}

static const td_dtype bag_dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_INT8,     TD_DTYPE_UINT8 };

/* Rows that end in their scale have two dimensions. */
static void make_drawn_bags(struct generator *g, const struct bag_case *c, td_dtype dtype,
                            td_bag_mode mode)
{
    struct bag_form form = draw_form(g, dtype, mode);
    const struct td_shape shape = shape_of(c->params);
    if (shape.rank != 2)
        form.attrs.layout = TD_ROW_LAYOUT_PLAIN;
    if (form.attrs.padding_index >= shape.dim[0])
        form.attrs.padding_index = TD_ATTR_UNSET;
    make_bags(g, c, &form);
}

static void make_all_bags(struct generator *g)
{
    enum { EACH = 3 };
    for (int i = 0; i < COUNT_OF(bag_cases); i++)
        for (int dtype = 0; dtype < COUNT_OF(bag_dtypes); dtype++)
            for (int mode = TD_BAG_SUM; mode <= TD_BAG_MAX; mode++)
                for (int k = 0; k < EACH; k++)
                    make_drawn_bags(g, &bag_cases[i], bag_dtypes[dtype], (td_bag_mode)mode);
}

static void make_random_bags(struct generator *g)
{
    char params[100] = "";
    struct bag_case c = { .params = params };
    append_dimensions(g, params, 1, 50);
    append_dimensions(g, params, (int)below(g, 3), below(g, 4) ? 20 : 300);
    c.n_indices = below(g, below(g, 4) ? 60 : 3000);
    c.n_bags = 1 + below(g, below(g, 2) ? 4 : 100);
    make_drawn_bags(g, &c, bag_dtypes[below(g, COUNT_OF(bag_dtypes))], (td_bag_mode)below(g, 4));
}

/* ---- search ---------------------------------------------------------------------------------- */

enum { EMPTY = -1 };

static const struct search_case {
    const char *says; /* what is special, or NULL */
    int64_t n, d, q, k;
    int64_t candidates, excluded; /* numbers of rows; 0: the input is not given; or EMPTY */
    bool large;
    bool in_order; /* each row scores more, or less, than the row before */
} search_cases[] = {
    { .n = 1, .d = 1, .q = 1, .k = 1 },
    { .n = 40, .d = 7, .q = 3, .k = 5 },
    { .n = 30, .d = 2, .q = 6, .k = 30 },
    { .n = 40, .d = 300, .q = 6, .k = 5 },
    { .n = 300, .d = 33, .q = 17, .k = 10 },
    { "a table for cuBLAS", .n = 600, .d = 60, .q = 5, .k = 600 },
    { .n = 40, .d = 7, .q = 1, .k = 40, .excluded = 3 },
    { .n = 50, .d = 9, .q = 5, .k = 7, .candidates = 30, .excluded = 10 },
    { "more candidates than rows", .n = 50, .d = 9, .q = 5, .k = 60, .candidates = 80 },
    { "fewer rows than places", .n = 20, .d = 3, .q = 2, .k = 9, .excluded = 20 },
    { .n = 0, .d = 4, .q = 2, .k = 3, .excluded = EMPTY },
    { .n = 5, .d = 0, .q = 2, .k = 3 },
    { .n = 5, .d = 4, .q = 0, .k = 3 },
    { .n = 30, .d = 4, .q = 2, .k = 3, .candidates = EMPTY },
    { .n = 513, .d = 40, .q = 18, .k = 12, .excluded = EMPTY, .large = true },
    { "several groups of queries", .n = 300, .d = 60, .q = 257, .k = 12, .large = true },
    { "several blocks of rows", .n = 70000, .d = 2, .q = 3, .k = 20, .large = true },
    { .n = 9000, .d = 1, .q = 3, .k = 600, .large = true, .in_order = true },
    { .n = 1200, .d = 3, .q = 4, .k = 1024, .large = true },
    { "more than fit into shared memory", .n = 3000, .d = 3, .q = 2, .k = 1025, .large = true },
    { .n = 3000, .d = 2, .q = 1, .k = 3000, .excluded = 7, .large = true },
    { .n = 9000, .d = 2, .q = 1, .k = 3000, .candidates = 7000, .large = true },
};

/* Dtypes of the table and of the queries; what else there is by turns. */
struct search_form {
    td_dtype dtype, queries;
    struct td_search_attrs attrs;
    bool from_rows, single, has_keys;
    bool exact; /* no sum is rounded */
};

static struct td_tensor some_rows(struct generator *g, int64_t n, int rank, int64_t bound)
{
    const struct td_shape shape = { .rank = rank, .dim = { n == EMPTY ? 0 : n } };
    const int64_t first = bound > INT16_MAX ? 1 : 0;
    const td_dtype dtype = index_dtypes[first + below(g, COUNT_OF(index_dtypes) - first)];
    return indices_below(g, dtype, &shape, 1, &bound, false);
}

/* Multiples of 0.5, many of them equal, so that many scores are; or any numbers below 1. */
static struct td_tensor search_floats(struct generator *g, td_dtype dtype,
                                      const struct td_shape *shape, bool exact)
{
    return exact ? small_floats(g, dtype, shape, -2, 5, 0.5)
                 : small_floats(g, dtype, shape, -(1 << 20), 1 << 21, 0x1p-20);
}

/* Some rows of floats have NaN or infinity. */
static struct td_tensor search_params(struct generator *g, const struct search_form *form,
                                      const struct search_case *c)
{
    const bool trailer = form->attrs.layout == TD_ROW_LAYOUT_BYTE_ROWWISE;
    const struct td_shape shape = { .rank = 2,
                                    .dim = { c->n, c->d + (trailer ? TD_ROW_TRAILER : 0) } };
    if (!is_byte(form->dtype)) {
        struct td_tensor params = search_floats(g, form->dtype, &shape, form->exact);
        for (int64_t i = 0; c->in_order && i < c->n; i++)
            set_float(&params, i, (double)i);
        for (int64_t i = below(g, 9); form->exact && i < params.numel / 9;
             i += 1 + params.numel / 9)
            set_float(&params, i, below(g, 2) ? (double)NAN : (double)INFINITY);
        return params;
    }
    struct td_tensor params = random_bits(g, form->dtype, &shape);
    for (size_t i = 0; i < params.bytes; i++)
        ((unsigned char *)params.data)[i] &= 15;
    for (int64_t i = 0; trailer && i < c->n; i++) {
        const float after[2] = { (float)(1 + below(g, 4)) / 4, (float)below(g, 9) - 4 };
        memcpy((char *)params.data + (i + 1) * shape.dim[1] - TD_ROW_TRAILER, after, sizeof(after));
    }
    return params;
}

static void set_search_scaling(struct generator *g, int64_t n)
{
    struct td_shape shape = per_row(g, n);
    struct td_tensor scale = small_floats(g, TD_DTYPE_FLOAT32, &shape, 1, 4, 0.25);
    set_operand(g, TD_SEARCH_SCALE, &scale, 1);
    const bool by_offset = below(g, 2);
    shape = per_row(g, n);
    struct td_tensor shift =
        by_offset ? small_floats(g, TD_DTYPE_FLOAT32, &shape, -9, 9, 1) : zero_points(g, n);
    set_operand(g, by_offset ? TD_SEARCH_OFFSET : TD_SEARCH_ZERO_POINT, &shift, 1);
}

static void set_search_queries(struct generator *g, const struct search_form *form,
                               const struct search_case *c)
{
    const struct td_shape shape = { .rank = form->single ? 1 : 2,
                                    .dim = { form->single ? c->d : c->q, c->d } };
    struct td_tensor queries = form->from_rows
                                   ? some_rows(g, c->q, form->single ? 0 : 1, c->n)
                                   : search_floats(g, form->queries, &shape, form->exact);
    set_operand(g, form->from_rows ? TD_SEARCH_ROWS : TD_SEARCH_QUERIES, &queries, 1);
}

static void make_search(struct generator *g, const struct search_case *c,
                        const struct search_form *form)
{
    static const char *const metrics[] = { "dot", "cosine", "l2" };
    begin(g, &td_op_search);
    struct td_tensor params = search_params(g, form, c);
    set_operand(g, TD_SEARCH_PARAMS, &params, 1);
    if (is_byte(form->dtype) && form->attrs.layout == TD_ROW_LAYOUT_PLAIN)
        set_search_scaling(g, c->n);
    set_search_queries(g, form, c);
    if (c->candidates != 0) {
        struct td_tensor candidates = some_rows(g, c->candidates, 1, c->n);
        set_operand(g, TD_SEARCH_CANDIDATES, &candidates, 1);
    }
    if (c->excluded != 0) {
        struct td_tensor excluded = some_rows(g, c->excluded, 1, c->n);
        set_operand(g, TD_SEARCH_EXCLUDE, &excluded, 1);
    }
    if (form->has_keys) {
        const struct td_shape n = { .rank = 1, .dim = { c->n } };
        struct td_tensor keys = random_bits(g, below(g, 2) ? TD_DTYPE_INT64 : TD_DTYPE_UINT32, &n);
        set_operand(g, TD_SEARCH_KEYS, &keys, 1);
    }
    set_attrs(g, &form->attrs, sizeof(form->attrs));
    if (!form->exact)
        g->one.tolerance = params.dtype == TD_DTYPE_FLOAT64 ? 1e-13 : 1e-5;
    if (g->n_cases % 5 == 0)
        g->one.first_offset = (size_t)(1 + below(g, 20)) * td_dtype_info(form->dtype)->size;
    emit(g,
         "by %s of %s[%" PRId64 ",%" PRId64 "] for %" PRId64 " %s%s, k %" PRId64 ", %" PRId64
         " candidates, %" PRId64 " excluded%s%s: %s",
         metrics[form->attrs.metric], name_of(form->dtype), c->n, c->d, c->q,
         form->from_rows ? "rows" : name_of(form->queries), form->attrs.exclude_self ? "" : " too",
         c->k, c->candidates, c->excluded, form->has_keys ? ", with keys" : "",
         form->exact ? "" : ", rounded", c->says ? c->says : "any sizes");
}

static void make_drawn_search(struct generator *g, const struct search_case *c, td_dtype dtype,
                              td_search_metric metric, bool exact)
{
    static const td_dtype queries[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                        TD_DTYPE_FLOAT64 };
    struct search_form form = {
        .dtype = dtype,
        .queries = exact ? queries[below(g, 4)] : TD_DTYPE_FLOAT32,
        .attrs = { .k = c->k, .metric = metric, .exclude_self = below(g, 4) > 0 },
        .from_rows = (c->n > 0 || c->q == 0) && below(g, 2) == 0,
        .single = c->q == 1 && below(g, 2) == 0,
        .has_keys = exact && below(g, 2) == 0,
        .exact = exact,
    };
    if (dtype == TD_DTYPE_UINT8 && below(g, 2) == 0)
        form.attrs.layout = TD_ROW_LAYOUT_BYTE_ROWWISE;
    make_search(g, c, &form);
}

static void make_all_searches(struct generator *g)
{
    static const struct search_case rounded[] = {
        { .n = 500, .d = 60, .q = 3, .k = 20 },
        { .n = 300, .d = 40, .q = 30, .k = 10, .candidates = 200 },
        { .n = 400, .d = 40, .q = 7, .k = 10 },
        { .n = 2000, .d = 20, .q = 1, .k = 1500 },
    };
    for (int i = 0; i < COUNT_OF(search_cases); i++)
        for (int dtype = 0; dtype < COUNT_OF(bag_dtypes); dtype++)
            for (int metric = TD_SEARCH_DOT; metric <= TD_SEARCH_L2; metric++)
                if (!search_cases[i].large || bag_dtypes[dtype] == TD_DTYPE_FLOAT32)
                    make_drawn_search(g, &search_cases[i], bag_dtypes[dtype],
                                      (td_search_metric)metric, true);
    for (int i = 0; i < COUNT_OF(rounded); i++)
        for (int metric = TD_SEARCH_DOT; metric <= TD_SEARCH_L2; metric++) {
            make_drawn_search(g, &rounded[i], TD_DTYPE_FLOAT32, (td_search_metric)metric, false);
            make_drawn_search(g, &rounded[i], TD_DTYPE_FLOAT64, (td_search_metric)metric, false);
        }
}

static void make_random_search(struct generator *g)
{
    struct search_case c = {
        .n = below(g, below(g, 4) ? 300 : 4000),
        .d = below(g, below(g, 4) ? 20 : 150),
        .q = below(g, below(g, 4) ? 6 : 50),
    };
    c.k = 1 + below(g, below(g, 4) ? 30 : 2 * c.n + 1);
    if (below(g, 3) == 0)
        c.excluded = c.n > 0 ? below(g, c.n) : EMPTY;
    if (below(g, 3) == 0)
        c.candidates = c.n > 0 ? below(g, 2 * c.n) : EMPTY;
    make_drawn_search(g, &c, bag_dtypes[below(g, COUNT_OF(bag_dtypes))],
                      (td_search_metric)below(g, 3), true);
}

/* ---- random cases ---------------------------------------------------------------------------- */

/* Copies the first n dimensions of a text. */
static void copy_dimensions(char *to, const char *from, int n)
{
    const char *end = from;
    for (int i = 0; i < n; i++)
        end += strcspn(end + (i > 0), ",") + (i > 0);
    memcpy(to, from, (size_t)(end - from));
    to[end - from] = '\0';
}

static td_dtype random_dtype(struct generator *g)
{
    return (td_dtype)below(g, TD_DTYPE_STRING);
}

/* In one of eight cases, rows may be so long (above 4096 bytes) that they are copied in chunks. */
static int64_t max_row(struct generator *g)
{
    return below(g, 8) == 0 ? 6000 : 40;
}

static void make_random_gather(struct generator *g)
{
    static const struct td_op *const ops[] = { &td_op_gather, &td_op_batch_gather,
                                               &td_op_gather_nd };
    char params[100] = "", indices[100] = "";
    struct gather_case p = { ops[below(g, 3)], params, indices, DEFAULT, 0, false };
    int rank = 1 + (int)below(g, 4), batch = (int)below(g, rank);
    append_dimensions(g, params, rank - 1, 7);
    append_dimensions(g, params, 1, max_row(g));
    copy_dimensions(indices, params, batch);
    if (p.op != &td_op_batch_gather)
        p.batch_dims = batch;
    if (p.op == &td_op_gather && below(g, 2) == 0)
        p.axis = batch + below(g, rank - batch);
    append_dimensions(g, indices, p.op == &td_op_batch_gather ? 1 : (int)below(g, 3), 30);
    if (p.op == &td_op_gather_nd)
        sprintf(indices + strlen(indices), "%s%" PRId64, indices[0] ? "," : "",
                below(g, rank - batch + 1));
    make_gather(g, &p, random_dtype(g), index_dtypes[below(g, 3)],
                (td_bounds)below(g, TD_BOUNDS_COUNT));
}

static void make_random_stitch(struct generator *g)
{
    char indices[4][100] = { "" }, row[100] = "";
    struct stitch_case s = { .n = 1 + (int)below(g, 4), .row = row };
    for (int k = 0; k < s.n; k++) {
        append_dimensions(g, indices[k], (int)below(g, 3), 12);
        s.indices[k] = indices[k];
        int64_t rows = 1;
        struct td_shape shape = shape_of(indices[k]);
        for (int d = 0; d < shape.rank; d++)
            rows *= shape.dim[d];
        s.below += rows;
    }
    s.below += 1 + below(g, 100);
    append_dimensions(g, row, (int)below(g, 2), max_row(g));
    make_stitch(g, below(g, 2) ? &td_op_dynamic_stitch : &td_op_parallel_dynamic_stitch, &s,
                random_dtype(g), index_dtypes[below(g, 3)]);
}

static void make_random_partition(struct generator *g)
{
    char data[100] = "", partitions[100] = "";
    struct partition_case p = { data, partitions, 1 + below(g, below(g, 4) == 0 ? 300 : 5), false };
    append_dimensions(g, partitions, (int)below(g, 3), 30);
    strcpy(data, partitions);
    append_dimensions(g, data, (int)below(g, 2), max_row(g));
    make_partition(g, &p, random_dtype(g), index_dtypes[below(g, 3)]);
}

static void make_random_lookup(struct generator *g)
{
    char params[100] = "", queries[100] = "";
    struct key_case k = { params, queries };
    const td_dtype key = below(g, 2) ? TD_DTYPE_INT64 : TD_DTYPE_UINT64;
    append_dimensions(g, params, 1, below(g, 4) ? 40 : 3000);
    append_dimensions(g, params, (int)below(g, 2), max_row(g) / (below(g, 4) ? 4 : 1));
    append_dimensions(g, queries, (int)below(g, 3), 30);
    if (below(g, 2))
        make_find(g, &k, key);
    else
        make_lookup(g, &k, random_dtype(g), key, (td_missing)below(g, 3), below(g, 2) == 0);
}

/* Random extents of the labels of an equation, with a limit on the number of products. */
static void draw_extents(struct generator *g, const char *equation, int64_t extent[26])
{
    enum { MAX_EXTENT = 200, MAX_PRODUCTS = 300000 };
    int64_t products = 1;
    for (int i = 0; i < 26; i++) {
        bool named = strchr(equation, 'a' + i) != NULL;
        int64_t max = MAX_PRODUCTS / products < MAX_EXTENT ? MAX_PRODUCTS / products : MAX_EXTENT;
        extent[i] = 1;
        if (named && below(g, 60) == 0)
            extent[i] = 0;
        else if (named)
            extent[i] = 1 + below(g, below(g, 2) ? (max < 9 ? max : 9) : max);
        products *= extent[i] > 0 ? extent[i] : 1;
    }
}

/* An equation of einsum_cases with random extents. */
static void make_resized_einsum(struct generator *g)
{
    const struct einsum_case *c = &einsum_cases[below(g, COUNT_OF(einsum_cases))];
    struct td_shape shapes[4] = { { .rank = 0 } };
    int64_t extent[26];
    if (strchr(c->equation, '.'))
        return;
    draw_extents(g, c->equation, extent);
    int k = 0;
    for (const char *at = c->equation; *at && *at != '-'; at++)
        if (*at == ',')
            k++;
        else
            shapes[k].dim[shapes[k].rank++] = extent[*at - 'a'];
    td_dtype dtype = TD_DTYPE_BOOL;
    while (dtype == TD_DTYPE_BOOL)
        dtype = random_dtype(g);
    make_einsum(g, c->equation, shapes, c->n, dtype, 0);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* Shapes of up to three inputs, which broadcast. A unary op has the first. */
static const char *const elementwise_shapes[][3] = {
    { "", "", "" },        { "7", "7", "7" },       { "0,3", "3", "" }, { "5,1,3", "4,1", "5,4,3" },
    { "40,30", "", "30" }, { "6000", "1", "6000" },
};

static const struct td_op *const elementwise_ops[] = {
#define TD_ELEMENTWISE(name, ...) &td_op_##name,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
};

/* Returns floats, some of them special values, or integers with random bits. Divisors and exponents
 * that the op checks are small and positive. */
static struct td_tensor elements_of(struct generator *g, td_dtype dtype,
                                    const struct td_shape *shape, bool is_checked)
{
    static const double special[] = { 0, -0.0, 1, INFINITY, -INFINITY, NAN, 0.5, -2.5 };
    if (!is_float(dtype) && !is_checked)
        return random_bits(g, dtype, shape);
    struct td_tensor tensor = new_tensor(g, dtype, shape);
    bool complex = dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
    for (int64_t i = 0; is_float(dtype) && i < tensor.numel * (complex ? 2 : 1); i++)
        set_float(&tensor, i,
                  below(g, 8) == 0 ? special[below(g, COUNT_OF(special))]
                                   : (double)below(g, 8001) / 1000 - 4);
    const size_t width = td_dtype_info(dtype)->size;
    for (int64_t i = 0; !is_float(dtype) && i < tensor.numel; i++) {
        const int64_t value = 1 + below(g, 9);
        memcpy((char *)tensor.data + (size_t)i * width, &value, width);
    }
    return tensor;
}

/* Functions that a device computes with its own approximations. */
static bool is_approximate(const struct td_op *op)
{
    static const struct td_op *const functions[] = { &td_op_power,   &td_op_exp, &td_op_log,
                                                     &td_op_tanh,    &td_op_erf, &td_op_gelu,
                                                     &td_op_sigmoid, NULL };
    int i = 0;
    while (functions[i] && functions[i] != op)
        i++;
    return functions[i] != NULL;
}

static void make_elementwise(struct generator *g, const struct td_op *op, td_dtype dtype,
                             const char *const *shapes)
{
    begin(g, op);
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_shape shape = shape_of(shapes[i]);
        const bool is_condition = op->inputs[i].role == TD_ROLE_CONDITION;
        const struct td_tensor tensor =
            elements_of(g, is_condition ? TD_DTYPE_BOOL : dtype, &shape, op->valid && i == 1);
        set_operand(g, i, &tensor, 1);
    }
    if (op == &td_op_gelu)
        set_attrs(g, &(struct td_gelu_attrs){ below(g, 2) == 0 }, sizeof(struct td_gelu_attrs));
    g->one.tolerance = is_approximate(op) && is_float(dtype) ? 4 * tolerance_of(dtype) : 0;
    g->one.per_element = true;
    emit(g, "%s %s %s %s", name_of(dtype), shapes[0], op->n_inputs > 1 ? shapes[1] : "",
         op->n_inputs > 2 ? shapes[2] : "");
}

static bool accepts(const struct td_op *op, td_dtype dtype)
{
    return op->inputs[op->n_inputs - 1].dtypes >> dtype & 1;
}

static void make_all_elementwise(struct generator *g)
{
    for (int o = 0; o < COUNT_OF(elementwise_ops); o++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
            for (int s = 0; s < COUNT_OF(elementwise_shapes); s++)
                if (accepts(elementwise_ops[o], (td_dtype)dtype))
                    make_elementwise(g, elementwise_ops[o], (td_dtype)dtype, elementwise_shapes[s]);
}

static void make_cast(struct generator *g, td_dtype from, td_dtype to, const char *text)
{
    const struct td_shape shape = shape_of(text);
    const struct td_cast_attrs attrs = { .dtype = to };
    begin(g, &td_op_cast);
    const struct td_tensor tensor = elements_of(g, from, &shape, false);
    set_operand(g, 0, &tensor, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.per_element = true;
    emit(g, "%s to %s %s", name_of(from), name_of(to), text);
}

static void make_all_casts(struct generator *g)
{
    for (int from = 0; from < TD_DTYPE_STRING; from++)
        for (int to = 0; to < TD_DTYPE_STRING; to++)
            make_cast(g, (td_dtype)from, (td_dtype)to, "70");
}

static void make_random_elementwise(struct generator *g)
{
    const struct td_op *op = elementwise_ops[below(g, COUNT_OF(elementwise_ops))];
    td_dtype dtype = TD_DTYPE_STRING;
    while (dtype == TD_DTYPE_STRING || !accepts(op, dtype))
        dtype = (td_dtype)below(g, TD_DTYPE_STRING);
    make_elementwise(g, op, dtype, elementwise_shapes[below(g, COUNT_OF(elementwise_shapes))]);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static const struct reduce_case {
    const char *x;
    struct td_ints axes;
} reduce_cases[] = {
    { "7", { NULL, 0 } },
    { "5,6,7", { (const int64_t[]){ 1 }, 1 } },
    { "5,6,7", { (const int64_t[]){ 0, 2 }, 2 } },
    { "40,3", { (const int64_t[]){ 0 }, 1 } },
    { "3,0,2", { (const int64_t[]){ 0 }, 1 } },
    { "2,33000", { (const int64_t[]){ 1 }, 1 } },
    { "130,200", { (const int64_t[]){ 0 }, 1 } },
};

static const struct td_op *const reduce_ops[] = {
    &td_op_reduce_sum, &td_op_reduce_mean, &td_op_reduce_prod, &td_op_reduce_max,
    &td_op_reduce_min, &td_op_reduce_any,  &td_op_reduce_all,
};

static void make_reduction(struct generator *g, const struct td_op *op, td_dtype dtype,
                           const struct reduce_case *c)
{
    const struct td_shape shape = shape_of(c->x);
    const struct td_reduce_attrs attrs = { .axes = c->axes, .keepdims = below(g, 2) == 0 };
    const bool moves = op == &td_op_reduce_max || op == &td_op_reduce_min;
    begin(g, op);
    const struct td_tensor x = random_terms(g, dtype, &shape, false);
    set_operand(g, 0, &x, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.tolerance = moves || !is_float(dtype) ? 0 : tolerance_of(dtype);
    emit(g, "%s %s, %d axes", name_of(dtype), c->x, c->axes.count);
}

/* NaN wins, and so does the first of equal elements. */
static void make_best(struct generator *g, const struct td_op *op, td_dtype dtype,
                      const struct reduce_case *c)
{
    const struct td_shape shape = shape_of(c->x);
    begin(g, op);
    const struct td_tensor x = elements_of(g, dtype, &shape, false);
    set_operand(g, 0, &x, 1);
    if (op == &td_op_argmax || op == &td_op_argmin)
        set_attrs(g, &(struct td_arg_attrs){ c->axes.count > 0 ? c->axes.values[0] : 0 },
                  sizeof(struct td_arg_attrs));
    else
        set_attrs(g, &(struct td_reduce_attrs){ .axes = c->axes }, sizeof(struct td_reduce_attrs));
    g->one.per_element = true;
    emit(g, "%s %s with NaN", name_of(dtype), c->x);
}

static void make_all_reductions(struct generator *g)
{
    static const struct td_op *const best[] = { &td_op_argmax, &td_op_argmin, &td_op_reduce_max,
                                                &td_op_reduce_min };
    for (int c = 0; c < COUNT_OF(reduce_cases); c++)
        for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++) {
            for (int o = 0; o < COUNT_OF(reduce_ops); o++)
                if (accepts(reduce_ops[o], (td_dtype)dtype))
                    make_reduction(g, reduce_ops[o], (td_dtype)dtype, &reduce_cases[c]);
            for (int o = 0; o < COUNT_OF(best); o++)
                if (accepts(best[o], (td_dtype)dtype))
                    make_best(g, best[o], (td_dtype)dtype, &reduce_cases[c]);
        }
}

/* Sorted ids, with empty segments in between and at the end. */
static void make_segments(struct generator *g, const struct td_op *op, td_dtype dtype,
                          const char *text, int64_t n_segments)
{
    const struct td_shape shape = shape_of(text), rows = { .rank = 1, .dim = { shape.dim[0] } };
    const struct td_segments_attrs attrs = { n_segments };
    const bool moves = op == &td_op_segment_max || op == &td_op_segment_min;
    begin(g, op);
    const struct td_tensor data = random_terms(g, dtype, &shape, false);
    struct td_tensor ids = new_tensor(g, index_dtypes[below(g, 3)], &rows);
    int64_t id = 0;
    for (int64_t i = 0; i < ids.numel; i++) {
        if (below(g, 4) == 0 && id + 3 < n_segments)
            id += 1 + below(g, 2);
        set_index(&ids, i, id);
    }
    set_operand(g, 0, &data, 1);
    set_operand(g, 1, &ids, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.tolerance = moves || !is_float(dtype) ? 0 : tolerance_of(dtype);
    emit(g, "%s %s, %d segments", name_of(dtype), text, (int)n_segments);
}

static void make_all_segments(struct generator *g)
{
    static const struct td_op *const ops[] = { &td_op_segment_sum, &td_op_segment_mean,
                                               &td_op_segment_max, &td_op_segment_min,
                                               &td_op_segment_prod };
    for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++)
        for (int o = 0; o < COUNT_OF(ops); o++) {
            if (!(ops[o]->inputs[0].dtypes >> dtype & 1))
                continue;
            make_segments(g, ops[o], (td_dtype)dtype, "500", 4);
            make_segments(g, ops[o], (td_dtype)dtype, "60,7", 30);
            make_segments(g, ops[o], (td_dtype)dtype, "0,3", 2);
        }
}

static void make_cumsum(struct generator *g, td_dtype dtype, const char *text, int64_t axis)
{
    const struct td_shape shape = shape_of(text);
    const struct td_cumsum_attrs attrs = { axis, below(g, 2) == 0, below(g, 2) == 0 };
    begin(g, &td_op_cumsum);
    const struct td_tensor x = random_terms(g, dtype, &shape, false);
    set_operand(g, 0, &x, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.tolerance = is_float(dtype) ? 100 * tolerance_of(dtype) : 0;
    g->one.per_element = true;
    emit(g, "%s %s axis %d", name_of(dtype), text, (int)axis);
}

static void make_all_cumsums(struct generator *g)
{
    for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++) {
        if (!accepts(&td_op_cumsum, (td_dtype)dtype))
            continue;
        make_cumsum(g, (td_dtype)dtype, "7,1000", 1);
        make_cumsum(g, (td_dtype)dtype, "300,5", 0);
        make_cumsum(g, (td_dtype)dtype, "4,9,6", 1);
        make_cumsum(g, (td_dtype)dtype, "3,0", 1);
    }
}

/* Elements with NaN, zeros of both signs and many equal ones. */
static void make_top_k(struct generator *g, td_dtype dtype, const char *text, int64_t k,
                       int64_t axis)
{
    const struct td_shape shape = shape_of(text);
    const struct td_top_k_attrs attrs = { .k = k, .largest = below(g, 2) == 0, .axis = axis };
    begin(g, &td_op_top_k);
    const struct td_tensor x =
        below(g, 2) ? elements_of(g, dtype, &shape, false) : random_terms(g, dtype, &shape, true);
    set_operand(g, 0, &x, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    emit(g, "%s %s k %d axis %d", name_of(dtype), text, (int)k, (int)axis);
}

static void make_all_top_k(struct generator *g)
{
    for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++) {
        if (!accepts(&td_op_top_k, (td_dtype)dtype))
            continue;
        make_top_k(g, (td_dtype)dtype, "9", 9, 0);
        make_top_k(g, (td_dtype)dtype, "3,5000", 4, 1);
        make_top_k(g, (td_dtype)dtype, "1300", 1024, 0);
        make_top_k(g, (td_dtype)dtype, "4,300,5", 2, 1);
        make_top_k(g, (td_dtype)dtype, "4,0,5", 0, 1);
        make_top_k(g, (td_dtype)dtype, "70,3", 3, 1);
    }
}

/* ---- normalisation --------------------------------------------------------------------------- */

static const struct norm_case {
    const char *x;
    int64_t axis;
    const char *scale, *bias; /* of layer_norm */
} norm_cases[] = {
    { "9", 0, "9", "" },      { "4,30", -1, "30", "30" },      { "5,6,7", 1, "6,1", "7" },
    { "3,700", 1, "", NULL }, { "20,30,2", 0, "30,2", "1,2" }, { "2,0", 1, "0", NULL },
};

static void make_normalisation(struct generator *g, const struct td_op *op, td_dtype dtype,
                               const struct norm_case *c)
{
    const struct td_shape shape = shape_of(c->x);
    const struct td_normalisation_attrs attrs = { .axis = c->axis, .epsilon = 1e-5 };
    const char *const factors[] = { c->scale, c->bias };
    begin(g, op);
    const struct td_tensor x = random_terms(g, dtype, &shape, false);
    set_operand(g, 0, &x, 1);
    for (int i = 0; op == &td_op_layer_norm && i < 2 && factors[i]; i++) {
        const struct td_shape factor_shape = shape_of(factors[i]);
        const struct td_tensor factor = random_terms(g, dtype, &factor_shape, false);
        set_operand(g, 1 + i, &factor, 1);
    }
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.tolerance = 4 * tolerance_of(dtype);
    g->one.per_element = true;
    emit(g, "%s %s axis %d", name_of(dtype), c->x, (int)c->axis);
}

static void make_all_normalisations(struct generator *g)
{
    static const struct td_op *const ops[] = { &td_op_softmax, &td_op_log_softmax,
                                               &td_op_l2_normalize, &td_op_layer_norm };
    for (int c = 0; c < COUNT_OF(norm_cases); c++)
        for (int dtype = TD_DTYPE_FLOAT16; dtype <= TD_DTYPE_FLOAT64; dtype++)
            for (int o = 0; o < COUNT_OF(ops); o++)
                make_normalisation(g, ops[o], (td_dtype)dtype, &norm_cases[c]);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void make_transpose(struct generator *g, td_dtype dtype, const char *text)
{
    const struct td_shape shape = shape_of(text);
    begin(g, &td_op_transpose);
    const struct td_tensor x = random_bits(g, dtype, &shape);
    set_operand(g, 0, &x, 1);
    emit(g, "%s %s", name_of(dtype), text);
}

static void make_slice(struct generator *g, td_dtype dtype)
{
    static const int64_t starts[] = { -2, 1 }, stops[] = { 0, 40 }, steps[] = { -3, 2 };
    const struct td_shape shape = shape_of("20,33,3");
    const struct td_slice_attrs attrs = { { starts, 2 }, { stops, 2 }, { steps, 2 }, { NULL, 0 } };
    begin(g, &td_op_slice);
    const struct td_tensor x = random_bits(g, dtype, &shape);
    set_operand(g, 0, &x, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    g->one.args.attrs_set = 7; /* not the axes */
    emit(g, "%s backwards and in steps", name_of(dtype));
}

static void make_reshape(struct generator *g, td_dtype dtype)
{
    static const int64_t sizes[] = { 10, -1 };
    const struct td_shape shape = shape_of("4,5,3");
    begin(g, &td_op_reshape);
    const struct td_tensor x = random_bits(g, dtype, &shape);
    set_operand(g, 0, &x, 1);
    set_attrs(g, &(struct td_reshape_attrs){ { sizes, 2 } }, sizeof(struct td_reshape_attrs));
    emit(g, "%s", name_of(dtype));
}

static void make_one_hot(struct generator *g, td_dtype dtype, td_dtype index)
{
    const struct td_shape shape = shape_of("5,7");
    const struct td_one_hot_attrs attrs = { .depth = 9, .dtype = dtype };
    const int64_t bound = 9;
    begin(g, &td_op_one_hot);
    const struct td_tensor indices = indices_below(g, index, &shape, 1, &bound, true);
    set_operand(g, 0, &indices, 1);
    set_attrs(g, &attrs, sizeof(attrs));
    emit(g, "%s %s", name_of(dtype), name_of(index));
}

/* Makes a list of three tensors. One of them is empty if the op accepts different sizes. */
static void make_joining(struct generator *g, const struct td_op *op, td_dtype dtype)
{
    const bool differ = op == &td_op_concat;
    const char *const shapes[] = { "3,4,5", differ ? "3,0,5" : "3,4,5",
                                   differ ? "3,7,5" : "3,4,5" };
    struct td_tensor tensors[3];
    begin(g, op);
    for (int i = 0; i < 3; i++) {
        const struct td_shape shape = shape_of(shapes[i]);
        tensors[i] = random_bits(g, dtype, &shape);
    }
    set_operand(g, 0, tensors, 3);
    const int64_t axis = 1;
    set_attrs(g, &axis, sizeof(axis));
    emit(g, "%s", name_of(dtype));
}

static void make_all_shapes(struct generator *g)
{
    for (int dtype = 0; dtype < TD_DTYPE_STRING; dtype++) {
        make_transpose(g, (td_dtype)dtype, "6,40,50");
        make_transpose(g, (td_dtype)dtype, "");
        make_slice(g, (td_dtype)dtype);
        make_reshape(g, (td_dtype)dtype);
        for (int i = 0; i < COUNT_OF(index_dtypes); i++)
            make_one_hot(g, (td_dtype)dtype, index_dtypes[i]);
        make_joining(g, &td_op_concat, (td_dtype)dtype);
        make_joining(g, &td_op_stack, (td_dtype)dtype);
    }
}

/* ---- all cases ------------------------------------------------------------------------------- */

void for_each_device_case(struct td_arena *arena, device_case_fn *fn, void *context)
{
    enum { RANDOM_EQUATIONS = 150 };
    struct generator g = { .arena = arena, .fn = fn, .context = context, .max_items = 7 };
    make_all_gathers(&g);
    make_gathers_of_many_items(&g);
    make_all_stitches(&g, &td_op_dynamic_stitch);
    make_all_stitches(&g, &td_op_parallel_dynamic_stitch);
    make_all_partitions(&g);
    make_all_lookups(&g);
    make_all_einsums(&g);
    make_all_bags(&g);
    make_all_searches(&g);
    make_all_elementwise(&g);
    make_all_casts(&g);
    make_all_reductions(&g);
    make_all_normalisations(&g);
    make_all_top_k(&g);
    make_all_cumsums(&g);
    make_all_segments(&g);
    make_all_shapes(&g);
    for (int i = 0; i < RANDOM_EQUATIONS; i++)
        make_random_einsum(&g, 6);
}

void for_each_tf32_case(struct td_arena *arena, device_case_fn *fn, void *context)
{
    struct generator g = { .arena = arena, .fn = fn, .context = context };
    for (int i = 0; i < COUNT_OF(einsum_cases); i++) {
        const struct einsum_case *c = &einsum_cases[i];
        struct td_shape shapes[4];
        for (int k = 0; k < c->n; k++)
            shapes[k] = shape_of(c->shapes[k]);
        make_einsum(&g, c->equation, shapes, c->n, TD_DTYPE_FLOAT32, 0x1p-7);
    }
}

void for_random_device_cases(struct td_arena *arena, uint64_t seed, device_case_fn *fn,
                             void *context)
{
    struct generator g = { .arena = arena, .fn = fn, .context = context, .random = seed };
    g.n_cases = below(&g, 15); /* decides about items and alignment */
    g.max_items = below(&g, 8) == 0 ? 5000 : 7;
    switch (below(&g, 9)) {
    case 0:
        make_random_gather(&g);
        break;
    case 1:
        make_random_stitch(&g);
        break;
    case 2:
        make_random_partition(&g);
        break;
    case 3:
        make_random_lookup(&g);
        break;
    case 4:
        make_random_bags(&g);
        break;
    case 5:
        make_resized_einsum(&g);
        break;
    case 6:
        make_random_search(&g);
        break;
    case 7:
        make_random_elementwise(&g);
        break;
    default:
        make_random_einsum(&g, 4);
    }
}
