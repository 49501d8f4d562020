#include "kernels/rows/row_change.h"

#include "kernels/rows/strings.h"

#include <assert.h>
#include <string.h>

struct application {
    const struct td_row_change *change;
    const struct td_tensor *table, *rows;
    struct td_tensor *out;
    int64_t n_before;  /* number of rows in the table */
    size_t row_bytes;  /* for numbers: bytes per row */
    int64_t row_numel; /* for strings: elements per row */
    /* For strings: the source of each row of out, as a row number with the same meaning as in
     * `from`. */
    int64_t *sources;
};

/* Number of bytes that one range copies. */
enum { GRAIN_BYTES = 256 * 1024 };

static void move_range(void *context, int64_t begin, int64_t end)
{
    const struct application *job = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t from = job->change->from[i];
        const char *source =
            from < job->n_before
                ? (const char *)job->table->data + (size_t)from * job->row_bytes
                : (const char *)job->rows->data + (size_t)(from - job->n_before) * job->row_bytes;
        memcpy((char *)job->out->data + (size_t)job->change->to[i] * job->row_bytes, source,
               job->row_bytes);
    }
}

static td_status move_numbers(struct application *job, struct td_exec *exec, struct td_error *err)
{
    if (job->row_bytes == 0)
        return TD_OK;
    return td_exec_for(exec, job->change->n, (int64_t)(GRAIN_BYTES / job->row_bytes) + 1,
                       move_range, job, err);
}

static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct application *job = context;
    for (int64_t i = 0; i < n; i++) {
        const int64_t source = job->sources[begin + i];
        const bool is_new = source >= job->n_before;
        const struct td_tensor *tensor = is_new ? job->rows : job->table;
        const int64_t row = is_new ? source - job->n_before : source;
        rows[i] = (struct td_string_row){ tensor->offsets + row * job->row_numel, tensor->data };
    }
    return rows;
}

static td_status join_strings(struct application *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_row_change *change = job->change;
    if (job->out->numel == 0) {
        job->out->offsets[0] = 0;
        job->out->bytes = 0;
        return TD_OK;
    }
    job->sources = td_arena_alloc(exec->arena, (size_t)change->n_rows, sizeof *job->sources, err);
    if (!job->sources)
        return TD_MEMORY_EXHAUSTED;
    for (int64_t row = 0; row < change->n_rows; row++)
        job->sources[row] = row;
    for (int64_t i = 0; i < change->n; i++)
        job->sources[change->to[i]] = change->from[i];
    const struct td_strings strings = { .out = job->out,
                                        .n_rows = change->n_rows,
                                        .row_numel = job->row_numel,
                                        .rows = string_rows,
                                        .context = job };
    return td_strings_run(&strings, exec, err);
}

td_status td_row_change_apply(const struct td_row_change *change, const struct td_tensor *table,
                              const struct td_tensor *rows, struct td_tensor *out,
                              struct td_exec *exec, struct td_error *err)
{
    struct application job = { .change = change,
                               .table = table,
                               .rows = rows,
                               .out = out,
                               .n_before = table->shape.dim[0],
                               .row_numel = 1 };
    assert(out->shape.dim[0] == change->n_rows);
    for (int d = 1; d < table->shape.rank; d++)
        job.row_numel *= table->shape.dim[d];
    job.row_bytes = (size_t)job.row_numel * td_dtype_info(table->dtype)->size;
    return table->dtype == TD_DTYPE_STRING ? join_strings(&job, exec, err)
                                           : move_numbers(&job, exec, err);
}
