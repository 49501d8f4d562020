#include "kernels/permute/joining.h"

#include "kernels/integers.h"
#include "kernels/permute/kernels.h"
#include "kernels/permute/permute.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/strings.h"

#include <stdio.h>
#include <string.h>

struct plan {
    int64_t n_rows;
    int64_t inner; /* elements per step along the dimension */
    /* [count + 1]: start of each input's chunk within a row, in steps along the dimension. The
     * last element is the size of a row. */
    const int64_t *start;
    int count;
};

td_status td_joining_output(struct td_op_args *args, const struct td_shape *shape, int axis,
                            const int64_t *start, struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    struct plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    *plan = (struct plan){ .start = start, .count = inputs->count };
    args->plan = plan;
    const td_status status = td_op_output(args, inputs->tensors[0].dtype, shape, arena, err);
    if (status != TD_OK || args->outputs[0].numel == 0)
        return status;
    /* Neither product overflows, because both are factors of the output's number of elements. */
    (void)td_shape_product(shape, 0, axis, &plan->n_rows);
    (void)td_shape_product(shape, axis + 1, shape->rank, &plan->inner);
    return TD_OK;
}

int64_t td_joining_rows(const struct td_op_args *args, int i, int64_t *chunk, int64_t *begin,
                        int64_t *row)
{
    const struct plan *plan = args->plan;
    *chunk = (plan->start[i + 1] - plan->start[i]) * plan->inner;
    *begin = plan->start[i] * plan->inner;
    *row = plan->start[plan->count] * plan->inner;
    return plan->n_rows;
}

td_status td_joining_mismatch(const struct td_op_args *args, int i, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    char name[sizeof(err->input)];
    td_error_add_shape(err, "inputs[0]", &inputs->tensors[0].shape);
    snprintf(name, sizeof(name), "inputs[%d]", i);
    td_error_add_shape(err, name, &inputs->tensors[i].shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

struct td_cost td_joining_cost(const struct td_op_args *args)
{
    const struct td_operand *inputs = &args->inputs[0];
    struct td_cost cost = { .bytes_written = td_tensor_footprint(&args->outputs[0]) };
    for (int i = 0; i < inputs->count; i++) {
        cost.bytes_read += td_tensor_footprint(&inputs->tensors[i]);
        if (inputs->tensors[i].dtype == TD_DTYPE_STRING)
            cost.bytes_written += inputs->tensors[i].bytes;
    }
    return cost;
}

/* Output rows are written in blocks of at most BLOCK_BYTES, which stay in the L1 cache until the
 * chunks of all inputs have been copied. */
#define BLOCK_BYTES ((size_t)16 * 1024)

/* Minimum number of rows of a block whose chunks are transposed. If a row has many chunks, a tile
 * has only some of them. */
#define TILE_ROWS 64

struct job {
    const struct plan *plan;
    const struct td_tensor *inputs;
    struct td_tensor *out;
    size_t step_bytes; /* bytes per step along the dimension */
    size_t row_bytes;  /* bytes of an output row */
    int64_t row_parts; /* number of parts of TD_ROWS_RANGE_BYTES per row */
    /* Set if every chunk is one element of a width that has a kernel. */
    td_transpose_fn *transpose;
};

/* Copies n whole rows of chunks that are one element each: a group of inputs is collected as the
 * rows of a tile, which is transposed. */
static void transpose_block(const struct job *job, int64_t row, int64_t n)
{
    _Alignas(64) char tile[BLOCK_BYTES], block[BLOCK_BYTES];
    char *out = (char *)job->out->data + (size_t)row * job->row_bytes;
    const size_t run_bytes = (size_t)n * job->step_bytes, bytes = (size_t)n * job->row_bytes;
    const int group = (int)(BLOCK_BYTES / run_bytes);
    const bool stream = bytes <= BLOCK_BYTES && td_permute_should_stream(job->out->bytes, bytes);
    char *to = stream ? block : out;
    for (int i = 0; i < job->plan->count; i += group) {
        const int rows = job->plan->count - i < group ? job->plan->count - i : group;
        for (int k = 0; k < rows; k++)
            memcpy(tile + (size_t)k * run_bytes,
                   (const char *)job->inputs[i + k].data + (size_t)row * job->step_bytes,
                   run_bytes);
        job->transpose(to + (size_t)i * job->step_bytes, (int64_t)job->row_bytes, tile,
                       (int64_t)run_bytes, rows, n, false);
    }
    if (stream)
        td_rows_copy_strided(out, 0, block, 0, bytes, 1, true);
}

/* Copies n whole rows, one input at a time. */
static void copy_block(const struct job *job, int64_t row, int64_t n)
{
    const int64_t *start = job->plan->start;
    char *to = (char *)job->out->data + (size_t)row * job->row_bytes;
    for (int i = 0; i < job->plan->count; i++) {
        const size_t chunk_bytes = (size_t)(start[i + 1] - start[i]) * job->step_bytes;
        if (chunk_bytes == 0)
            continue;
        td_rows_copy_strided(to + (size_t)start[i] * job->step_bytes, (int64_t)job->row_bytes,
                             (const char *)job->inputs[i].data + (size_t)row * chunk_bytes,
                             (int64_t)chunk_bytes, chunk_bytes, n,
                             td_permute_should_stream(job->out->bytes, chunk_bytes));
    }
}

/* Copies whole rows. */
static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t fit = (int64_t)(BLOCK_BYTES / job->row_bytes);
    const int64_t block = td_larger(job->transpose ? TILE_ROWS : 1, fit);
    for (int64_t row = begin; row < end; row += block)
        (job->transpose ? transpose_block : copy_block)(job, row, td_smaller(end - row, block));
}

/* Returns the input that contains step `step` of a row. The result is never an empty input. */
static int input_at(const struct plan *plan, int64_t step)
{
    int low = 0, high = plan->count;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (plan->start[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Copies the bytes [begin, end) of row `row`. */
static void copy_span(const struct job *job, int64_t row, size_t begin, size_t end)
{
    const int64_t *start = job->plan->start;
    char *to = (char *)job->out->data + (size_t)row * job->row_bytes;
    for (int i = input_at(job->plan, (int64_t)(begin / job->step_bytes)); begin < end; i++) {
        const size_t first = (size_t)start[i] * job->step_bytes;
        const size_t last = (size_t)start[i + 1] * job->step_bytes;
        const size_t stop = last < end ? last : end;
        const char *chunk = (const char *)job->inputs[i].data + (size_t)row * (last - first);
        td_rows_copy_strided(to + begin, 0, chunk + (begin - first), 0, stop - begin, 1,
                             td_permute_should_stream(job->out->bytes, stop - begin));
        begin = stop;
    }
}

/* Copies parts of rows. Item i is part i % row_parts of row i / row_parts. */
static void copy_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    for (int64_t item = begin; item < end; item++) {
        const size_t at = (size_t)(item % job->row_parts) * TD_ROWS_RANGE_BYTES;
        const size_t left = job->row_bytes - at;
        copy_span(job, item / job->row_parts, at,
                  at + (left < TD_ROWS_RANGE_BYTES ? left : TD_ROWS_RANGE_BYTES));
    }
}

/* Implements td_string_rows_fn for joined tensors. A row is one step along the dimension and
 * has `inner` elements. */
static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct job *job = context;
    const struct plan *plan = job->plan;
    const int64_t row_steps = plan->start[plan->count];
    int64_t row = begin / row_steps, step = begin % row_steps;
    int i = input_at(plan, step);
    for (int64_t k = 0; k < n; k++, step++) {
        if (step == row_steps) {
            row++;
            step = 0;
            i = 0;
        }
        while (step >= plan->start[i + 1])
            i++;
        const int64_t size = plan->start[i + 1] - plan->start[i];
        const int64_t from = row * size + (step - plan->start[i]);
        rows[k] = (struct td_string_row){ job->inputs[i].offsets + from * plan->inner,
                                          job->inputs[i].data };
    }
    return rows;
}

/* Returns the kernel that transposes chunks, or NULL if chunks are not single elements of one
 * width. */
static td_transpose_fn *find_kernel(const struct job *job, td_isa isa)
{
    const struct plan *plan = job->plan;
    const size_t width = job->step_bytes;
    if (plan->count < 2 || width > 16 || (width & (width - 1)) != 0)
        return NULL;
    for (int i = 0; i < plan->count; i++)
        if (plan->start[i + 1] - plan->start[i] != 1)
            return NULL;
    return td_transpose_kernels(isa)->by_log2_width[__builtin_ctzll(width)];
}

td_status td_joining_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct plan *plan = args->plan;
    struct job job = { .plan = plan, .inputs = args->inputs[0].tensors, .out = &args->outputs[0] };
    const int64_t row_steps = plan->start[plan->count];
    if (job.out->numel == 0)
        return TD_OK;
    if (job.out->dtype == TD_DTYPE_STRING)
        return td_strings_run(&(struct td_strings){ .out = job.out,
                                                    .n_rows = plan->n_rows * row_steps,
                                                    .row_numel = plan->inner,
                                                    .rows = string_rows,
                                                    .context = &job },
                              exec, err);
    job.step_bytes = (size_t)plan->inner * td_dtype_info(job.out->dtype)->size;
    job.row_bytes = (size_t)row_steps * job.step_bytes;
    job.transpose = find_kernel(&job, td_isa_resolve(exec->isa));
    if (job.row_bytes <= TD_ROWS_RANGE_BYTES)
        return td_exec_for(exec, plan->n_rows, td_rows_in_range(job.row_bytes), copy_rows, &job,
                           err);
    job.row_parts = td_rows_parts(job.row_bytes);
    return td_exec_for(exec, plan->n_rows * job.row_parts, 1, copy_parts, &job, err);
}
