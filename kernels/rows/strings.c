#include "kernels/rows/strings.h"

#include <string.h>

/* Rows in one range of parallel_for: two or more cache misses each. */
#define RANGE_ROWS 2048
/* A row's offsets are asked for this many rows ahead, its bytes half as many. */
#define AHEAD      16

/* First pass: where the row will end, offsets[(k + 1) * row_numel], holds its size for now. */
static void measure_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gathering *job = context;
    const uint64_t *from = job->table->offsets;
    uint64_t *to = job->out->offsets;
    int64_t space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const int64_t *rows = job->rows(job->context, k, n, space);
        for (int64_t j = 0; j < n; j++) {
            if (j + AHEAD < n && rows[j + AHEAD] != TD_ROW_ZERO)
                __builtin_prefetch(&from[rows[j + AHEAD] * job->row_numel]);
            int64_t first = rows[j] * job->row_numel;
            to[(k + j + 1) * job->row_numel] =
                rows[j] == TD_ROW_ZERO ? 0 : from[first + job->row_numel] - from[first];
        }
    }
}

/* Second pass: the sizes become sums. */
static td_status place_rows(const struct td_gathering *job, struct td_error *err)
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

/* Third pass: the bytes of each row, and the offsets inside it. */
static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gathering *job = context;
    const uint64_t *from = job->table->offsets;
    const char *bytes = job->table->data;
    uint64_t *to = job->out->offsets;
    int64_t space[TD_ROWS_CHUNK];
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        int64_t n = end - k < TD_ROWS_CHUNK ? end - k : TD_ROWS_CHUNK;
        const int64_t *rows = job->rows(job->context, k, n, space);
        for (int64_t j = 0; j < n; j++) {
            if (j + AHEAD < n && rows[j + AHEAD] != TD_ROW_ZERO)
                __builtin_prefetch(&from[rows[j + AHEAD] * job->row_numel]);
            if (j + AHEAD / 2 < n && rows[j + AHEAD / 2] != TD_ROW_ZERO)
                __builtin_prefetch(bytes + from[rows[j + AHEAD / 2] * job->row_numel]);
            uint64_t *row_to = to + (k + j) * job->row_numel;
            if (rows[j] == TD_ROW_ZERO) {
                for (int64_t e = 1; e < job->row_numel; e++)
                    row_to[e] = row_to[0];
                continue;
            }
            const uint64_t *row_from = from + rows[j] * job->row_numel;
            for (int64_t e = 1; e < job->row_numel; e++)
                row_to[e] = row_to[0] + (row_from[e] - row_from[0]);
            memcpy((char *)job->out->data + row_to[0], bytes + row_from[0],
                   row_from[job->row_numel] - row_from[0]);
        }
    }
}

td_status td_gathering_run_strings(const struct td_gathering *job, struct td_exec *exec,
                                   struct td_error *err)
{
    int64_t grain = job->row_numel < RANGE_ROWS ? RANGE_ROWS / job->row_numel : 1;
    td_status status = td_exec_for(exec, job->n_rows, grain, measure_range, (void *)job, err);
    if (status != TD_OK)
        return status;
    status = place_rows(job, err);
    if (status != TD_OK)
        return status;
    size_t bytes = job->out->offsets[job->out->numel];
    if (bytes > exec->output_limit)
        return td_error_resource(err, "output_bytes", bytes, exec->output_limit, "the output");
    struct td_error local;
    if (!err)
        err = &local;
    job->out->data = td_arena_alloc(exec->arena, bytes, 1, err);
    if (!job->out->data)
        return err->status;
    job->out->bytes = bytes;
    job->out->owner = NULL;
    return td_exec_for(exec, job->n_rows, grain, copy_range, (void *)job, err);
}
