#include "kernels/dynamic_stitch/strategy.h"

#include "kernels/rows/rows.h"

/* Calls that write fewer than PARALLEL_BYTES bytes, or PARALLEL_SHORT_BYTES if rows are shorter
 * than SHORT_ROW, run on one thread. If all rows fit the cache, one thread that reads the indices
 * once is as fast as two threads that read them twice (30,000 rows of 64 B take 2.1 ns each with
 * one thread and 2.2 ns with two: tests/bench/bench_stitch). */
#define PARALLEL_BYTES       ((size_t)512 * 1024)
#define SHORT_ROW            128
#define PARALLEL_SHORT_BYTES ((size_t)8 * 1024 * 1024)
/* Maximum row size at which setting the whole output to zero is cheaper than finding the rows that
 * no index selects. Finding them takes 0.4 ns per row in the cache, and a nanosecond is enough to
 * set 100 bytes to zero (tests/bench/bench_stitch). */
#define NARROW_ROW           32
/* Setting the whole output to zero is also cheaper, for any row size, if the output has more than
 * SPARSE times as many rows as the input. */
#define SPARSE               8

bool td_stitch_is_parallel(const struct td_stitch *job, int64_t n)
{
    size_t least = job->row_bytes < SHORT_ROW ? PARALLEL_SHORT_BYTES : PARALLEL_BYTES;
    return (size_t)n >= least / job->row_bytes;
}

static enum td_stitch_strategy choose(const struct td_stitch *job)
{
    if (job->out->dtype == TD_DTYPE_STRING)
        return TD_STITCH_STRINGS;
    if (job->row_bytes > TD_ROWS_RANGE_BYTES)
        return TD_STITCH_LARGE_ROWS;
    if (job->row_bytes <= NARROW_ROW || job->n_in < job->n_out / SPARSE || job->n_in >= UINT32_MAX)
        return TD_STITCH_ZERO_FIRST;
    return job->stream || td_stitch_is_parallel(job, job->n_in) ? TD_STITCH_PARALLEL
                                                                : TD_STITCH_SERIAL;
}

void td_stitch_init(struct td_stitch *job, const struct td_op_args *args)
{
    const struct td_dynamic_stitch_geometry *geometry = td_dynamic_stitch_geometry(args);
    struct td_tensor *out = &args->outputs[0];
    *job = (struct td_stitch){
        .geometry = geometry,
        .indices = args->inputs[TD_STITCH_INDICES].tensors,
        .data = args->inputs[TD_STITCH_DATA].tensors,
        .out = out,
        .n_in = geometry->first[geometry->n_tensors],
        .strategy = TD_STITCH_EMPTY,
    };
    if (out->numel == 0)
        return;
    job->n_out = geometry->n_out;
    job->row_bytes = geometry->row_bytes;
    job->stream = td_rows_should_stream(out->bytes, job->row_bytes);
    job->strategy = choose(job);
}

size_t td_stitch_marks_bytes(const struct td_stitch *job)
{
    return ((size_t)job->n_out + 7) / 8 * 8;
}

uint64_t td_stitch_scratch_bytes(const struct td_stitch *job)
{
    switch (job->strategy) {
    case TD_STITCH_SERIAL:
        return td_stitch_marks_bytes(job);
    /* last_row uses the memory of marks, which can end 7 bytes later. */
    case TD_STITCH_PARALLEL:
        return (uint64_t)job->n_out * sizeof(job->last_row[0]) + sizeof(uint64_t);
    case TD_STITCH_STRINGS:
        return (uint64_t)job->n_out * sizeof(job->string_rows[0]);
    case TD_STITCH_LARGE_ROWS:
        return (uint64_t)job->n_out * sizeof(job->row_sources[0]);
    default:
        return 0;
    }
}

struct td_cost td_stitch_cost(const struct td_op_args *args)
{
    struct td_stitch job;
    td_stitch_init(&job, args);
    struct td_cost cost = { .workspace = td_stitch_scratch_bytes(&job) };
    cost.random_reads = (uint64_t)job.n_in;
    cost.bytes_written = td_tensor_footprint(job.out) + cost.workspace;
    for (int m = 0; m < job.geometry->n_tensors; m++) {
        cost.bytes_read += job.indices[m].bytes + td_tensor_footprint(&job.data[m]);
        if (job.strategy == TD_STITCH_STRINGS)
            cost.bytes_written += job.data[m].bytes;
    }
    return cost;
}
