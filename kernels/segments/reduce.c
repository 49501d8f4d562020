#include "kernels/segments/reduce.h"

#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/isa.h"
#include "kernels/rows/order.h"
#include "kernels/rows/rows.h"
#include "kernels/segments/loops.h"
#include "kernels/workspace.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Plan -------------------------------------------------------------------------------- */

/* Maximum number of bytes of a row that are combined at a time. Wider rows are split into blocks of
 * columns. */
#define BLOCK_BYTES  ((int64_t)16 * 1024)
/* Number of bytes of rows in a chunk, which is read several times if its rows are wide. */
#define CHUNK_BYTES  ((int64_t)64 * 1024)
/* Maximum size of the sums and counts in scratch memory. If there are more segments, they are
 * computed in several passes over the ids. */
#define WINDOW_BYTES ((int64_t)64 * 1024 * 1024)

/* The sizes of a call, which follow from its shapes and dtypes. Sums are computed in the output if
 * its dtype allows that, otherwise in scratch memory. */
struct plan {
    int64_t n_rows;
    int64_t n_segments; /* 0 if the output is empty */
    int64_t columns;    /* elements per row */
    td_segment_type type;
    int64_t size;      /* bytes of a sum */
    bool native;       /* sums are computed in the output */
    bool counts;       /* the number of rows of each segment is needed */
    int64_t window;    /* number of segments that are computed at a time */
    int64_t row_bytes; /* of the sums of a segment; capped if they cannot be allocated */
};

static td_segment_type type_of(td_dtype dtype)
{
    switch (td_compute_of(dtype)) {
    case TD_COMPUTE_F32:
    case TD_COMPUTE_C64:
        return TD_SEGMENT_F32;
    case TD_COMPUTE_F64:
    case TD_COMPUTE_C128:
        return TD_SEGMENT_F64;
    case TD_COMPUTE_U64:
        return dtype == TD_DTYPE_INT64 ? TD_SEGMENT_I64 : TD_SEGMENT_U64;
    default:
        return dtype == TD_DTYPE_UINT32 ? TD_SEGMENT_U32 : TD_SEGMENT_I32;
    }
}

static bool is_extreme(td_segment_reduction reduction)
{
    return reduction == TD_SEGMENT_MAX || reduction == TD_SEGMENT_MIN;
}

/* True if segments without rows must be found. Otherwise, their value is the start of a sum. */
static bool needs_counts(const struct td_segment_call *call)
{
    return call->reduction == TD_SEGMENT_MEAN ||
           (is_extreme(call->reduction) && (call->sorted || td_dtype_is_float(call->data->dtype)));
}

static struct plan plan_of(const struct td_segment_call *call)
{
    const td_dtype dtype = call->data->dtype;
    struct plan plan = {
        .n_rows = call->data->numel > 0 ? call->ids->numel : 0,
        .type = type_of(dtype),
        .size = (int64_t)td_compute_size(td_compute_of(dtype)),
        .native = td_compute_is_native(dtype),
        .counts = needs_counts(call),
    };
    if (call->out->numel == 0)
        return plan;
    plan.n_segments = call->out->shape.dim[0];
    plan.columns = call->out->numel / plan.n_segments;
    if (td_dtype_is_complex(dtype) && call->reduction != TD_SEGMENT_PROD) {
        plan.columns *= 2; /* bytes of the output have been checked, so this is no overflow */
        plan.size /= 2;
    }
    plan.row_bytes = (int64_t)td_capped_product((uint64_t)plan.columns, (uint64_t)plan.size);
    const int64_t bytes =
        (plan.native ? 0 : plan.row_bytes) + (plan.counts ? (int64_t)sizeof(int64_t) : 0);
    plan.window = bytes == 0 ? plan.n_segments
                             : td_smaller(plan.n_segments, td_larger(1, WINDOW_BYTES / bytes));
    return plan;
}

static uint64_t sums_bytes(const struct plan *plan)
{
    return plan->native ? 0 : td_workspace_align((uint64_t)(plan->window * plan->row_bytes));
}

uint64_t td_segments_workspace(const struct td_segment_call *call)
{
    const struct plan plan = plan_of(call);
    const uint64_t counts = plan.counts ? (uint64_t)plan.window * sizeof(int64_t) : 0;
    return sums_bytes(&plan) + td_workspace_align(counts);
}

int64_t td_segments_passes(const struct td_segment_call *call)
{
    const struct plan plan = plan_of(call);
    return plan.n_segments == 0 ? 0 : td_ceil_div(plan.n_segments, plan.window);
}

uint64_t td_segments_workspace_per_thread(const struct td_segment_call *call)
{
    return td_compute_is_native(call->data->dtype) ? 0 : (uint64_t)CHUNK_BYTES;
}

/* ---- Values ------------------------------------------------------------------------------ */

typedef enum number { ZERO, ONE, LOWEST, HIGHEST, BELOW_ALL, ABOVE_ALL } number;

static double float_value(td_dtype dtype, number which)
{
    const double highest = dtype == TD_DTYPE_FLOAT16    ? 65504
                           : dtype == TD_DTYPE_BFLOAT16 ? 0x1.fep127
                           : dtype == TD_DTYPE_FLOAT32  ? (double)FLT_MAX
                                                        : DBL_MAX;
    switch (which) {
    case ZERO:
    case ONE:
        return which == ONE;
    case LOWEST:
        return -highest;
    case HIGHEST:
        return highest;
    case BELOW_ALL:
        return -(double)INFINITY;
    default:
        return (double)INFINITY;
    }
}

static uint64_t integer_value(td_dtype dtype, number which)
{
    const bool is_signed = dtype >= TD_DTYPE_INT8 && dtype <= TD_DTYPE_INT64;
    const int bits = 8 * (int)td_dtype_info(dtype)->size;
    const uint64_t highest = UINT64_MAX >> (64 - bits + is_signed);
    switch (which) {
    case ZERO:
    case ONE:
        return which == ONE;
    case LOWEST:
    case BELOW_ALL:
        return is_signed ? ~highest : 0;
    default:
        return highest;
    }
}

/* A value as it is stored in sums. */
struct stored {
    char bytes[16];
};

static struct stored stored_value(td_dtype dtype, number which)
{
    struct stored stored = { { 0 } };
    const td_dtype part = td_dtype_part(dtype); /* the imaginary part is 0 */
    if (td_compute_of(part) == TD_COMPUTE_F32) {
        const float x = (float)float_value(part, which);
        memcpy(stored.bytes, &x, sizeof(x));
    } else if (td_compute_of(part) == TD_COMPUTE_F64) {
        const double x = float_value(part, which);
        memcpy(stored.bytes, &x, sizeof(x));
    } else if (td_compute_of(part) == TD_COMPUTE_U32) {
        const uint32_t x = (uint32_t)integer_value(part, which);
        memcpy(stored.bytes, &x, sizeof(x));
    } else {
        const uint64_t x = integer_value(part, which);
        memcpy(stored.bytes, &x, sizeof(x));
    }
    return stored;
}

/* Returns the value of a sum before the first row. */
static number first_value(td_segment_reduction reduction)
{
    switch (reduction) {
    case TD_SEGMENT_PROD:
        return ONE;
    case TD_SEGMENT_MAX:
        return BELOW_ALL;
    case TD_SEGMENT_MIN:
        return ABOVE_ALL;
    default:
        return ZERO;
    }
}

/* Returns the value of a segment without rows, if it is not the first value. */
static number gap_value(const struct td_segment_call *call)
{
    if (call->sorted || !is_extreme(call->reduction))
        return ZERO;
    return call->reduction == TD_SEGMENT_MAX ? LOWEST : HIGHEST;
}

#define FILL(type)                                                                                 \
    {                                                                                              \
        type x;                                                                                    \
        memcpy(&x, value->bytes, sizeof(x));                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)to)[i] = x;                                                                   \
    }

/* Sets n elements of `size` bytes. */
static void fill(void *to, const struct stored *value, int64_t size, int64_t n)
{
    switch (size) {
    case 4:
        FILL(uint32_t)
        break;
    case 8:
        FILL(uint64_t)
        break;
    default:
        FILL(struct stored)
    }
}

/* ---- Job --------------------------------------------------------------------------------- */

struct job {
    const struct td_segment_call *call;
    struct plan plan;
    td_segment_fn *loop;
    td_widen_fn *widen; /* NULL if sums are computed in the output */
    td_narrow_fn *narrow;
    struct stored start, gap;
    size_t data_bytes; /* bytes of a row of data */
    /* The segments [first, first + count) are computed at a time. */
    int64_t first, count;
    char *sums;      /* [count, columns] */
    int64_t *counts; /* [count], or NULL */
    /* Columns are split into blocks, and rows into chunks. */
    int64_t n_blocks, block, chunk;
    /* Rows [begin, end) are added by n_parts parts: parts of the rows if they are sorted, otherwise
     * parts of the segments, each of which reads all ids. */
    int64_t begin, end, n_parts;
    struct td_row_parts parts;     /* of the segments */
    struct td_workspace workspace; /* converted rows of a chunk, for each thread */
    /* True if an unsorted id is out of bounds. Relaxed accesses are enough, because the end of
     * td_exec_for publishes the value. */
    atomic_bool outside;
};

/* ---- Loops ------------------------------------------------------------------------------- */

/* Loops for products of complex numbers, which need no counts. They are not built for each
 * instruction set, because GCC 12 then uses fused multiply-adds in spite of -ffp-contract=off. */
#define COMPLEX_PRODUCTS(name, type)                                                               \
    static bool name(const struct td_segment_batch *batch)                                         \
    {                                                                                              \
        bool valid = true;                                                                         \
        for (int64_t i = 0; i < batch->n_picked; i++) {                                            \
            const int64_t segment = batch->segments[batch->picked[i]];                             \
            const type(*restrict from)[2] =                                                        \
                (const void *)(batch->data + batch->picked[i] * batch->row_bytes);                 \
            if (segment < 0 || segment >= batch->n_segments) {                                     \
                valid = valid && segment < 0;                                                      \
                continue;                                                                          \
            }                                                                                      \
            type(*restrict to)[2] = (void *)(batch->sums + (size_t)segment * batch->sums_bytes);   \
            for (int64_t c = 0; c < batch->columns; c++) {                                         \
                const type re = to[c][0] * from[c][0] - to[c][1] * from[c][1];                     \
                to[c][1] = to[c][0] * from[c][1] + to[c][1] * from[c][0];                          \
                to[c][0] = re;                                                                     \
            }                                                                                      \
        }                                                                                          \
        return valid;                                                                              \
    }
COMPLEX_PRODUCTS(products_C64, float)
COMPLEX_PRODUCTS(products_C128, double)

static const struct td_segment_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_segment_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_segment_loops_avx2;
#endif
    (void)isa;
    return &td_segment_loops_generic;
}

static td_segment_fn *find_loop(td_segment_reduction reduction, td_dtype dtype, td_isa isa)
{
    static const td_segment_combination combinations[] = {
        [TD_SEGMENT_SUM] = TD_SEGMENT_SUMS,      [TD_SEGMENT_MEAN] = TD_SEGMENT_SUMS,
        [TD_SEGMENT_MAX] = TD_SEGMENT_LARGEST,   [TD_SEGMENT_MIN] = TD_SEGMENT_SMALLEST,
        [TD_SEGMENT_PROD] = TD_SEGMENT_PRODUCTS,
    };
    if (reduction == TD_SEGMENT_PROD && td_dtype_is_complex(dtype))
        return dtype == TD_DTYPE_COMPLEX64 ? products_C64 : products_C128;
    return loops_of(isa)->loop[combinations[reduction]][type_of(dtype)];
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* Memory for one chunk, on the stack of add_range. */
struct chunk {
    int64_t segments[TD_ROWS_CHUNK];
    uint16_t all[TD_ROWS_CHUNK]; /* 0, 1, 2, ... */
    uint16_t picked[TD_ROWS_CHUNK];
    char *wide; /* scratch memory for converted rows */
};

/* Records that an unsorted id is out of bounds. */
static void set_outside(struct job *job)
{
    atomic_store_explicit(&job->outside, true, memory_order_relaxed);
}

/* Picks the rows of a chunk that belong to a part of the window's segments. The first part checks
 * that all ids are in bounds. */
static void pick(struct job *job, struct chunk *chunk, int64_t at, int64_t n, int64_t part,
                 struct td_segment_batch *batch)
{
    bool negative;
    batch->picked = chunk->picked;
    batch->n_picked = td_rows_pick(chunk->segments, n, &job->parts, part, chunk->picked);
    if (part == 0 && job->first == 0 &&
        !td_rows_all_below(job->call->ids, at, at + n, job->plan.n_segments, &negative))
        set_outside(job);
}

/* Finds the segments of the rows [at, at + n), counted from the first segment of the window, and
 * the rows that belong to a part. */
static void find_segments(struct job *job, struct chunk *chunk, int64_t at, int64_t n, int64_t part,
                          struct td_segment_batch *batch)
{
    const struct td_tensor *ids = job->call->ids;
    batch->all =
        job->call->sorted || (job->parts.n_parts == 1 && job->count == job->plan.n_segments);
    batch->picked = chunk->all;
    batch->n_picked = n;
    batch->n_segments = job->count;
    batch->segments = chunk->segments;
    if (ids->dtype == TD_DTYPE_INT64 && batch->all && job->first == 0)
        batch->segments = (const int64_t *)ids->data + at;
    else
        td_rows_resolve_indices(ids, at, n, job->plan.n_segments, TD_BOUNDS_ERROR, chunk->segments);
    if (!batch->all)
        pick(job, chunk, at, n, part, batch);
    for (int64_t k = 0; job->first > 0 && k < n; k++)
        chunk->segments[k] -= job->first;
}

/* Converts the picked rows of a chunk, each to its place in chunk->wide. */
static void widen(const struct job *job, const struct chunk *chunk, int64_t n,
                  struct td_segment_batch *batch)
{
    const char *from = batch->data;
    const size_t wide_bytes = (size_t)(batch->columns * job->plan.size);
    if (batch->n_picked == n && batch->columns == job->plan.columns) {
        job->widen(chunk->wide, from, 1, n * batch->columns);
    } else {
        for (int64_t i = 0; i < batch->n_picked; i++)
            job->widen(chunk->wide + batch->picked[i] * wide_bytes,
                       from + batch->picked[i] * job->data_bytes, 1, batch->columns);
    }
    batch->data = chunk->wide;
    batch->row_bytes = wide_bytes;
}

/* Larger sums are assumed not to fit in the L2 cache. */
#define L2_BYTES   ((int64_t)1024 * 1024)
/* Number of rows by which the prefetch of a segment's sums then precedes their use. */
#define AHEAD      16
#define LINE_BYTES ((int64_t)64)

/* Adds the rows [at, at + n) of a part to one block of columns. */
static void add_chunk(struct job *job, struct chunk *chunk, int64_t at, int64_t n, int64_t part,
                      int64_t block)
{
    const int64_t column = block * job->block;
    const size_t size = job->data_bytes / (size_t)job->plan.columns;
    struct td_segment_batch batch = {
        .data = (const char *)job->call->data->data + (size_t)at * job->data_bytes +
                (size_t)column * size,
        .row_bytes = job->data_bytes,
        .columns = td_smaller(job->block, job->plan.columns - column),
        .sums = job->sums + column * job->plan.size,
        .sums_bytes = (size_t)job->plan.row_bytes,
        .counts = block == 0 ? job->counts : NULL,
        .ahead = job->count * job->plan.row_bytes > L2_BYTES ? AHEAD : 0,
    };
    find_segments(job, chunk, at, n, part, &batch);
    if (job->widen)
        widen(job, chunk, n, &batch);
    if (!job->loop(&batch))
        set_outside(job);
}

/* Returns the first row of a part of sorted rows. All rows of a segment belong to one part. */
static int64_t part_begin(const struct job *job, int64_t part)
{
    const struct td_tensor *ids = job->call->ids;
    const int64_t at = job->begin + (job->end - job->begin) / job->n_parts * part;
    if (part == job->n_parts)
        return job->end;
    if (part == 0 || td_tensor_index_at(ids, at) != td_tensor_index_at(ids, at - 1))
        return at;
    return td_smaller(td_rows_order_find(ids, at, td_tensor_index_at(ids, at) + 1), job->end);
}

/* Adds rows to sums. Item i is block i % n_blocks of part i / n_blocks. */
static void add_range(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    struct chunk chunk;
    const int thread = job->widen ? td_workspace_acquire(&job->workspace) : 0;
    chunk.wide = job->widen ? td_workspace_scratch(&job->workspace, thread) : NULL;
    for (int k = 0; k < TD_ROWS_CHUNK; k++)
        chunk.all[k] = (uint16_t)k;
    for (int64_t item = begin; item < end; item++) {
        const int64_t part = item / job->n_blocks, block = item % job->n_blocks;
        const bool sorted = job->call->sorted;
        const int64_t last = sorted ? part_begin(job, part + 1) : job->end;
        for (int64_t at = sorted ? part_begin(job, part) : job->begin; at < last; at += job->chunk)
            add_chunk(job, &chunk, at, td_smaller(job->chunk, last - at), part, block);
    }
    if (job->widen)
        td_workspace_release(&job->workspace, thread);
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Number of bytes of rows between two checks of the deadline, if one thread must add all of them:
 * STEP_BYTES for each thread, but at most MOST_BYTES. */
#define STEP_BYTES ((int64_t)4 * 1024 * 1024)
#define MOST_BYTES ((int64_t)32 * 1024 * 1024)

/* Returns the bytes of a row, or the bytes that take as long as the row if it is narrow. */
static int64_t row_cost(const struct job *job)
{
    return td_larger((int64_t)job->data_bytes, TD_ROWS_NARROW);
}

/* Minimum number of bytes of a row in a block of columns, if threads share rows. The processor
 * prefetches neighbouring lines, which another thread reads: two threads took 32 ms to add a
 * million rows of 256 bytes in halves, and 16 ms to add whole rows (bench_segments, Xeon with
 * AMX). Rows of a few segments are shared nevertheless, because there is no other split. */
#define SHARED_BYTES     ((int64_t)4096)
#define SHARED_BYTES_FEW ((int64_t)512)

/* Splits the columns of rows that belong to n_segments segments into blocks: one for each of up to
 * `width` threads if the rows are wide enough. */
static void split_columns(struct job *job, int64_t n_segments, int64_t width)
{
    const int64_t size = job->plan.size, row_bytes = job->plan.row_bytes;
    const int64_t least = n_segments < 4 * width ? SHARED_BYTES_FEW : SHARED_BYTES;
    const int64_t n = td_larger(1, td_smaller(width, row_bytes / least));
    const int64_t even = td_round_up(td_ceil_div(job->plan.columns, n), LINE_BYTES / size);
    job->block = td_smaller(even, BLOCK_BYTES / size);
    job->n_blocks = td_ceil_div(job->plan.columns, job->block);
    job->chunk = td_smaller(TD_ROWS_CHUNK, CHUNK_BYTES / (job->block * size));
}

/* Splits sorted rows into parts of about 128 KiB. */
static void split_sorted(struct job *job, int64_t width)
{
    const struct td_tensor *ids = job->call->ids;
    const int64_t n_segments =
        td_tensor_index_at(ids, job->end - 1) - td_tensor_index_at(ids, job->begin) + 1;
    split_columns(job, n_segments, width);
    job->n_parts = td_ceil_div(job->end - job->begin, td_rows_in_range(job->data_bytes));
}

/* Fewer bytes of unsorted rows are added by one thread. */
#define PARALLEL_BYTES ((int64_t)512 * 1024)
/* Narrower unsorted rows are added by one thread if the sums fit in the L2 cache, because picking a
 * row takes about as long as adding it. */
#define CHEAP_BYTES    ((size_t)64)
/* Parts of the segments are made of pages, unless there are only a few pages. The processor
 * prefetches lines of the page that it writes, and if another thread writes these lines, both
 * threads wait: with parts of 64 bytes, the sums of 4 columns took 5.7 ms instead of 2.0
 * (bench_segments, a million rows, Xeon with AMX). */
#define PAGE_BYTES     ((int64_t)4096)

/* Splits the segments of unsorted rows into parts. Each part reads all ids, which costs less than
 * sorting the rows by part first. */
static void split_unsorted(struct job *job, int64_t width)
{
    const int64_t bytes = job->count * job->plan.row_bytes;
    const bool is_small = (job->end - job->begin) * row_cost(job) < PARALLEL_BYTES;
    const bool is_cheap = job->data_bytes < CHEAP_BYTES && bytes <= L2_BYTES;
    split_columns(job, job->count, is_small ? 1 : width);
    job->n_parts =
        is_small || is_cheap ? 1 : td_smaller(job->count, td_ceil_div(width, job->n_blocks));
    td_row_parts_init(
        &job->parts, job->first, job->count, (size_t)job->plan.row_bytes,
        (size_t)td_larger(LINE_BYTES, td_smaller(PAGE_BYTES, bytes / (8 * job->n_parts))),
        job->n_parts);
}

/* Adds the rows [begin, end). */
static td_status add_rows(struct job *job, int64_t begin, int64_t end, struct td_exec *exec,
                          struct td_error *err)
{
    const int64_t width = td_smaller(exec->width, MOST_BYTES / STEP_BYTES);
    const int64_t bytes = job->call->sorted ? MOST_BYTES : width * STEP_BYTES;
    const int64_t step = td_larger(1, bytes / row_cost(job));
    td_status status = TD_OK;
    for (job->begin = begin; job->begin < end && status == TD_OK; job->begin = job->end) {
        job->end = job->begin + td_smaller(end - job->begin, step);
        if (job->call->sorted)
            split_sorted(job, exec->width);
        else
            split_unsorted(job, width);
        status = td_exec_for(exec, job->n_parts * job->n_blocks, 1, add_range, job, err);
    }
    return status;
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Number of sums in a range that is set or finished. */
#define SUMS_GRAIN ((int64_t)16 * 1024)

static void start_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    fill(job->sums + begin * job->plan.size, &job->start, job->plan.size, end - begin);
}

static void start_counts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    memset(job->counts + begin, 0, (size_t)(end - begin) * sizeof(job->counts[0]));
}

#define DIVIDE(type)                                                                               \
    for (int64_t c = 0; c < n; c++)                                                                \
    ((type *)sums)[c] /= (type)count

/* Finishes n sums of a segment with `count` rows. */
static void finish_segment(const struct job *job, void *sums, int64_t count, int64_t n)
{
    if (count == 0)
        fill(sums, &job->gap, job->plan.size, n);
    else if (job->call->reduction == TD_SEGMENT_MEAN && job->plan.type == TD_SEGMENT_F32)
        DIVIDE(float);
    else if (job->call->reduction == TD_SEGMENT_MEAN)
        DIVIDE(double);
}

/* Finishes the sums [begin, end), counted from the first sum of the window. */
static void finish_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t columns = job->plan.columns, size = job->plan.size;
    int64_t segment = begin / columns;
    for (int64_t at = begin, next; job->counts && at < end; at = next, segment++) {
        next = td_smaller((segment + 1) * columns, end);
        finish_segment(job, job->sums + at * size, job->counts[segment], next - at);
    }
    if (job->narrow) {
        const size_t to = (size_t)(job->first * columns + begin);
        job->narrow((char *)job->call->out->data + to * td_dtype_info(job->call->out->dtype)->size,
                    1, job->sums + begin * size, end - begin);
    }
}

/* Computes the segments [first, first + count). */
static td_status run_window(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_segment_call *call = job->call;
    const int64_t n = job->count * job->plan.columns;
    int64_t begin = 0, end = job->plan.n_rows;
    if (job->plan.native)
        job->sums = (char *)call->out->data + job->first * job->plan.row_bytes;
    td_status status = td_exec_for(exec, n, SUMS_GRAIN, start_range, job, err);
    if (status == TD_OK && job->counts)
        status = td_exec_for(exec, job->count, SUMS_GRAIN, start_counts, job, err);
    if (call->sorted && job->count < job->plan.n_segments && end > 0) {
        begin = td_rows_order_find(call->ids, 0, job->first);
        end = td_rows_order_find(call->ids, begin, job->first + job->count);
    }
    if (status == TD_OK)
        status = add_rows(job, begin, end, exec, err);
    if (status == TD_OK && (job->counts || job->narrow))
        status = td_exec_for(exec, n, SUMS_GRAIN, finish_range, job, err);
    return status;
}

static td_status alloc(struct job *job, struct td_exec *exec, struct td_error *err)
{
    struct td_workspace *workspace = &job->workspace;
    if (job->plan.counts)
        job->counts =
            td_arena_alloc(exec->arena, (size_t)job->plan.window, sizeof(job->counts[0]), err);
    if (job->plan.counts && !job->counts)
        return err->status;
    if (job->plan.native)
        return TD_OK;
    workspace->n_threads = (int)td_smaller(exec->width, TD_WORKSPACE_MAX_THREADS);
    workspace->scratch_bytes = (size_t)CHUNK_BYTES;
    workspace->shared = td_arena_alloc(
        exec->arena,
        (size_t)(sums_bytes(&job->plan) + (uint64_t)(workspace->n_threads * CHUNK_BYTES)), 1, err);
    if (!workspace->shared)
        return err->status;
    workspace->scratch = workspace->shared + sums_bytes(&job->plan);
    job->sums = workspace->shared;
    return TD_OK;
}

td_status td_segments_reduce(const struct td_segment_call *call, bool *outside,
                             struct td_exec *exec, struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    const td_dtype dtype = call->data->dtype;
    struct job job = { .call = call, .plan = plan_of(call), .outside = false };
    if (job.plan.n_segments == 0)
        return TD_OK;
    job.loop = find_loop(call->reduction, dtype, isa);
    job.widen = job.plan.native ? NULL : td_widen(dtype, isa);
    job.narrow = job.plan.native ? NULL : td_narrow(dtype, isa);
    job.start = stored_value(dtype, first_value(call->reduction));
    job.gap = stored_value(dtype, gap_value(call));
    job.data_bytes = (size_t)(call->out->numel / job.plan.n_segments) * td_dtype_info(dtype)->size;
    td_status status = alloc(&job, exec, err);
    for (; status == TD_OK && job.first < job.plan.n_segments; job.first += job.count) {
        job.count = td_smaller(job.plan.window, job.plan.n_segments - job.first);
        status = run_window(&job, exec, err);
    }
    *outside = atomic_load_explicit(&job.outside, memory_order_relaxed);
    return status;
}
