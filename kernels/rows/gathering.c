#include "kernels/rows/gathering.h"

#include "kernels/convert/cast_path.h"
#include "kernels/prefetch.h"
#include "kernels/rows/strings.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

td_status td_gathering_refuse_scalar(const char *input, struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT, "%s is a scalar; expected at least one dimension",
                 input);
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", input);
}

td_status td_gathering_shapes_at_fault(struct td_error *err, const struct td_shape *params,
                                       const struct td_shape *indices)
{
    td_error_add_shape(err, "params", params);
    td_error_add_shape(err, "indices", indices);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "indices");
}

td_status td_gathering_refuse_flat(struct td_error *err, const struct td_shape *params,
                                   const struct td_shape *indices)
{
    char text[TD_SHAPE_TEXT];
    const int64_t n = indices->dim[0];
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "indices has shape %s, which is one tuple of %" PRId64
                 " positions; to select rows by number, pass "
                 "indices of shape [%" PRId64 ",1], one tuple per row: [[i], [j], ...]",
                 td_shape_text(indices, text, sizeof(text)), n, n);
    return td_gathering_shapes_at_fault(err, params, indices);
}

td_status td_gathering_check_batch(const struct td_shape *params, const struct td_shape *indices,
                                   int batch_dims, struct td_error *err)
{
    for (int i = 0; i < batch_dims; i++) {
        if (params->dim[i] == indices->dim[i])
            continue;
        char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "batch dimension %d is %" PRId64 " in params %s and %" PRId64
                     " in indices %s; the sizes must be equal",
                     i, params->dim[i], td_shape_text(params, text, sizeof(text)), indices->dim[i],
                     td_shape_text(indices, more, sizeof(more)));
        return td_gathering_shapes_at_fault(err, params, indices);
    }
    return TD_OK;
}

void td_gathering_tuple_space(const struct td_shape *params, int first_dim, int depth,
                              struct td_tuple_space *space)
{
    *space = (struct td_tuple_space){ .depth = depth };
    for (int c = 0; c < depth; c++) {
        space->bound[c] = params->dim[first_dim + c];
        (void)td_shape_product(params, first_dim + c + 1, first_dim + depth, &space->stride[c]);
    }
}

td_status td_gathering_output(struct td_op_args *args, td_dtype dtype,
                              const struct td_gathering_part *parts, int n_parts,
                              struct td_arena *arena, struct td_error *err)
{
    struct td_shape shape = { .rank = 0 };
    int rank = 0;
    for (int i = 0; i < n_parts; i++)
        rank += parts[i].end - parts[i].begin;
    if (rank > TD_MAX_RANK)
        return td_error_resource(err, "rank", (uint64_t)rank, TD_MAX_RANK, "output");
    for (int i = 0; i < n_parts; i++)
        (void)td_shape_append(&shape, parts[i].shape, parts[i].begin, parts[i].end);

    return td_op_output(args, dtype, &shape, arena, err);
}

/* Returns a * b / c for c > 0, at most 1e18. Uses floating point, because the result is only an
 * estimate. */
static uint64_t scaled(size_t a, int64_t b, int64_t c)
{
    double value = (double)a * (double)b / (double)c;
    return value < 1e18 ? (uint64_t)value : (uint64_t)1e18;
}

struct td_cost td_gathering_copy_cost(const struct td_tensor *params, const struct td_tensor *out,
                                      int64_t row_numel)
{
    struct td_cost cost = { 0 };
    if (out->numel == 0)
        return cost;
    cost.bytes_written = td_tensor_footprint(out);
    cost.random_reads = (uint64_t)(out->numel / row_numel);
    if (out->dtype == TD_DTYPE_STRING) {
        /* Assumes strings of average size. Each row costs three random reads: its offsets in each
         * of two passes, and its bytes. */
        if (params->numel > 0)
            cost.bytes_written += scaled(params->bytes, out->numel, params->numel);
        cost.random_reads *= 3;
    }
    cost.bytes_read = cost.bytes_written;
    if (out->dtype != params->dtype) {
        cost.bytes_read = scaled(td_dtype_info(params->dtype)->size, out->numel, 1);
        cost.flops = (uint64_t)out->numel;
    }
    return cost;
}

struct td_cost td_gathering_cost(const struct td_op_args *args, int64_t row_numel)
{
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    struct td_cost cost = td_gathering_copy_cost(params, &args->outputs[0], row_numel);
    cost.bytes_read += indices->bytes;
    return cost;
}

void td_gathering_add_slice_offsets(int64_t *rows, int64_t n, int64_t begin, int64_t slice_out,
                                    int64_t slice_rows)
{
    int64_t slice = begin / slice_out, left = slice_out - begin % slice_out;
    if (slice == 0 && left >= n)
        return; /* all rows are in the first slice, which starts at row 0 */
    int64_t base = slice * slice_rows;
    for (int64_t k = 0; k < n; left = slice_out, base += slice_rows)
        for (; left > 0 && k < n; left--, k++)
            if (rows[k] != TD_ROW_ZERO)
                rows[k] += base;
}

/* Returns the row that replaces TD_ROW_ZERO in row k of the output. */
static const char *zero_row_of(const struct td_gathering *job, int64_t k, size_t row_bytes)
{
    return (const char *)job->zero_row->data + (size_t)(k * job->zero_step) * row_bytes;
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gathering *job = context;
    size_t row_bytes = (size_t)job->row_numel * td_dtype_info(job->out->dtype)->size;
    int64_t space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const int64_t *rows = job->rows(job->context, k, n, space);
        char *to = (char *)job->out->data + (size_t)k * row_bytes;
        td_rows_copy(to, job->table, row_bytes, rows, n, job->may_be_zero);
        for (int64_t j = 0; job->zero_row && j < n; j++)
            if (rows[j] == TD_ROW_ZERO)
                memcpy(to + (size_t)j * row_bytes, zero_row_of(job, k + j, row_bytes), row_bytes);
    }
}

/* ---- Casting ----------------------------------------------------------------------------- */

struct casting {
    const struct td_gathering *gathering;
    struct td_cast_path path;
    size_t from_size, to_size; /* bytes per element */
    int64_t part;              /* number of elements of a row that are cast at a time */
    int64_t parts;             /* parts per row */
    bool aligned;              /* true if the table is aligned to its dtype */
};

/* Runs the cast path on elements that need not be aligned. */
static void cast_unaligned(const struct casting *job, char *to, const char *from, int64_t n)
{
    _Alignas(64) char block[TD_CAST_BLOCK * 16]; /* sized for complex128 */
    for (int64_t at = 0; at < n; at += TD_CAST_BLOCK) {
        const int64_t count = n - at < TD_CAST_BLOCK ? n - at : TD_CAST_BLOCK;
        memcpy(block, from + (size_t)at * job->from_size, (size_t)count * job->from_size);
        td_cast_path_run(&job->path, to + (size_t)at * job->to_size, block, count);
    }
}

/* Casts part `part` of table row `row` to output row k. */
static void cast_part(const struct casting *job, int64_t k, int64_t row, int64_t part)
{
    const int64_t row_numel = job->gathering->row_numel, at = part * job->part;
    const int64_t n = row_numel - at < job->part ? row_numel - at : job->part;
    char *to = (char *)job->gathering->out->data + (size_t)(k * row_numel + at) * job->to_size;
    const char *table = job->gathering->table->data;
    if (row == TD_ROW_ZERO) {
        memset(to, 0, (size_t)n * job->to_size);
        return;
    }
    const char *from = table + (size_t)(row * row_numel + at) * job->from_size;
    if (job->aligned)
        td_cast_path_run(&job->path, to, from, n);
    else
        cast_unaligned(job, to, from, n);
}

static void cast_range(void *context, int64_t begin, int64_t end)
{
    const struct casting *job = context;
    const struct td_gathering *gathering = job->gathering;
    const size_t row_bytes = (size_t)gathering->row_numel * job->from_size;
    const int64_t ahead = td_prefetch_ahead(gathering->table->bytes, row_bytes);
    int64_t space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        const int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const int64_t *rows = gathering->rows(gathering->context, k, n, space);
        for (int64_t j = 0; j < n; j++) {
            if (ahead > 0 && j + ahead < n)
                td_prefetch_row((uintptr_t)gathering->table->data +
                                    (size_t)rows[j + ahead] * row_bytes,
                                row_bytes);
            cast_part(job, k + j, rows[j], 0);
        }
    }
}

/* Casts parts of rows. Work item i is part i % parts of row i / parts. */
static void cast_part_range(void *context, int64_t begin, int64_t end)
{
    const struct casting *job = context;
    for (int64_t item = begin; item < end; item++) {
        const int64_t k = item / job->parts;
        int64_t space;
        const int64_t row = *job->gathering->rows(job->gathering->context, k, 1, &space);
        cast_part(job, k, row, item % job->parts);
    }
}

static td_status cast_rows(const struct td_gathering *gathering, struct td_exec *exec,
                           struct td_error *err)
{
    const td_dtype from = gathering->table->dtype, to = gathering->out->dtype;
    struct casting job = {
        .gathering = gathering,
        .from_size = td_dtype_info(from)->size,
        .to_size = td_dtype_info(to)->size,
        .aligned = td_tensor_is_aligned(gathering->table),
    };
    const size_t size = job.from_size > job.to_size ? job.from_size : job.to_size;
    td_cast_path_find(&job.path, from, to, td_isa_resolve(exec->isa));
    job.part = (int64_t)(TD_ROWS_RANGE_BYTES / size);
    job.parts = (gathering->row_numel - 1) / job.part + 1;
    if (job.parts > 1)
        return td_exec_for(exec, gathering->n_rows * job.parts, 1, cast_part_range, &job, err);
    return td_exec_for(exec, gathering->n_rows,
                       td_rows_in_range((size_t)gathering->row_numel * size), cast_range, &job,
                       err);
}

/* ---- Copying ----------------------------------------------------------------------------- */

/* Copies parts of rows that are larger than a range. Work item i is part i % parts of row i /
 * parts. */
static void copy_part_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gathering *job = context;
    size_t row_bytes = (size_t)job->row_numel * td_dtype_info(job->out->dtype)->size;
    int64_t parts = td_rows_parts(row_bytes);
    for (int64_t item = begin; item < end; item++) {
        int64_t k = item / parts, space;
        int64_t row = *job->rows(job->context, k, 1, &space);
        const char *from = NULL;
        if (row == TD_ROW_ZERO && job->zero_row)
            from = zero_row_of(job, k, row_bytes);
        else if (row != TD_ROW_ZERO)
            from = (const char *)job->table->data + (size_t)row * row_bytes;
        td_rows_copy_part((char *)job->out->data + (size_t)k * row_bytes, from, row_bytes,
                          item % parts);
    }
}

/* Looks up the offsets of rows in the table. Implements td_string_rows_fn for gathers. */
static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct td_gathering *job = context;
    int64_t space[TD_ROWS_CHUNK];
    const int64_t *numbers = job->rows(job->context, begin, n, space);
    for (int64_t k = 0; k < n; k++) {
        const bool zero = numbers[k] == TD_ROW_ZERO;
        const struct td_tensor *from = zero ? job->zero_row : job->table;
        const int64_t row = zero ? (begin + k) * job->zero_step : numbers[k];
        rows[k] = from ? (struct td_string_row){ from->offsets + row * job->row_numel, from->data }
                       : (struct td_string_row){ NULL, NULL };
    }
    return rows;
}

td_status td_gathering_run(const struct td_gathering *job, struct td_exec *exec,
                           struct td_error *err)
{
    assert(job->n_rows > 0 && job->row_numel > 0);
    if (job->out->dtype != job->table->dtype)
        return cast_rows(job, exec, err);
    if (job->out->dtype == TD_DTYPE_STRING)
        return td_strings_run(&(struct td_strings){ .out = job->out,
                                                    .n_rows = job->n_rows,
                                                    .row_numel = job->row_numel,
                                                    .rows = string_rows,
                                                    .context = job },
                              exec, err);
    size_t row_bytes = (size_t)job->row_numel * td_dtype_info(job->out->dtype)->size;
    if (row_bytes > TD_ROWS_RANGE_BYTES)
        return td_exec_for(exec, job->n_rows * td_rows_parts(row_bytes), 1, copy_part_range,
                           (void *)job, err);
    return td_exec_for(exec, job->n_rows, td_rows_in_range(row_bytes), copy_range, (void *)job,
                       err);
}
