#include "kernels/dynamic_stitch/stitch_rows.h"

#include "kernels/integers.h"
#include "kernels/rows/rows.h"

#include <string.h>

/* ---- Iteration over the rows of the input ------------------------------------------------ */

/* Rows [begin, begin + n) of data[tensor]. */
struct chunk {
    int tensor;
    int64_t begin, n;
};

/* Returns the tensor that contains input row `row`. If tensors without rows precede that tensor,
 * the result can be one of them. */
static int tensor_of(const struct td_dynamic_stitch_geometry *geometry, int64_t row)
{
    int low = 0, high = geometry->n_tensors;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (geometry->first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Sets *chunk to the next rows of [*begin, end) that are in the same tensor, and advances *begin.
 * Returns false if no rows are left. The caller initialises chunk->tensor with tensor_of. */
static bool next_chunk(const struct td_stitch *job, int64_t *begin, int64_t end,
                       struct chunk *chunk)
{
    const int64_t *first = job->geometry->first;
    if (*begin >= end)
        return false;
    while (first[chunk->tensor + 1] <= *begin)
        chunk->tensor++;
    int64_t last = td_smaller(first[chunk->tensor + 1], end);
    chunk->begin = *begin - first[chunk->tensor];
    chunk->n = last - *begin;
    *begin = last;
    return true;
}

/* Calls next_chunk for at most TD_ROWS_CHUNK rows, and sets rows[k] to the output row of row k of
 * the chunk. */
static bool next_rows(const struct td_stitch *job, int64_t *begin, int64_t end, struct chunk *chunk,
                      int64_t *rows)
{
    if (!next_chunk(job, begin, td_smaller(end, *begin + TD_ROWS_CHUNK), chunk))
        return false;
    /* Only widens the indices, because infer has already checked them. */
    td_rows_resolve_indices(&job->indices[chunk->tensor], chunk->begin, chunk->n, INT64_MAX,
                            TD_BOUNDS_ERROR, rows);
    return true;
}

static const char *chunk_data(const struct td_stitch *job, const struct chunk *chunk)
{
    return (const char *)job->data[chunk->tensor].data + (size_t)chunk->begin * job->row_bytes;
}

/* Number of input bytes between two checks of the deadline, a few milliseconds of work. */
#define STEP_BYTES ((size_t)4 * 1024 * 1024)

/* Calls fn for all input rows, in order, on this thread. A row counts as row_bytes bytes. */
static td_status for_input_in_order(struct td_stitch *job, td_range_fn *fn, size_t row_bytes,
                                    struct td_exec *exec, struct td_error *err)
{
    size_t row_cost = row_bytes > TD_ROWS_NARROW ? row_bytes : TD_ROWS_NARROW;
    int64_t step = (int64_t)(STEP_BYTES / row_cost), n = job->n_in;
    for (int64_t begin = 0; n - begin > step; begin += step) {
        fn(job, begin, begin + step);
        td_status status = td_exec_check(exec, err);
        if (status != TD_OK)
            return status;
    }
    fn(job, (n - 1) / step * step, n);
    return TD_OK;
}

/* Calls fn for n rows of the input or output, in parallel if there are enough rows. */
static td_status for_rows(struct td_stitch *job, td_range_fn *fn, int64_t n, struct td_exec *exec,
                          struct td_error *err)
{
    if (!td_stitch_is_parallel(job, n)) {
        fn(job, 0, n);
        return TD_OK;
    }
    return td_exec_for(exec, n, td_rows_in_range(job->row_bytes), fn, job, err);
}

/* Writes rows of the input to the output. */
static void scatter_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    struct chunk chunk = { .tensor = tensor_of(job->geometry, begin) };
    while (next_chunk(job, &begin, end, &chunk))
        td_rows_scatter(job->out->data, &job->indices[chunk.tensor], chunk.begin, chunk.n,
                        chunk_data(job, &chunk), job->row_bytes, job->stream,
                        job->mark_written ? job->marks : NULL);
}

/* ---- Rows of the output that no index names ---------------------------------------------- */

/* Number of bytes that one range sets to zero. Writing zeros is several times as fast as copying
 * rows. */
#define ZERO_RANGE_BYTES ((size_t)1024 * 1024)

static void zero_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    memset((char *)job->out->data + (size_t)begin * job->row_bytes, 0,
           (size_t)(end - begin) * job->row_bytes);
}

/* Sets unmarked rows to zero. */
static void zero_unmarked_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    int64_t unmarked[TD_ROWS_CHUNK];
    while (begin < end) {
        int64_t stop = end - begin < TD_ROWS_CHUNK ? end : begin + TD_ROWS_CHUNK, n = 0;
        for (; begin < stop; begin++) {
            unmarked[n] = begin;
            n += !job->marks[begin];
        }
        td_rows_zero(job->out->data, unmarked, job->row_bytes, n, job->stream);
    }
}

static td_status alloc_marks(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    job->marks = td_arena_alloc(exec->arena, td_stitch_scratch_bytes(job), 1, err);
    if (!job->marks)
        return err->status;
    memset(job->marks, 0, td_stitch_marks_bytes(job));
    return TD_OK;
}

static void mark_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    struct chunk chunk = { .tensor = tensor_of(job->geometry, begin) };
    while (next_chunk(job, &begin, end, &chunk))
        td_rows_mark(&job->indices[chunk.tensor], chunk.begin, chunk.n, job->marks);
}

/* Returns the sum of n bytes, each 0 or 1. n must be a multiple of 8. */
static int64_t sum_marks(const uint8_t *marks, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight;
        memcpy(&eight, marks + i, 8);
        sum += (int64_t)(eight * UINT64_C(0x0101010101010101) >> 56);
    }
    return sum;
}

/* Fills job->marks and sets *n_marked to the number of marked rows. Runs on one thread, because two
 * threads writing to the whole table would contend for its cache lines and be slower than one
 * (tests/bench/bench_stitch). They would also fill last_row in the wrong order. */
static td_status mark_rows(struct td_stitch *job, int64_t *n_marked, struct td_exec *exec,
                           struct td_error *err)
{
    td_status status = alloc_marks(job, exec, err);
    if (status == TD_OK)
        status = for_input_in_order(job, mark_range, sizeof(job->marks[0]), exec, err);
    if (status == TD_OK)
        *n_marked = sum_marks(job->marks, td_stitch_marks_bytes(job));
    return status;
}

/* ---- The last of equal indices ----------------------------------------------------------- */

static void store_last_range(void *context, int64_t begin, int64_t end)
{
    struct td_stitch *job = context;
    struct chunk chunk = { .tensor = tensor_of(job->geometry, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_rows(job, &begin, end, &chunk, rows)) {
        uint32_t number = (uint32_t)(job->geometry->first[chunk.tensor] + chunk.begin);
        for (int64_t k = 0; k < chunk.n; k++)
            job->last_row[rows[k]] = number++;
    }
}

/* Writes each input row that is the last with its index. */
static void scatter_last_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    struct chunk chunk = { .tensor = tensor_of(job->geometry, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_rows(job, &begin, end, &chunk, rows)) {
        uint32_t number = (uint32_t)(job->geometry->first[chunk.tensor] + chunk.begin);
        uint16_t picked[TD_ROWS_CHUNK];
        int64_t n = 0;
        for (int64_t k = 0; k < chunk.n; k++) {
            picked[n] = (uint16_t)k;
            n += job->last_row[rows[k]] == number++;
        }
        td_rows_scatter_picked(job->out->data, rows, chunk_data(job, &chunk), job->row_bytes,
                               picked, n, job->stream);
    }
}

static td_status scatter_last(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    /* last_row reuses the memory of marks, which is no longer needed. Entries of rows that no index
     * selects are never read. */
    job->last_row = (uint32_t *)(void *)job->marks;
    td_status status =
        for_input_in_order(job, store_last_range, sizeof(job->last_row[0]), exec, err);
    return status == TD_OK ? for_rows(job, scatter_last_range, job->n_in, exec, err) : status;
}

/* ---- Strategies -------------------------------------------------------------------------- */

static td_status run_zero_first(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    int64_t grain = (int64_t)(ZERO_RANGE_BYTES / job->row_bytes);
    td_status status = td_exec_for(exec, job->n_out, grain, zero_range, job, err);
    return status == TD_OK ? for_input_in_order(job, scatter_range, job->row_bytes, exec, err)
                           : status;
}

/* Sets marks while writing rows, which costs nothing because the copies wait for the cache. The
 * last of several rows with equal indices is written last and therefore remains. */
static td_status run_serial(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    td_status status = alloc_marks(job, exec, err);
    if (status != TD_OK)
        return status;
    job->mark_written = true;
    status = for_input_in_order(job, scatter_range, job->row_bytes, exec, err);
    if (status != TD_OK || !memchr(job->marks, 0, (size_t)job->n_out))
        return status;
    return for_rows(job, zero_unmarked_range, job->n_out, exec, err);
}

static td_status run_parallel(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    int64_t n_marked = 0;
    td_status status = mark_rows(job, &n_marked, exec, err);
    if (status == TD_OK && n_marked < job->n_out)
        status = for_rows(job, zero_unmarked_range, job->n_out, exec, err);
    if (status != TD_OK)
        return status;
    if (n_marked == job->n_in) /* no two indices are equal */
        return for_rows(job, scatter_range, job->n_in, exec, err);
    return scatter_last(job, exec, err);
}

static void clear_string_rows_range(void *context, int64_t begin, int64_t end)
{
    struct td_stitch *job = context;
    memset(job->string_rows + begin, 0, (size_t)(end - begin) * sizeof(job->string_rows[0]));
}

static void record_string_rows_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    const int64_t row_numel = job->geometry->row_numel;
    struct chunk chunk = { .tensor = tensor_of(job->geometry, begin) };
    int64_t rows[TD_ROWS_CHUNK];
    while (next_rows(job, &begin, end, &chunk, rows)) {
        const struct td_tensor *data = &job->data[chunk.tensor];
        const uint64_t *offsets = data->offsets + chunk.begin * row_numel;
        for (int64_t k = 0; k < chunk.n; k++, offsets += row_numel)
            job->string_rows[rows[k]] = (struct td_string_row){ offsets, data->data };
    }
}

static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct td_stitch *job = context;
    (void)n;
    (void)rows;
    return job->string_rows + begin;
}

static td_status run_strings(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    const size_t size = sizeof(job->string_rows[0]);
    job->string_rows = td_arena_alloc(exec->arena, (size_t)job->n_out, size, err);
    if (!job->string_rows)
        return err->status;
    int64_t grain = (int64_t)(ZERO_RANGE_BYTES / size);
    td_status status = td_exec_for(exec, job->n_out, grain, clear_string_rows_range, job, err);
    if (status == TD_OK)
        status = for_input_in_order(job, record_string_rows_range, size, exec, err);
    if (status != TD_OK)
        return status;
    struct td_strings strings = {
        .out = job->out,
        .n_rows = job->n_out,
        .row_numel = job->geometry->row_numel,
        .rows = string_rows,
        .context = job,
    };
    return td_strings_run(&strings, exec, err);
}

/* Copies parts of rows. Work item i is part i % parts of output row i / parts. */
static void row_parts_range(void *context, int64_t begin, int64_t end)
{
    const struct td_stitch *job = context;
    int64_t parts = td_rows_parts(job->row_bytes);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item / parts;
        td_rows_copy_part((char *)job->out->data + (size_t)row * job->row_bytes,
                          job->row_sources[row], job->row_bytes, item % parts);
    }
}

static td_status run_large_rows(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    const size_t n_out = (size_t)job->n_out;
    job->row_sources = td_arena_alloc(exec->arena, n_out, sizeof(job->row_sources[0]), err);
    if (!job->row_sources)
        return err->status;
    memset(job->row_sources, 0, n_out * sizeof(job->row_sources[0]));
    struct chunk chunk = { .tensor = 0 };
    int64_t rows[TD_ROWS_CHUNK];
    for (int64_t begin = 0; next_rows(job, &begin, job->n_in, &chunk, rows);)
        for (int64_t k = 0; k < chunk.n; k++)
            job->row_sources[rows[k]] = chunk_data(job, &chunk) + (size_t)k * job->row_bytes;
    return td_exec_for(exec, job->n_out * td_rows_parts(job->row_bytes), 1, row_parts_range, job,
                       err);
}

td_status td_stitch_run(struct td_stitch *job, struct td_exec *exec, struct td_error *err)
{
    switch (job->strategy) {
    case TD_STITCH_ZERO_FIRST:
        return run_zero_first(job, exec, err);
    case TD_STITCH_SERIAL:
        return run_serial(job, exec, err);
    case TD_STITCH_PARALLEL:
        return run_parallel(job, exec, err);
    case TD_STITCH_STRINGS:
        return run_strings(job, exec, err);
    case TD_STITCH_LARGE_ROWS:
        return run_large_rows(job, exec, err);
    case TD_STITCH_EMPTY:
        break;
    }
    return TD_OK;
}
