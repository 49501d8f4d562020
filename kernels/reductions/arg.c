#include "kernels/by_rows.h"
#include "kernels/integers.h"
#include "kernels/reductions/axes.h"
#include "kernels/reductions/blocks.h"
#include "kernels/reductions/loops.h"
#include "kernels/reductions/reductions.h"
#include "kernels/workspace.h"

#include <string.h>

static td_reduce_kind kind_of(const struct td_op_args *args)
{
    return *(const td_reduce_kind *)args->op->detail;
}

static int64_t axis_attr(const struct td_op_args *args)
{
    struct td_arg_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.axis;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_shape *x = &args->inputs[0].tensors[0].shape;
    struct td_shape shape = { .rank = 0 };
    int axis = 0;
    td_status status = td_axis_read(axis_attr(args), x, &axis, err);
    if (status == TD_OK)
        status = td_axes_refuse_empty(x, (uint32_t)1 << axis, args->op->name, err);
    if (status != TD_OK)
        return status;
    for (int d = 0; d < x->rank; d++)
        if (d != axis)
            shape.dim[shape.rank++] = x->dim[d];
    return td_op_output(args, TD_DTYPE_INT64, &shape, arena, err);
}

/* Returns the blocks of a call whose output has elements. */
static struct td_blocks blocks_of(const struct td_op_args *args)
{
    const struct td_shape *x = &args->inputs[0].tensors[0].shape;
    int64_t outer = 1, inner = 1;
    int axis = 0;
    (void)td_axis_normalize(axis_attr(args), x->rank, &axis);
    (void)td_shape_product(x, 0, axis, &outer); /* a factor of the number of elements */
    (void)td_shape_product(x, axis + 1, x->rank, &inner);
    return td_blocks_divide(outer, x->dim[axis], inner, 1, false);
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    struct td_cost cost = { .bytes_read = x->bytes,
                            .bytes_written = out->bytes,
                            .flops = 2 * (uint64_t)x->numel };
    if (out->numel == 0)
        return cost;
    const struct td_blocks blocks = blocks_of(args);
    if (blocks.n_chunks > 1)
        cost.workspace =
            2 * td_workspace_align((uint64_t)td_blocks_results(&blocks) * sizeof(int64_t));
    return cost;
}

/* ---- Execution --------------------------------------------------------------------------- */

struct job {
    struct td_blocks blocks;
    const struct td_arg_loops *loops;
    const char *from;
    size_t size;
    /* The results of the blocks, if there are several chunks. */
    int64_t *keys, *positions;
    int64_t *out;
};

/* Finds the positions in rows that are not divided. */
static void find_in_rows(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t n = job->blocks.n;
    int64_t keys[TD_REDUCE_COLUMNS];
    for (int64_t at = begin; at < end; at += TD_REDUCE_COLUMNS)
        job->loops->rows(keys, job->out + at, job->from + (size_t)(at * n) * job->size,
                         td_smaller(TD_REDUCE_COLUMNS, end - at), n);
}

static void find_in_blocks(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    int64_t space[TD_REDUCE_COLUMNS];
    for (int64_t i = begin; i < end; i++) {
        const struct td_block block = td_blocks_get(&job->blocks, i);
        const char *from = job->from + (size_t)block.begin * job->size;
        int64_t *keys = job->keys ? job->keys + block.result : space;
        int64_t *positions = job->positions + block.result;
        if (job->blocks.inner == 1)
            job->loops->rows(keys, positions, from, 1, block.rows);
        else
            job->loops->columns(keys, positions, from, block.rows, job->blocks.inner,
                                block.columns);
    }
}

/* Finds the best chunk for each output element: the first of those with the largest key. */
static void join_chunks(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t inner = job->blocks.inner, n_chunks = job->blocks.n_chunks;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i / inner * n_chunks * inner + i % inner;
        int64_t best = 0;
        for (int64_t c = 1; c < n_chunks; c++)
            if (job->keys[first + c * inner] > job->keys[first + best * inner])
                best = c;
        job->out[i] = best * job->blocks.chunk + job->positions[first + best * inner];
    }
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    if (out->numel == 0)
        return TD_OK;
    struct job job = {
        .blocks = blocks_of(args),
        .loops = td_arg_loops_of(kind_of(args), x->dtype, td_isa_resolve(exec->isa)),
        .from = x->data,
        .size = td_dtype_info(x->dtype)->size,
        .positions = out->data,
        .out = out->data,
    };
    const int64_t count = td_blocks_count(&job.blocks), grain = td_blocks_grain(&job.blocks);
    if (job.blocks.n_chunks == 1)
        return td_exec_for(exec, count, grain,
                           job.blocks.inner == 1 ? find_in_rows : find_in_blocks, &job, err);
    const size_t n = (size_t)td_blocks_results(&job.blocks);
    job.keys = td_arena_alloc(exec->arena, n, sizeof(job.keys[0]), err);
    job.positions = td_arena_alloc(exec->arena, n, sizeof(job.positions[0]), err);
    if (!job.keys || !job.positions)
        return err->status;
    const td_status status = td_exec_for(exec, count, grain, find_in_blocks, &job, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(exec, out->numel, td_larger(1, 16384 / job.blocks.n_chunks), join_chunks,
                       &job, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    return td_rows_is_first(rows) &&
           td_axis_is_in_rows(axis_attr(args), &args->inputs[0].tensors[0].shape);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "x",
        .summary = "A tensor of rank 1 or more.",
        .dtypes = TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) |
                  TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(UINT16) |
                  TD_DTYPE_BIT(UINT32) | TD_DTYPE_BIT(UINT64) | TD_DTYPE_BIT(FLOAT16) |
                  TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64),
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "axis",
        .summary = "The dimension to search. A negative number counts from the end.",
        .kind = TD_ATTR_INT,
        .default_int = -1,
        .offset = offsetof(struct td_arg_attrs, axis),
    },
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The positions in dimension `axis` of x.",
        .shape_rule = "x.shape without dimension axis",
        .dtypes = TD_DTYPE_BIT(INT64),
    },
};

static const td_status errors[] = {
    TD_INVALID_AXIS, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_op_example examples[] = {
    { "the position in each row", "{\"x\":[[1,5,3],[9,7,8]]}" },
    { "the position in each column", "{\"x\":[[1,5,3],[9,7,8]],\"axis\":0}" },
    { NULL, NULL },
};

#define ARG(op, which, definition, order)                                                          \
    const struct td_op td_op_##op = {                                                              \
        .name = #op,                                                                               \
        .summary = "Returns the position of the " which " element along a dimension.",             \
        .source = definition " (TensorFlow 2 API reference); NaN as in numpy." #op,                \
        .inputs = inputs_specs,                                                                    \
        .n_inputs = 1,                                                                             \
        .attrs = attrs_specs,                                                                      \
        .n_attrs = 1,                                                                              \
        .outputs = outputs_specs,                                                                  \
        .n_outputs = 1,                                                                            \
        .errors = errors,                                                                          \
        .examples = examples,                                                                      \
        .infer = infer,                                                                            \
        .cost = cost,                                                                              \
        .run = run,                                                                                \
        .by_rows = by_rows,                                                                        \
        .detail = &(const td_reduce_kind){ order },                                                \
    }
ARG(argmax, "largest", "tf.math.argmax", TD_REDUCE_MAX);
ARG(argmin, "smallest", "tf.math.argmin", TD_REDUCE_MIN);
