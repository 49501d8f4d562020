#include "kernels/scatter/scatter.h"

#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/rows/gathering.h"
#include "kernels/rows/strings.h"

#include <inttypes.h>
#include <string.h>

/* The input that follows TD_GATHERING_PARAMS and TD_GATHERING_INDICES. */
enum { UPDATES = 2 };

/* Combines to[i] with from[i] for n elements. */
struct scatter;
typedef void combine_fn(const struct scatter *job, void *restrict to, const void *restrict from,
                        int64_t n);

/* The arguments, and the sizes derived from their shapes. A row is the slice that a tuple
 * selects. */
struct scatter {
    const struct td_tensor *params, *indices, *updates;
    struct td_tensor *out;
    td_scatter_mode mode;
    struct td_tuple_space space;
    int64_t n;         /* number of tuples, or 0 if there is nothing to write */
    int64_t row_numel; /* number of elements per row */
    size_t row_bytes;  /* 0 for strings */
    bool stream;

    /* The loops of the mode; unused for "set". */
    combine_fn *combine;
    combine_fn *combine_floats; /* the three loops for float16 and bfloat16 */
    td_widen_fn *widen;
    td_narrow_fn *narrow;

    int64_t begin, end;            /* tuples of the current step */
    int64_t parts;                 /* number of parts into which the step is split */
    struct td_row_parts row_parts; /* the same parts, if they are sets of rows */

    /* For strings: number of the tuple that writes each row of out, or FROM_PARAMS. */
    int64_t *sources;
};

#define FROM_PARAMS (-1)

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_scatter_mode mode_of(const struct td_op_args *args)
{
    struct td_scatter_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.mode;
}

static const char *const modes[] = {
    [TD_SCATTER_SET] = "set", [TD_SCATTER_ADD] = "add", [TD_SCATTER_MUL] = "mul",
    [TD_SCATTER_MIN] = "min", [TD_SCATTER_MAX] = "max", NULL,
};

static td_status check_mode(const struct td_op_args *args, struct td_error *err)
{
    const td_dtype dtype = args->inputs[TD_GATHERING_PARAMS].tensors->dtype;
    const td_scatter_mode mode = mode_of(args);
    const bool ordered = mode == TD_SCATTER_MIN || mode == TD_SCATTER_MAX;
    const bool complex = dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
    if (mode == TD_SCATTER_SET ||
        (dtype != TD_DTYPE_BOOL && dtype != TD_DTYPE_STRING && !(ordered && complex)))
        return TD_OK;
    td_error_set(err, TD_UNSUPPORTED_DTYPE, "params has dtype %s; mode \"%s\" expects %s",
                 td_dtype_info(dtype)->name, modes[mode],
                 ordered ? "integers or floats" : "a numeric dtype");
    return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "params");
}

/* Checks that tuples of this depth can index params. */
static td_status check_depth(const struct td_shape *params, const struct td_shape *indices,
                             struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (params->rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (indices->rank == 0)
        return td_gathering_refuse_scalar("indices", err);
    int64_t depth = indices->dim[indices->rank - 1];
    if (depth <= params->rank)
        return TD_OK;
    if (indices->rank == 1)
        return td_gathering_refuse_flat(err, params, indices);
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "the last dimension of indices %s, %" PRId64 ", exceeds the rank of params %s, %d",
                 td_shape_text(indices, text, sizeof(text)), depth,
                 td_shape_text(params, more, sizeof(more)), params->rank);
    return td_gathering_shapes_at_fault(err, params, indices);
}

/* Adds two shapes to a SHAPE_MISMATCH error of updates: its own shape and the shape of the input
 * that contradicts it. */
static td_status updates_at_fault(struct td_error *err, const struct td_shape *updates,
                                  const char *name, const struct td_shape *other)
{
    td_error_add_shape(err, "updates", updates);
    td_error_add_shape(err, name, other);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "updates");
}

/* Checks that there is one update for each tuple, with the shape of a slice of params. */
static td_status check_updates(const struct td_shape *params, const struct td_shape *indices,
                               const struct td_shape *updates, struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    int last = indices->rank - 1, depth = (int)indices->dim[last];
    struct td_shape tuples = { .rank = 0 }, slice = { .rank = 0 }, given = { .rank = 0 };
    (void)td_shape_append(&tuples, indices, 0, last);
    (void)td_shape_append(&slice, params, depth, params->rank);
    if (!td_shape_starts_with(updates, &tuples)) {
        struct td_shape whole = tuples;
        const bool fits = td_shape_append(&whole, &slice, 0, slice.rank);
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "the shape of updates, %s, does not start with the shape of indices without "
                     "its last dimension, %s",
                     td_shape_text(updates, text, sizeof(text)),
                     td_shape_text(&tuples, more, sizeof(more)));
        if (fits)
            td_error_hint(err, "expected %s", td_shape_text(&whole, text, sizeof(text)));
        return updates_at_fault(err, updates, "indices", indices);
    }
    (void)td_shape_append(&given, updates, last, updates->rank);
    if (!td_shape_equal(&slice, &given) && indices->rank == 1 && updates->rank > 0 &&
        updates->dim[0] == depth)
        return td_gathering_refuse_flat(err, params, indices);
    if (!td_shape_equal(&slice, &given)) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "each update has shape %s, but tuples of length %d select slices of shape %s",
                     td_shape_text(&given, text, sizeof(text)), depth,
                     td_shape_text(&slice, more, sizeof(more)));
        return updates_at_fault(err, updates, "params", params);
    }
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_shape *params = &args->inputs[TD_GATHERING_PARAMS].tensors->shape;
    const struct td_shape *indices = &args->inputs[TD_GATHERING_INDICES].tensors->shape;
    td_status status = check_mode(args, err);
    if (status == TD_OK)
        status = check_depth(params, indices, err);
    if (status == TD_OK)
        status = check_updates(params, indices, &args->inputs[UPDATES].tensors->shape, err);
    if (status != TD_OK)
        return status;
    const struct td_gathering_part part = { params, 0, params->rank };
    return td_gathering_output(args, args->inputs[TD_GATHERING_PARAMS].tensors->dtype, &part, 1,
                               arena, err);
}

/* Sets up a job from the arguments of a call after infer. */
static void scatter_init(struct scatter *job, const struct td_op_args *args)
{
    *job = (struct scatter){
        .params = args->inputs[TD_GATHERING_PARAMS].tensors,
        .indices = args->inputs[TD_GATHERING_INDICES].tensors,
        .updates = args->inputs[UPDATES].tensors,
        .out = &args->outputs[0],
        .mode = mode_of(args),
        .row_numel = 1,
    };
    const struct td_shape *params = &job->params->shape, *indices = &job->indices->shape;
    int depth = (int)indices->dim[indices->rank - 1];
    td_gathering_tuple_space(params, 0, depth, &job->space);
    if (job->out->numel == 0 || job->updates->numel == 0)
        return;
    /* The product divides numel, so it cannot overflow. */
    (void)td_shape_product(params, depth, params->rank, &job->row_numel);
    job->n = job->updates->numel / job->row_numel;
    job->row_bytes = (size_t)job->row_numel * td_dtype_info(job->out->dtype)->size;
    job->stream = td_rows_should_stream(job->updates->bytes, job->row_bytes);
}

static bool in_place(const struct scatter *job)
{
    return job->out->data == job->params->data && job->out->dtype != TD_DTYPE_STRING;
}

static struct td_cost cost(const struct td_op_args *args)
{
    struct scatter job;
    scatter_init(&job, args);
    struct td_cost cost = { .random_reads = (uint64_t)job.n };
    cost.bytes_read = job.indices->bytes + td_tensor_footprint(job.updates);
    cost.bytes_written = job.updates->bytes;
    if (job.mode != TD_SCATTER_SET) {
        cost.bytes_read += job.updates->bytes;
        cost.flops = (uint64_t)job.updates->numel;
    }
    if (job.out->numel > 0 && !in_place(&job)) {
        cost.bytes_read += td_tensor_footprint(job.params);
        cost.bytes_written += td_tensor_footprint(job.params);
    }
    if (job.out->numel > 0 && job.out->dtype == TD_DTYPE_STRING) {
        cost.workspace = (uint64_t)(job.out->numel / job.row_numel) * sizeof(job.sources[0]);
        cost.bytes_written += cost.workspace;
    }
    return cost;
}

/* ---- Combining --------------------------------------------------------------------------- */

/* Sets an element a of the output to `value`, which depends on a and an update b. Signed integers
 * are added and multiplied as unsigned integers, which wrap around to the same bits. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be in parentheses. */
#define LOOP(name, type, value)                                                                    \
    static void name(const struct scatter *job, void *restrict to, const void *restrict from,      \
                     int64_t n)                                                                    \
    {                                                                                              \
        type *restrict out = to;                                                                   \
        const type *restrict in = from;                                                            \
        (void)job;                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const type a = out[i], b = in[i];                                                      \
            out[i] = (type)(value);                                                                \
        }                                                                                          \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#define ARITHMETIC(name, type)                                                                     \
    LOOP(add_##name, type, a + b)                                                                  \
    LOOP(mul_##name, type, 1u * a * b) /* 1u avoids a promotion of narrow integers to int */
ARITHMETIC(u8, uint8_t)
ARITHMETIC(u16, uint16_t)
ARITHMETIC(u32, uint32_t)
ARITHMETIC(u64, uint64_t)
LOOP(add_f32, float, a + b)
LOOP(mul_f32, float, a *b)
LOOP(add_f64, double, a + b)
LOOP(mul_f64, double, a *b)

/* The result is NaN if a or b is NaN. */
#define EXTREMES(name, type)                                                                       \
    LOOP(min_##name, type, b < a || b != b ? b : a)                                                \
    LOOP(max_##name, type, b > a || b != b ? b : a)
EXTREMES(i8, int8_t)
EXTREMES(i16, int16_t)
EXTREMES(i32, int32_t)
EXTREMES(i64, int64_t)
EXTREMES(u8, uint8_t)
EXTREMES(u16, uint16_t)
EXTREMES(u32, uint32_t)
EXTREMES(u64, uint64_t)
EXTREMES(f32, float)
EXTREMES(f64, double)

#define COMPLEX_PRODUCT(name, type)                                                                \
    static void mul_##name(const struct scatter *job, void *restrict to,                           \
                           const void *restrict from, int64_t n)                                   \
    {                                                                                              \
        type(*restrict out)[2] = to;                                                               \
        const type(*restrict in)[2] = from;                                                        \
        (void)job;                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const type re = out[i][0] * in[i][0] - out[i][1] * in[i][1];                           \
            out[i][1] = out[i][0] * in[i][1] + out[i][1] * in[i][0];                               \
            out[i][0] = re;                                                                        \
        }                                                                                          \
    }
/* A complex number is added as two real numbers. */
static void add_c64(const struct scatter *job, void *restrict to, const void *restrict from,
                    int64_t n)
{
    add_f32(job, to, from, 2 * n);
}

static void add_c128(const struct scatter *job, void *restrict to, const void *restrict from,
                     int64_t n)
{
    add_f64(job, to, from, 2 * n);
}

COMPLEX_PRODUCT(c64, float)
COMPLEX_PRODUCT(c128, double)

/* Combines float16 or bfloat16 elements in float. The precision of float exceeds twice theirs by
 * more than two bits, so rounding a sum or product to float first does not change the result (no
 * double rounding). */
static void combine_halves(const struct scatter *job, void *restrict to, const void *restrict from,
                           int64_t n)
{
    enum { RUN = 256 };
    float result[RUN], more[RUN];
    uint16_t *out = to;
    const uint16_t *in = from;
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t run = td_smaller(n - at, RUN);
        job->widen(result, out + at, 1, run);
        job->widen(more, in + at, 1, run);
        job->combine_floats(job, result, more, run);
        job->narrow(out + at, 1, result, run);
    }
}

/* The loops for each mode and dtype. NULL if the mode does not accept the dtype. */
#define INTEGERS(signed_loop, unsigned_loop)                                                       \
    [TD_DTYPE_INT8] = signed_loop##8, [TD_DTYPE_INT16] = signed_loop##16,                          \
    [TD_DTYPE_INT32] = signed_loop##32, [TD_DTYPE_INT64] = signed_loop##64,                        \
    [TD_DTYPE_UINT8] = unsigned_loop##8, [TD_DTYPE_UINT16] = unsigned_loop##16,                    \
    [TD_DTYPE_UINT32] = unsigned_loop##32, [TD_DTYPE_UINT64] = unsigned_loop##64
#define FLOATS(loop)                                                                               \
    [TD_DTYPE_FLOAT16] = combine_halves, [TD_DTYPE_BFLOAT16] = combine_halves,                     \
    [TD_DTYPE_FLOAT32] = loop##32, [TD_DTYPE_FLOAT64] = loop##64
static combine_fn *const loops[][TD_DTYPE_COUNT] = {
    [TD_SCATTER_ADD] = { INTEGERS(add_u, add_u), FLOATS(add_f), [TD_DTYPE_COMPLEX64] = add_c64,
                         [TD_DTYPE_COMPLEX128] = add_c128 },
    [TD_SCATTER_MUL] = { INTEGERS(mul_u, mul_u), FLOATS(mul_f), [TD_DTYPE_COMPLEX64] = mul_c64,
                         [TD_DTYPE_COMPLEX128] = mul_c128 },
    [TD_SCATTER_MIN] = { INTEGERS(min_i, min_u), FLOATS(min_f) },
    [TD_SCATTER_MAX] = { INTEGERS(max_i, max_u), FLOATS(max_f) },
};

static void choose_loop(struct scatter *job, td_isa isa)
{
    const td_dtype dtype = job->out->dtype;
    job->combine = loops[job->mode][dtype];
    job->combine_floats = loops[job->mode][TD_DTYPE_FLOAT32];
    job->widen = td_widen(dtype, td_isa_resolve(isa));
    job->narrow = td_narrow(dtype, td_isa_resolve(isa));
}

static void combine_bytes(const struct scatter *job, void *to, const void *from, size_t bytes)
{
    job->combine(job, to, from, (int64_t)(bytes / td_dtype_info(job->out->dtype)->size));
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Minimum number of bytes of updates that several threads write. */
#define PARALLEL_BYTES ((size_t)512 * 1024)
/* Number of bytes of updates that a thread writes between two checks of the deadline, a few
 * milliseconds of work. */
#define STEP_BYTES     ((size_t)4 * 1024 * 1024)
/* Number of rows by which the prefetch of a row precedes its combination with an update. */
#define AHEAD          16
#define CACHE_LINE     64

static char *row_at(const struct scatter *job, int64_t row)
{
    return (char *)job->out->data + (size_t)row * job->row_bytes;
}

/* Resolves the tuples [at, at + n) to row numbers, where n <= TD_ROWS_CHUNK. */
static void resolve(const struct scatter *job, int64_t at, int64_t n, int64_t *rows)
{
    td_rows_resolve_tuples(job->indices, at, n, &job->space, TD_BOUNDS_ERROR, rows);
}

static int64_t chunk_at(const struct scatter *job, int64_t at)
{
    return td_smaller(job->end - at, TD_ROWS_CHUNK);
}

static const char *update_at(const struct scatter *job, int64_t tuple)
{
    return (const char *)job->updates->data + (size_t)tuple * job->row_bytes;
}

static void combine_rows(const struct scatter *job, const int64_t *rows, const char *from,
                         const uint16_t *picked, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        if (j + AHEAD < n)
            __builtin_prefetch(row_at(job, rows[picked[j + AHEAD]]), 1);
        combine_bytes(job, row_at(job, rows[picked[j]]), from + picked[j] * job->row_bytes,
                      job->row_bytes);
    }
}

/* Writes the parts [begin, end) of the output. A part is a set of rows, whose updates are written
 * in order. Reading all tuples for each part costs less than sorting the tuples by part first. */
static void rows_range(void *context, int64_t begin, int64_t end)
{
    const struct scatter *job = context;
    int64_t rows[TD_ROWS_CHUNK], n;
    uint16_t picked[TD_ROWS_CHUNK];
    const struct td_tensor row_numbers = { .dtype = TD_DTYPE_INT64, .data = rows };
    for (int64_t part = begin; part < end; part++)
        for (int64_t at = job->begin; at < job->end; at += n) {
            n = chunk_at(job, at);
            resolve(job, at, n, rows);
            int64_t n_picked = td_rows_pick(rows, n, &job->row_parts, part, picked);
            if (job->mode != TD_SCATTER_SET)
                combine_rows(job, rows, update_at(job, at), picked, n_picked);
            else if (n_picked == n)
                td_rows_scatter(job->out->data, &row_numbers, 0, n, update_at(job, at),
                                job->row_bytes, job->stream, NULL);
            else
                td_rows_scatter_picked(job->out->data, rows, update_at(job, at), job->row_bytes,
                                       picked, n_picked, job->stream);
        }
}

/* Writes the parts [begin, end) of every row, for rows larger than TD_ROWS_RANGE_BYTES. */
static void row_parts_range(void *context, int64_t begin, int64_t end)
{
    const struct scatter *job = context;
    int64_t rows[TD_ROWS_CHUNK], n;
    for (int64_t part = begin; part < end; part++)
        for (int64_t at = job->begin; at < job->end; at += n) {
            n = chunk_at(job, at);
            resolve(job, at, n, rows);
            for (int64_t k = 0; k < n; k++) {
                size_t offset = (size_t)part * TD_ROWS_RANGE_BYTES;
                size_t left = job->row_bytes - offset;
                if (job->mode != TD_SCATTER_SET)
                    combine_bytes(job, row_at(job, rows[k]) + offset,
                                  update_at(job, at + k) + offset,
                                  left < TD_ROWS_RANGE_BYTES ? left : TD_ROWS_RANGE_BYTES);
                else
                    td_rows_copy_part(row_at(job, rows[k]), update_at(job, at + k), job->row_bytes,
                                      part);
            }
        }
}

/* Writes all updates. Only one thread writes each byte of the output, in the order of the updates,
 * so the result does not depend on the number of threads. */
static td_status write_updates(struct scatter *job, struct td_exec *exec, struct td_error *err)
{
    size_t row_cost = job->row_bytes > TD_ROWS_NARROW ? job->row_bytes : TD_ROWS_NARROW;
    bool wide = job->row_bytes > TD_ROWS_RANGE_BYTES;
    bool single_threaded = exec->width == 1 || (size_t)job->n < PARALLEL_BYTES / row_cost;
    td_range_fn *fn = wide ? row_parts_range : rows_range;
    job->parts = wide ? td_rows_parts(job->row_bytes) : single_threaded ? 1 : exec->width;
    td_row_parts_init(&job->row_parts, 0, INT64_MAX, job->row_bytes, CACHE_LINE, job->parts);
    int64_t step = td_larger((int64_t)((size_t)exec->width * STEP_BYTES / row_cost), 1);
    td_status status = TD_OK;
    for (job->begin = 0; job->begin < job->n && status == TD_OK; job->begin = job->end) {
        job->end = job->begin + td_smaller(job->n - job->begin, step);
        if (!single_threaded) {
            status = td_exec_for(exec, job->parts, 1, fn, job, err);
            continue;
        }
        fn(job, 0, job->parts);
        if (job->end < job->n)
            status = td_exec_check(exec, err);
    }
    return status;
}

static void copy_params_range(void *context, int64_t begin, int64_t end)
{
    const struct scatter *job = context;
    for (int64_t part = begin; part < end; part++)
        td_rows_copy_part(job->out->data, job->params->data, job->out->bytes, part);
}

/* ---- Strings ----------------------------------------------------------------------------- */

static void from_params_range(void *context, int64_t begin, int64_t end)
{
    const struct scatter *job = context;
    for (int64_t row = begin; row < end; row++)
        job->sources[row] = FROM_PARAMS;
}

static void record_sources(struct scatter *job)
{
    int64_t rows[TD_ROWS_CHUNK], n;
    for (int64_t at = job->begin; at < job->end; at += n) {
        n = chunk_at(job, at);
        resolve(job, at, n, rows);
        for (int64_t k = 0; k < n; k++)
            job->sources[rows[k]] = at + k;
    }
}

static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct scatter *job = context;
    for (int64_t k = 0; k < n; k++) {
        int64_t source = job->sources[begin + k];
        const struct td_tensor *from = source == FROM_PARAMS ? job->params : job->updates;
        int64_t row = source == FROM_PARAMS ? begin + k : source;
        rows[k] = (struct td_string_row){ from->offsets + row * job->row_numel, from->data };
    }
    return rows;
}

static td_status run_strings(struct scatter *job, struct td_exec *exec, struct td_error *err)
{
    int64_t n_rows = job->out->numel / job->row_numel;
    job->sources = td_arena_alloc(exec->arena, (size_t)n_rows, sizeof(job->sources[0]), err);
    if (!job->sources)
        return err->status;
    int64_t grain = (int64_t)(STEP_BYTES / sizeof(job->sources[0]));
    td_status status = td_exec_for(exec, n_rows, grain, from_params_range, job, err);
    for (job->begin = 0; job->begin < job->n && status == TD_OK; job->begin = job->end) {
        job->end = job->begin + td_smaller(job->n - job->begin, grain);
        record_sources(job);
        status = td_exec_check(exec, err);
    }
    if (status != TD_OK)
        return status;
    struct td_strings strings = {
        .out = job->out,
        .n_rows = n_rows,
        .row_numel = job->row_numel,
        .rows = string_rows,
        .context = job,
    };
    return td_strings_run(&strings, exec, err);
}

/* ---- The op ------------------------------------------------------------------------------ */

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct scatter job;
    int64_t n_bad, first;
    scatter_init(&job, args);
    td_status status = td_rows_check_tuples(job.indices, &job.space, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (n_bad > 0)
        return td_rows_bad_tuple(job.params, job.indices, 0, first, n_bad, err);
    if (job.out->numel == 0)
        return TD_OK;
    if (job.out->dtype == TD_DTYPE_STRING)
        return run_strings(&job, exec, err);
    if (!in_place(&job))
        status = td_exec_for(exec, td_rows_parts(job.out->bytes), 1, copy_params_range, &job, err);
    if (job.mode != TD_SCATTER_SET)
        choose_loop(&job, exec->isa);
    return status == TD_OK ? write_updates(&job, exec, err) : status;
}

static td_status written_slices(const struct td_op_args *args, struct td_arena *arena,
                                struct td_written_slices *out, struct td_error *err)
{
    struct scatter job;
    scatter_init(&job, args);
    uint64_t *offsets = td_arena_alloc(arena, (size_t)job.n, sizeof(offsets[0]), err);
    if (!offsets)
        return err->status;
    int64_t rows[TD_ROWS_CHUNK], n;
    for (int64_t at = 0; at < job.n; at += n) {
        n = td_smaller(job.n - at, TD_ROWS_CHUNK);
        resolve(&job, at, n, rows);
        for (int64_t k = 0; k < n; k++)
            offsets[at + k] = (uint64_t)rows[k] * job.row_bytes;
    }
    *out = (struct td_written_slices){ offsets, job.n, job.row_bytes };
    return TD_OK;
}

static const struct td_input_spec inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to write into, of rank 1 or more. The result is a new tensor of the "
                   "same shape.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .reads_values = true,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Tuples along the last dimension, of rank 1 or more: component c is a position "
                   "in dimension c of params. Tuples shorter than the rank of params select "
                   "slices.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
    },
    [UPDATES] = {
        .name = "updates",
        .summary = "The values to write, in the dtype of params: one element or slice per tuple, "
                   "indices.shape[:-1] + params.shape[indices.shape[-1]:].",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs[] = {
    {
        .name = "mode",
        .summary = "set replaces elements; if tuples are equal, the last one is used. add, mul, "
                   "min and max combine each element with all of its updates, in order.",
        .kind = TD_ATTR_CHOICE,
        .choices = modes,
        .default_int = TD_SCATTER_SET,
        .offset = offsetof(struct td_scatter_attrs, mode),
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs[] = {
    {
        .name = "output",
        .summary = "params after the updates.",
        .shape_rule = "params.shape",
        .dtype_of = "params",
    },
};

static const struct td_op_change change = { .slices = written_slices };

const struct td_op td_op_scatter = {
    .name = "scatter",
    .summary = "Writes elements or slices into a tensor at the positions given by index tuples, or "
               "combines them with the elements there.",
    .source = "tf.tensor_scatter_nd_update, _add, _min and _max (TensorFlow 2 API reference), "
              "numpy.multiply.at",
    .inputs = inputs,
    .n_inputs = 3,
    .attrs = attrs,
    .n_attrs = 1,
    .outputs = outputs,
    .n_outputs = 1,
    .mixed_dtypes = TD_INVALID_ARGUMENT,
    .errors = errors,
    .infer = infer,
    .cost = cost,
    .run = run,
    .change = &change,
};
