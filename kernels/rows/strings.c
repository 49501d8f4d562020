#include "kernels/rows/strings.h"

#include "kernels/rows/rows.h"

#include <string.h>

/* Number of rows in one range of parallel_for. Each row costs at least two cache misses. */
#define RANGE_ROWS 2048
/* Distance in rows at which the offsets of a row are prefetched. The bytes of the row are
 * prefetched at half this distance. */
#define AHEAD      16

/* First pass: stores the size of row k in offsets[(k + 1) * row_numel], where the end of the row
 * will be stored. */
static void measure_range(void *context, int64_t begin, int64_t end)
{
    const struct td_strings *job = context;
    uint64_t *to = job->out->offsets;
    struct td_string_row space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const struct td_string_row *rows = job->rows(job->context, k, n, space);
        for (int64_t j = 0; j < n; j++) {
            if (j + AHEAD < n)
                __builtin_prefetch(rows[j + AHEAD].offsets);
            const uint64_t *from = rows[j].offsets;
            to[(k + j + 1) * job->row_numel] = from ? from[job->row_numel] - from[0] : 0;
        }
    }
}

/* Second pass: replaces the sizes by their prefix sums, which are the ends of the rows. */
static td_status sum_sizes(const struct td_strings *job, struct td_error *err)
{
    uint64_t *to = job->out->offsets;
    to[0] = 0;
    for (int64_t k = 0; k < job->n_rows; k++) {
        uint64_t end;
        if (__builtin_add_overflow(to[k * job->row_numel], to[(k + 1) * job->row_numel], &end) ||
            end > INT64_MAX) {
            td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX, "output");
            return TD_RESOURCE_LIMIT;
        }
        to[(k + 1) * job->row_numel] = end;
    }
    return TD_OK;
}

/* Third pass: copies the bytes of each row and sets the offsets inside the row. */
static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct td_strings *job = context;
    uint64_t *to = job->out->offsets;
    struct td_string_row space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const struct td_string_row *rows = job->rows(job->context, k, n, space);
        for (int64_t j = 0; j < n; j++) {
            if (j + AHEAD < n)
                __builtin_prefetch(rows[j + AHEAD].offsets);
            if (j + AHEAD / 2 < n && rows[j + AHEAD / 2].offsets)
                __builtin_prefetch(rows[j + AHEAD / 2].bytes + rows[j + AHEAD / 2].offsets[0]);
            uint64_t *row_to = to + (k + j) * job->row_numel;
            const uint64_t *from = rows[j].offsets;
            if (!from) {
                for (int64_t e = 1; e < job->row_numel; e++)
                    row_to[e] = row_to[0];
                continue;
            }
            for (int64_t e = 1; e < job->row_numel; e++)
                row_to[e] = row_to[0] + (from[e] - from[0]);
            memcpy((char *)job->out->data + row_to[0], rows[j].bytes + from[0],
                   from[job->row_numel] - from[0]);
        }
    }
}

td_status td_strings_run(const struct td_strings *job, struct td_exec *exec, struct td_error *err)
{
    int64_t grain = job->row_numel < RANGE_ROWS ? RANGE_ROWS / job->row_numel : 1;
    td_status status = td_exec_for(exec, job->n_rows, grain, measure_range, (void *)job, err);
    if (status != TD_OK)
        return status;
    status = sum_sizes(job, err);
    if (status != TD_OK)
        return status;
    size_t bytes = job->out->offsets[job->out->numel];
    if (bytes > exec->output_limit)
        return td_error_resource(err, "output_bytes", bytes, exec->output_limit, "the output");
    job->out->data = td_arena_alloc(exec->arena, bytes, 1, err);
    if (!job->out->data)
        return err->status;
    job->out->bytes = bytes;
    job->out->owner = NULL;
    return td_exec_for(exec, job->n_rows, grain, copy_range, (void *)job, err);
}
