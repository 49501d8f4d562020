#include "kernels/dynamic_stitch/dynamic_stitch.h"

#include "kernels/integers.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/strings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INDICES, DATA };

const struct td_dynamic_stitch_geometry *td_dynamic_stitch_geometry(const struct td_op_args *args)
{
    return args->plan;
}

static int64_t n_in(const struct td_dynamic_stitch_geometry *plan)
{
    return plan->first[plan->n_tensors];
}

/* ---- Shapes ------------------------------------------------------------------------------ */

/* SHAPE_MISMATCH of data[m]: adds its shape, and that of the tensor it does not go with. */
static td_status shapes_at_fault(struct td_error *err, int m, const struct td_tensor *data,
                                 const char *other_list, int other, const struct td_tensor *tensor)
{
    char name[32];
    snprintf(name, sizeof(name), "data[%d]", m);
    td_error_add_shape(err, name, &data->shape);
    snprintf(name, sizeof(name), "%s[%d]", other_list, other);
    td_error_add_shape(err, name, &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "data[%d]", m);
}

/* The dimensions behind those that data shares with its indices. */
static struct td_shape constant_of(const struct td_tensor *data, const struct td_tensor *indices)
{
    struct td_shape constant = { .rank = 0 };
    (void)td_shape_append(&constant, &data->shape, indices->shape.rank, data->shape.rank);
    return constant;
}

/* Do those dimensions of m agree with those of tensor 0? */
static bool same_constant(const struct td_op_args *args, int m)
{
    const struct td_shape *data = &args->inputs[DATA].tensors[m].shape;
    const struct td_shape *data0 = &args->inputs[DATA].tensors[0].shape;
    int depth = args->inputs[INDICES].tensors[m].shape.rank;
    int depth0 = args->inputs[INDICES].tensors[0].shape.rank;
    int rank = data->rank - depth;
    return rank == data0->rank - depth0 &&
           memcmp(data->dim + depth, data0->dim + depth0, (size_t)rank * sizeof(data->dim[0])) == 0;
}

/* Does tensor m go with its indices and with data[0]? */
static td_status check_tensor(const struct td_op_args *args, int m, struct td_error *err)
{
    const struct td_tensor *indices = &args->inputs[INDICES].tensors[m];
    const struct td_tensor *data = &args->inputs[DATA].tensors[m];
    const struct td_tensor *data0 = &args->inputs[DATA].tensors[0];
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (data->dtype != data0->dtype) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "data[%d] has dtype %s and data[0] %s; the same is expected", m,
                     td_dtype_info(data->dtype)->name, td_dtype_info(data0->dtype)->name);
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "data[%d]", m);
    }
    if (!td_shape_starts_with(&data->shape, &indices->shape)) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "data[%d] %s does not begin with the shape of indices[%d], %s", m,
                     td_shape_text(&data->shape, text, sizeof(text)), m,
                     td_shape_text(&indices->shape, more, sizeof(more)));
        return shapes_at_fault(err, m, data, "indices", m, indices);
    }
    if (!same_constant(args, m)) {
        struct td_shape constant = constant_of(data, indices);
        struct td_shape constant0 = constant_of(data0, &args->inputs[INDICES].tensors[0]);
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "the rows of data[%d] have shape %s and those of data[0] %s; the same is "
                     "expected",
                     m, td_shape_text(&constant, text, sizeof(text)),
                     td_shape_text(&constant0, more, sizeof(more)));
        return shapes_at_fault(err, m, data, "data", 0, data0);
    }
    return TD_OK;
}

static td_status check_lists(const struct td_op_args *args, struct td_error *err)
{
    int n_indices = args->inputs[INDICES].count, n_data = args->inputs[DATA].count;
    if (n_indices != n_data) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "indices is a list of %d and data of %d; the same length is expected",
                     n_indices, n_data);
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "data");
    }
    for (int m = 0; m < n_data; m++) {
        td_status status = check_tensor(args, m, err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

static td_status refuse_negative(const struct td_tensor *indices, int m, struct td_error *err)
{
    char name[32];
    int64_t first = -1, n_bad = 0;
    snprintf(name, sizeof(name), "indices[%d]", m);
    for (int64_t i = 0; i < indices->numel; i++)
        if (td_tensor_index_at(indices, i) < 0 && n_bad++ == 0)
            first = i;
    return td_rows_negative(err, name, indices, first, n_bad);
}

/* A resident tensor may be named as often as a list is long. What is large is looked through once,
 * so that infer, which nothing stops, takes no longer than all that is resident or in the body. */
#define LARGE_INDICES 4096

static bool seen_before(const struct td_tensor *tensors, int m)
{
    const struct td_tensor *tensor = &tensors[m];
    if (tensor->numel < LARGE_INDICES)
        return false;
    for (int i = 0; i < m; i++)
        if (tensors[i].data == tensor->data && tensors[i].numel == tensor->numel &&
            tensors[i].dtype == tensor->dtype)
            return true;
    return false;
}

/* Largest index of all lists, -1 when there is none. */
static td_status largest_index(const struct td_op_args *args, int64_t *largest,
                               struct td_error *err)
{
    *largest = -1;
    for (int m = 0; m < args->inputs[INDICES].count; m++) {
        const struct td_tensor *indices = &args->inputs[INDICES].tensors[m];
        bool negative;
        if (seen_before(args->inputs[INDICES].tensors, m))
            continue;
        int64_t most = td_rows_largest(indices, &negative);
        if (negative)
            return refuse_negative(indices, m, err);
        *largest = most > *largest ? most : *largest;
    }
    return TD_OK;
}

static td_status make_plan(struct td_op_args *args, const struct td_tensor *output,
                           struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *indices = &args->inputs[INDICES];
    struct td_dynamic_stitch_geometry *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    plan->n_tensors = indices->count;
    plan->n_out = output->shape.dim[0];
    plan->row_numel = plan->n_out == 0 ? 0 : output->numel / plan->n_out;
    plan->row_bytes = (size_t)plan->row_numel * td_dtype_info(output->dtype)->size;
    plan->first = td_arena_alloc(arena, (size_t)plan->n_tensors + 1, sizeof(plan->first[0]), err);
    if (!plan->first)
        return err->status;
    plan->first[0] = 0;
    /* A resident tensor may be named any number of times, so even the count can overflow. */
    for (int m = 0; m < plan->n_tensors; m++)
        if (__builtin_add_overflow(plan->first[m], indices->tensors[m].numel, &plan->first[m + 1]))
            return td_error_resource(err, "indices", UINT64_MAX, INT64_MAX, "the list");
    args->plan = plan;
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    struct td_error local;
    if (!err)
        err = &local;
    td_status status = check_lists(args, err);
    if (status != TD_OK)
        return status;
    const struct td_tensor *data0 = &args->inputs[DATA].tensors[0];
    int depth0 = args->inputs[INDICES].tensors[0].shape.rank;
    if (data0->shape.rank - depth0 == TD_MAX_RANK)
        return td_error_resource(err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK, "output");
    int64_t largest;
    status = largest_index(args, &largest, err);
    if (status != TD_OK)
        return status;
    if (largest == INT64_MAX)
        return td_error_resource(err, "rows", (uint64_t)largest + 1, INT64_MAX, "output");
    struct td_shape shape = { .rank = 1, .dim = { largest + 1 } };
    (void)td_shape_append(&shape, &data0->shape, depth0, data0->shape.rank);

    struct td_tensor output;
    status = td_tensor_describe(&output, "output", data0->dtype, &shape, err);
    if (status != TD_OK)
        return status;
    status = make_plan(args, &output, arena, err);
    if (status != TD_OK)
        return status;
    args->outputs = td_arena_alloc(arena, 1, sizeof(output), err);
    if (!args->outputs)
        return err->status;
    args->outputs[0] = output;
    args->n_outputs = 1;
    return TD_OK;
}

/* ---- Ways to do it ----------------------------------------------------------------------- */

/* Rows are written in the order of the input, not gathered in the order of the output: so the
 * reading is sequential, and nothing waits for the writing. */
enum way {
    WAY_NOTHING, /* the output has no elements */
    WAY_ZEROS,   /* in order, over zeros: few rows or narrow ones */
    WAY_SMALL,   /* in order, not worth sharing; then zeros where nothing went */
    WAY_DENSE,   /* zeros where nothing goes, then of equal indices the last row, on all threads */
    WAY_STRINGS, /* where each row comes from, in order; then the rows */
    WAY_PARTS    /* the same, for rows that are shared out in parts */
};

/* Less is not worth sharing; nor are short rows while all is in the cache, where one thread that
 * goes through the indices once is as fast as two for which they are gone through before: 30,000
 * rows of 64 B in 2.1 ns each, by two threads in 2.2 (tests/bench/bench_stitch). */
#define SHARED_BYTES       ((size_t)512 * 1024)
#define SHORT_ROW          128
#define SHARED_SHORT_BYTES ((size_t)8 * 1024 * 1024)
/* Rows up to here cost less as zeros than finding out where none is written: 0.4 ns for each in the
 * cache, where 100 bytes of zeros are written in a nanosecond (tests/bench/bench_stitch). */
#define NARROW_ROW         32
/* So do any rows when the output has so many times as many as the input. */
#define SPARSE             8

struct stitch {
    const struct td_dynamic_stitch_geometry *plan;
    const struct td_tensor *indices, *data;
    struct td_tensor *out;
    int64_t n_out;    /* rows of out */
    size_t row_bytes; /* 0 for strings */
    enum way way;
    bool stream;
    uint8_t *named; /* WAY_SMALL, WAY_DENSE: for each row of out, does one go there, 1 or 0? */
    uint8_t *marks; /* WAY_SMALL: `named`, filled while the rows are written */
    uint32_t *last; /* WAY_DENSE, for equal indices, in place of `named`: for each row of out that
                        one goes to the number of the last row of the input that does */
    struct td_string_row *strings; /* WAY_STRINGS: what each row of out is made of */
    const char **from;             /* WAY_PARTS: the same */
};

static bool worth_sharing(const struct stitch *job, int64_t n)
{
    size_t least = job->row_bytes < SHORT_ROW ? SHARED_SHORT_BYTES : SHARED_BYTES;
    return (size_t)n >= least / job->row_bytes;
}

static void stitch_init(struct stitch *job, const struct td_op_args *args)
{
    const struct td_dynamic_stitch_geometry *plan = args->plan;
    struct td_tensor *out = &args->outputs[0];
    *job = (struct stitch){
        .plan = plan,
        .indices = args->inputs[INDICES].tensors,
        .data = args->inputs[DATA].tensors,
        .out = out,
        .way = WAY_NOTHING,
    };
    if (out->numel == 0)
        return;
    int64_t n = n_in(plan);
    job->n_out = plan->n_out;
    job->row_bytes = plan->row_bytes;
    job->stream = td_rows_should_stream(out->bytes, job->row_bytes);
    if (out->dtype == TD_DTYPE_STRING)
        job->way = WAY_STRINGS;
    else if (job->row_bytes > TD_ROWS_RANGE_BYTES)
        job->way = WAY_PARTS;
    else if (job->row_bytes <= NARROW_ROW || n < job->n_out / SPARSE || n >= UINT32_MAX)
        job->way = WAY_ZEROS;
    else
        job->way = job->stream || worth_sharing(job, n) ? WAY_DENSE : WAY_SMALL;
}

/* Of job->named: whole words. */
static size_t named_bytes(const struct stitch *job)
{
    return ((size_t)job->n_out + 7) / 8 * 8;
}

static uint64_t scratch_bytes(const struct stitch *job)
{
    switch (job->way) {
    case WAY_SMALL:
        return named_bytes(job);
    case WAY_DENSE: /* `last` in the place of `named`, whose last word may be longer */
        return (uint64_t)job->n_out * sizeof(job->last[0]) + sizeof(uint64_t);
    case WAY_STRINGS:
        return (uint64_t)job->n_out * sizeof(job->strings[0]);
    case WAY_PARTS:
        return (uint64_t)job->n_out * sizeof(job->from[0]);
    default:
        return 0;
    }
}

static struct td_cost cost(const struct td_op_args *args)
{
    struct stitch job;
    stitch_init(&job, args);
    struct td_cost cost = { .workspace = scratch_bytes(&job) };
    cost.random_reads = (uint64_t)n_in(job.plan);
    cost.bytes_written = td_tensor_footprint(job.out) + cost.workspace;
    for (int m = 0; m < job.plan->n_tensors; m++) {
        cost.bytes_read += job.indices[m].bytes + td_tensor_footprint(&job.data[m]);
        if (job.way == WAY_STRINGS)
            cost.bytes_written += job.data[m].bytes;
    }
    return cost;
}

/* ---- Rows of the input, a piece at a time ------------------------------------------------ */

/* Rows at .. at + n of tensor `list`. */
struct piece {
    int list;
    int64_t at, n;
};

/* The tensor that input row `begin` is in; one that has no rows may come before it. */
static int list_of(const struct td_dynamic_stitch_geometry *plan, int64_t begin)
{
    int low = 0, high = plan->n_tensors;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (plan->first[middle] <= begin)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Takes the next rows of [*begin, end), beginning with list_of; false when there are none. */
static bool next_piece(const struct stitch *job, int64_t *begin, int64_t end, struct piece *piece)
{
    const int64_t *first = job->plan->first;
    if (*begin >= end)
        return false;
    while (first[piece->list + 1] <= *begin)
        piece->list++;
    int64_t last = td_smaller(first[piece->list + 1], end);
    piece->at = *begin - first[piece->list];
    piece->n = last - *begin;
    *begin = last;
    return true;
}

/* The same for TD_ROWS_CHUNK rows at the most, with their places in the output. */
static bool next_chunk(const struct stitch *job, int64_t *begin, int64_t end, struct piece *chunk,
                       int64_t *rows)
{
    if (!next_piece(job, begin, td_smaller(end, *begin + TD_ROWS_CHUNK), chunk))
        return false;
    /* Known to be good, and no bound to compare with: this only widens them. */
    td_rows_resolve_indices(&job->indices[chunk->list], chunk->at, chunk->n, INT64_MAX,
                            TD_BOUNDS_ERROR, rows);
    return true;
}

static const char *piece_data(const struct stitch *job, const struct piece *piece)
{
    return (const char *)job->data[piece->list].data + (size_t)piece->at * job->row_bytes;
}

static void scatter_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    struct piece piece = { .list = list_of(job->plan, begin) };
    while (next_piece(job, &begin, end, &piece))
        td_rows_scatter(job->out->data, &job->indices[piece.list], piece.at, piece.n,
                        piece_data(job, &piece), job->row_bytes, job->stream, job->marks);
}

/* Notes where strings come from. */
static void note_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    struct piece chunk = { .list = list_of(job->plan, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_chunk(job, &begin, end, &chunk, rows)) {
        const struct td_tensor *data = &job->data[chunk.list];
        const uint64_t *offsets = data->offsets + chunk.at * job->plan->row_numel;
        for (int64_t k = 0; k < chunk.n; k++, offsets += job->plan->row_numel)
            job->strings[rows[k]] = (struct td_string_row){ offsets, data->data };
    }
}

/* Input between two looks at the deadline: a few milliseconds. */
#define STEP_BYTES ((size_t)4 * 1024 * 1024)

/* Calls fn for the rows of the input in order, on this thread; they count as row_bytes each. */
static td_status in_order(struct stitch *job, td_range_fn *fn, size_t row_bytes,
                          struct td_exec *exec, struct td_error *err)
{
    size_t row_cost = row_bytes > TD_ROWS_NARROW ? row_bytes : TD_ROWS_NARROW;
    int64_t step = (int64_t)(STEP_BYTES / row_cost), n = n_in(job->plan);
    for (int64_t begin = 0; n - begin > step; begin += step) {
        fn(job, begin, begin + step);
        td_status status = td_exec_check(exec, err);
        if (status != TD_OK)
            return status;
    }
    fn(job, (n - 1) / step * step, n);
    return TD_OK;
}

/* Calls fn for n rows, on all threads where that pays. */
static td_status share(struct stitch *job, td_range_fn *fn, int64_t n, struct td_exec *exec,
                       struct td_error *err)
{
    if (!worth_sharing(job, n)) {
        fn(job, 0, n);
        return TD_OK;
    }
    return td_exec_for(exec, n, td_rows_in_range(job->row_bytes), fn, job, err);
}

/* ---- Rows that are named, and by whom last ------------------------------------------------- */

/* One thread does this, though there may be more: two that write all over the same table take its
 * lines from each other and are slower than one, and there would be an order to restore after
 * (tests/bench/bench_stitch). */
static void note_named_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    struct piece piece = { .list = list_of(job->plan, begin) };
    while (next_piece(job, &begin, end, &piece))
        td_rows_mark(&job->indices[piece.list], piece.at, piece.n, job->named);
}

/* Sum of n bytes that are 0 or 1, n a multiple of 8. */
static int64_t sum_flags(const uint8_t *flags, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight;
        memcpy(&eight, flags + i, 8);
        sum += (int64_t)(eight * UINT64_C(0x0101010101010101) >> 56);
    }
    return sum;
}

static td_status clear_named(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    job->named = td_arena_alloc(exec->arena, scratch_bytes(job), 1, err);
    if (!job->named)
        return err->status;
    memset(job->named, 0, named_bytes(job));
    return TD_OK;
}

/* Fills job->named; *n_named rows of out are. */
static td_status find_named(struct stitch *job, int64_t *n_named, struct td_exec *exec,
                            struct td_error *err)
{
    td_status status = clear_named(job, exec, err);
    if (status == TD_OK)
        status = in_order(job, note_named_range, sizeof(job->named[0]), exec, err);
    if (status == TD_OK)
        *n_named = sum_flags(job->named, named_bytes(job));
    return status;
}

static void store_last_range(void *context, int64_t begin, int64_t end)
{
    struct stitch *job = context;
    struct piece chunk = { .list = list_of(job->plan, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_chunk(job, &begin, end, &chunk, rows)) {
        uint32_t number = (uint32_t)(job->plan->first[chunk.list] + chunk.at);
        for (int64_t k = 0; k < chunk.n; k++)
            job->last[rows[k]] = number++;
    }
}

/* Writes the rows that are the last of their index. */
static void scatter_last_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    struct piece chunk = { .list = list_of(job->plan, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_chunk(job, &begin, end, &chunk, rows)) {
        uint32_t number = (uint32_t)(job->plan->first[chunk.list] + chunk.at);
        uint16_t picked[TD_ROWS_CHUNK];
        int64_t n = 0;
        for (int64_t k = 0; k < chunk.n; k++) {
            picked[n] = (uint16_t)k;
            n += job->last[rows[k]] == number++;
        }
        td_rows_scatter_picked(job->out->data, rows, piece_data(job, &chunk), job->row_bytes,
                               picked, n, job->stream);
    }
}

/* ---- Rows of the output ------------------------------------------------------------------ */

/* Bytes in a range of zeros, which are written several times as fast as rows are copied. */
#define ZERO_BYTES ((size_t)1024 * 1024)

static void zero_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    memset((char *)job->out->data + (size_t)begin * job->row_bytes, 0,
           (size_t)(end - begin) * job->row_bytes);
}

/* Zeros for the rows that nothing goes to. */
static void fill_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    int64_t holes[TD_ROWS_CHUNK];
    while (begin < end) {
        int64_t stop = end - begin < TD_ROWS_CHUNK ? end : begin + TD_ROWS_CHUNK, n = 0;
        for (; begin < stop; begin++) {
            holes[n] = begin;
            n += !job->named[begin];
        }
        td_rows_zero(job->out->data, holes, job->row_bytes, n, job->stream);
    }
}

static td_status run_zeros(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    int64_t grain = (int64_t)(ZERO_BYTES / job->row_bytes);
    td_status status = td_exec_for(exec, job->n_out, grain, zero_range, job, err);
    return status == TD_OK ? in_order(job, scatter_range, job->row_bytes, exec, err) : status;
}

static td_status scatter_last(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    /* Nobody looks at the entries of other rows. */
    job->last = (uint32_t *)(void *)job->named;
    td_status status = in_order(job, store_last_range, sizeof(job->last[0]), exec, err);
    return status == TD_OK ? share(job, scatter_last_range, n_in(job->plan), exec, err) : status;
}

/* Which rows are written is noted on the way, while the copying waits for the cache, and the later
 * of equal indices comes later by itself. */
static td_status run_small(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    td_status status = clear_named(job, exec, err);
    if (status != TD_OK)
        return status;
    job->marks = job->named;
    status = in_order(job, scatter_range, job->row_bytes, exec, err);
    if (status != TD_OK || !memchr(job->named, 0, (size_t)job->n_out))
        return status;
    return share(job, fill_range, job->n_out, exec, err);
}

static td_status run_dense(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    int64_t n = n_in(job->plan), n_named = 0;
    td_status status = find_named(job, &n_named, exec, err);
    if (status == TD_OK && n_named < job->n_out)
        status = share(job, fill_range, job->n_out, exec, err);
    if (status != TD_OK)
        return status;
    if (n_named == n) /* no two indices are equal */
        return share(job, scatter_range, n, exec, err);
    return scatter_last(job, exec, err);
}

static void clear_strings_range(void *context, int64_t begin, int64_t end)
{
    struct stitch *job = context;
    memset(job->strings + begin, 0, (size_t)(end - begin) * sizeof(job->strings[0]));
}

static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct stitch *job = context;
    (void)n;
    (void)rows;
    return job->strings + begin;
}

static td_status run_strings(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    job->strings = td_arena_alloc(exec->arena, (size_t)job->n_out, sizeof(job->strings[0]), err);
    if (!job->strings)
        return err->status;
    int64_t grain = (int64_t)(ZERO_BYTES / sizeof(job->strings[0]));
    td_status status = td_exec_for(exec, job->n_out, grain, clear_strings_range, job, err);
    if (status == TD_OK)
        status = in_order(job, note_range, sizeof(job->strings[0]), exec, err);
    if (status != TD_OK)
        return status;
    struct td_strings strings = {
        .out = job->out,
        .n_rows = job->n_out,
        .row_numel = job->plan->row_numel,
        .rows = string_rows,
        .context = job,
    };
    return td_strings_run(&strings, exec, err);
}

static void parts_range(void *context, int64_t begin, int64_t end)
{
    const struct stitch *job = context;
    int64_t parts = td_rows_parts(job->row_bytes);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item / parts;
        td_rows_copy_part((char *)job->out->data + (size_t)row * job->row_bytes, job->from[row],
                          job->row_bytes, item % parts);
    }
}

static td_status run_parts(struct stitch *job, struct td_exec *exec, struct td_error *err)
{
    job->from = td_arena_alloc(exec->arena, (size_t)job->n_out, sizeof(job->from[0]), err);
    if (!job->from)
        return err->status;
    memset(job->from, 0, (size_t)job->n_out * sizeof(job->from[0]));
    struct piece chunk = { .list = 0 };
    int64_t rows[TD_ROWS_CHUNK];
    for (int64_t begin = 0; next_chunk(job, &begin, n_in(job->plan), &chunk, rows);)
        for (int64_t k = 0; k < chunk.n; k++)
            job->from[rows[k]] = piece_data(job, &chunk) + (size_t)k * job->row_bytes;
    return td_exec_for(exec, job->n_out * td_rows_parts(job->row_bytes), 1, parts_range, job, err);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct td_error local;
    if (!err)
        err = &local;
    struct stitch job;
    stitch_init(&job, args);
    switch (job.way) {
    case WAY_ZEROS:
        return run_zeros(&job, exec, err);
    case WAY_SMALL:
        return run_small(&job, exec, err);
    case WAY_DENSE:
        return run_dense(&job, exec, err);
    case WAY_STRINGS:
        return run_strings(&job, exec, err);
    case WAY_PARTS:
        return run_parts(&job, exec, err);
    case WAY_NOTHING:
        break;
    }
    return TD_OK;
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_input_spec inputs[] = {
    [INDICES] = {
        .name = "indices",
        .summary = "Rows of the output, each 0 or more, in tensors of any rank, scalars included.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .list = true,
        .sets_shape = true,
    },
    [DATA] = {
        .name = "data",
        .summary = "The rows: as many tensors as indices has, all of one dtype; the shape of "
                   "data[m] begins with that of indices[m], and what follows is the same for all.",
        .dtypes = TD_DTYPES_ALL,
        .list = true,
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs[] = {
    {
        .name = "output",
        .summary = "The rows, each where its index says.",
        .shape_rule = "[max(indices) + 1] + data[0].shape[rank(indices[0]):]",
        .dtype_of = "data",
    },
};

const struct td_op td_op_dynamic_stitch = {
    .name = "dynamic_stitch",
    .summary =
        "Puts rows of several tensors together into one, each where its index says; of equal "
        "indices the later counts, rows without an index are zeros.",
    .source = "tf.dynamic_stitch (TensorFlow 2 API reference)",
    .inputs = inputs,
    .n_inputs = 2,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .example = "{\"indices\":[[0,2],[1]],\"data\":[[[1,2],[5,6]],[[3,4]]]}",
    .infer = infer,
    .cost = cost,
    .run = run,
};

const struct td_op td_op_parallel_dynamic_stitch = {
    .name = "parallel_dynamic_stitch",
    .summary = "As dynamic_stitch, without a promise which of equal indices counts.",
    .source = "tf.raw_ops.ParallelDynamicStitch (TensorFlow 2 API reference)",
    .inputs = inputs,
    .n_inputs = 2,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .example = "{\"indices\":[[0,2],[1]],\"data\":[[[1,2],[5,6]],[[3,4]]]}",
    .infer = infer,
    .cost = cost,
    .run = run,
};
