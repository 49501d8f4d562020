#include "kernels/by_rows.h"
#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/reductions/axes.h"
#include "kernels/reductions/blocks.h"
#include "kernels/reductions/loops.h"
#include "kernels/reductions/reductions.h"
#include "kernels/workspace.h"

#include <string.h>

static struct td_cumsum_attrs attrs_of(const struct td_op_args *args)
{
    struct td_cumsum_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    int axis;
    const td_status status = td_axis_read(attrs_of(args).axis, &x->shape, &axis, err);
    return status == TD_OK ? td_op_output(args, x->dtype, &x->shape, arena, err) : status;
}

/* ---- Plan -------------------------------------------------------------------------------- */

/* A long row is divided into chunks: one pass sums the chunks, and the other adds, in each chunk,
 * the sum of the chunks before. Several chunks, or else several rows, are summed at the same time,
 * also by one thread, because each addition to a sum waits for the one before. */
enum {
    CHUNK = 1024,
    LONGEST_WHOLE = 64 * 1024, /* elements of a row that is not divided */
    FEW_ROWS = 16,             /* fewer rows are divided, so that all threads have work */
    ROWS_AT_ONCE = 8           /* minimum number of rows in a range */
};

struct plan {
    td_dtype dtype;  /* of the elements: the parts of complex numbers */
    td_dtype loops;  /* the dtype of the loops: float32 for float16 and bfloat16 */
    size_t size;     /* bytes of an element */
    size_t sum_size; /* bytes of a sum */
    bool exclusive, reverse;
    struct td_blocks blocks;
    int64_t n_sums; /* number of sums of chunks; 0 if rows are not divided */
};

static struct plan plan_of(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_cumsum_attrs attrs = attrs_of(args);
    const td_dtype dtype = td_dtype_part(x->dtype);
    struct plan plan = { .dtype = dtype,
                         .loops = dtype,
                         .size = td_dtype_info(dtype)->size,
                         .sum_size = td_dtype_info(td_reduce_result(TD_REDUCE_SUM, dtype))->size,
                         .exclusive = attrs.exclusive,
                         .reverse = attrs.reverse };
    int64_t outer = 1, inner = 1;
    int axis = 0;
    if (x->numel == 0)
        return plan;
    if (dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16)
        plan.loops = TD_DTYPE_FLOAT32;
    (void)td_axis_normalize(attrs.axis, x->shape.rank, &axis);
    (void)td_shape_product(&x->shape, 0, axis, &outer); /* a factor of the number of elements */
    (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &inner);
    inner *= td_dtype_is_complex(x->dtype) ? 2 : 1;
    const int64_t n = x->shape.dim[axis];
    /* Wide elements of a whole row might not stay in the L1 cache. */
    const bool divides =
        n > LONGEST_WHOLE || (n > CHUNK && (outer < FEW_ROWS || plan.loops != dtype));
    plan.blocks = inner > 1 ? td_blocks_divide(outer, n, inner, 1, true)
                  : divides ? td_blocks_of(outer, n, 1, td_ceil_div(n, td_ceil_div(n, CHUNK)))
                            : td_blocks_of(outer, n, 1, n);
    if (plan.blocks.n_chunks > 1)
        plan.n_sums = td_blocks_results(&plan.blocks);
    return plan;
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct plan plan = plan_of(args);
    const uint64_t passes = plan.blocks.n_chunks > 1 ? 2 : 1;
    return (struct td_cost){
        .bytes_read = passes * x->bytes,
        .bytes_written = x->bytes,
        .flops = passes * (uint64_t)x->numel,
        .workspace = 2 * td_workspace_align((uint64_t)plan.n_sums * plan.sum_size),
    };
}

/* ---- Execution --------------------------------------------------------------------------- */

/* float16 and bfloat16 are widened a few thousand elements at a time, so these stay in the L1
 * cache. */
#define WIDENED 4096
struct wide {
    float from[WIDENED], to[WIDENED];
};

struct job {
    struct plan plan;
    const struct td_scan_loops *loops, *sum_loops;
    td_widen_fn *widen; /* for float16 and bfloat16, otherwise NULL */
    td_narrow_fn *narrow;
    const char *from;
    char *to;
    char *sums;   /* [outer, n_chunks, inner]: the sums of the chunks */
    char *before; /* like `sums`: the sums of all chunks before; NULL until they are known */
};

/* Zeros, for the sums before the first chunk. */
struct sums {
    _Alignas(64) char bytes[TD_REDUCE_COLUMNS * sizeof(double)];
};

/* Sums or, if `before` is not NULL, scans `count` chunks of `length` elements that follow each
 * other. The first one is number i. */
static void add_chunks(const struct job *job, int64_t i, int64_t begin, int64_t count,
                       int64_t length, const void *before)
{
    const struct plan *plan = &job->plan;
    struct wide wide;
    const void *from = job->from + (size_t)begin * plan->size;
    void *to = job->to + (size_t)begin * plan->size;
    if (job->widen) {
        job->widen(wide.from, from, 1, count * length);
        from = wide.from;
    }
    if (!before) {
        job->loops->total_rows(job->sums + (size_t)i * plan->sum_size, from, count, length, length,
                               plan->reverse);
        return;
    }
    job->loops->scan_rows(job->widen ? wide.to : to, from, before, count, length, length,
                          plan->reverse, plan->exclusive);
    if (job->widen)
        job->narrow(to, 1, wide.to, count * length);
}

/* Returns the number of chunks, starting with the given one, that have the same size and follow
 * each other. */
static int64_t equal_chunks(const struct job *job, const struct td_block *block, int64_t left)
{
    const struct td_blocks *blocks = &job->plan.blocks;
    const int64_t full = blocks->n / blocks->chunk;
    const int64_t equal = full * blocks->chunk == blocks->n ? left
                          : block->chunk < full             ? td_smaller(left, full - block->chunk)
                                                            : 1;
    const int64_t most = job->widen ? WIDENED / block->rows : equal;
    return td_smaller(equal, td_smaller(most, TD_REDUCE_COLUMNS));
}

static void add_rows(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const bool is_whole = job->plan.n_sums == 0;
    struct sums zeros;
    if (is_whole)
        memset(&zeros, 0, sizeof(zeros));
    for (int64_t i = begin, count; i < end; i += count) {
        const struct td_block block = td_blocks_get(&job->plan.blocks, i);
        const void *before = is_whole      ? zeros.bytes
                             : job->before ? job->before + (size_t)i * job->plan.sum_size
                                           : NULL;
        count = equal_chunks(job, &block, end - i);
        add_chunks(job, i, block.begin, count, block.rows, before);
    }
}

/* Copies rows [row, row + n) of a block between the tensor and the wide elements. */
static void widen_rows(const struct job *job, const struct td_block *block, int64_t row, int64_t n,
                       float *to)
{
    const int64_t inner = job->plan.blocks.inner;
    const char *from = job->from + (size_t)(block->begin + row * inner) * job->plan.size;
    if (block->columns == inner) {
        job->widen(to, from, 1, n * inner);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        job->widen(to + i * block->columns, from + (size_t)(i * inner) * job->plan.size, 1,
                   block->columns);
}

static void narrow_rows(const struct job *job, const struct td_block *block, int64_t row, int64_t n,
                        const float *from)
{
    const int64_t inner = job->plan.blocks.inner;
    char *to = job->to + (size_t)(block->begin + row * inner) * job->plan.size;
    if (block->columns == inner) {
        job->narrow(to, 1, from, n * inner);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        job->narrow(to + (size_t)(i * inner) * job->plan.size, 1, from + i * block->columns,
                    block->columns);
}

/* Adds rows [row, row + n) of a block to the sums of its columns and, if `before` is not NULL,
 * writes the cumulative sums. */
static void add_some_rows(const struct job *job, const struct td_block *block, int64_t row,
                          int64_t n, void *sums, const void *before)
{
    const struct plan *plan = &job->plan;
    const size_t size = job->widen ? sizeof(float) : plan->size;
    const int64_t stride = job->widen ? block->columns : plan->blocks.inner;
    const size_t start = plan->reverse ? (size_t)((n - 1) * stride) * size : 0;
    const int64_t step = plan->reverse ? -stride : stride;
    const size_t at = (size_t)(block->begin + row * plan->blocks.inner) * plan->size;
    struct wide wide;
    if (job->widen)
        widen_rows(job, block, row, n, wide.from);
    const char *from = job->widen ? (const char *)wide.from : job->from + at;
    char *to = job->widen ? (char *)wide.to : job->to + at;
    if (!before) {
        job->loops->total_columns(sums, from + start, n, step, block->columns);
        return;
    }
    job->loops->scan_columns(to + start, sums, from + start, before, n, step, block->columns,
                             plan->exclusive);
    if (job->widen)
        narrow_rows(job, block, row, n, wide.to);
}

static void add_block(const struct job *job, const struct td_block *block, void *sums,
                      const void *before)
{
    const int64_t most = job->widen ? WIDENED / block->columns : block->rows;
    for (int64_t done = 0, n; done < block->rows; done += n) {
        n = td_smaller(most, block->rows - done);
        add_some_rows(job, block, job->plan.reverse ? block->rows - done - n : done, n, sums,
                      before);
    }
}

static void add_columns(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    struct sums zeros, sums;
    memset(&zeros, 0, sizeof(zeros));
    for (int64_t i = begin; i < end; i++) {
        const struct td_block block = td_blocks_get(&job->plan.blocks, i);
        const size_t at = (size_t)block.result * job->plan.sum_size;
        const void *before = job->plan.n_sums == 0 ? zeros.bytes
                             : job->before         ? job->before + at
                                                   : NULL;
        void *to = before ? sums.bytes : job->sums + at;
        memset(to, 0, (size_t)block.columns * job->plan.sum_size);
        add_block(job, &block, to, before);
    }
}

/* Sums the chunks before each chunk. An item is a tile of the columns for one index of `outer`. */
static void add_sums(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_blocks *blocks = &job->plan.blocks;
    const int64_t inner = blocks->inner, n = blocks->n_chunks;
    struct sums zeros, sums;
    memset(&zeros, 0, sizeof(zeros));
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % blocks->n_tiles * blocks->tile;
        const int64_t columns = td_smaller(blocks->tile, inner - column);
        const int64_t row = i / blocks->n_tiles * n + (job->plan.reverse ? n - 1 : 0);
        const size_t at = (size_t)(row * inner + column) * job->plan.sum_size;
        memset(&sums, 0, (size_t)columns * job->plan.sum_size);
        job->sum_loops->scan_columns(job->before + at, sums.bytes, job->sums + at, zeros.bytes, n,
                                     job->plan.reverse ? -inner : inner, columns, true);
    }
}

static int64_t grain_of(const struct td_blocks *blocks)
{
    return td_larger(td_blocks_grain(blocks), blocks->inner == 1 ? ROWS_AT_ONCE : 1);
}

/* Sums the chunks of rows that are divided. */
static td_status sum_chunks(struct job *job, struct td_exec *exec, td_range_fn *fn,
                            struct td_error *err)
{
    const struct td_blocks *blocks = &job->plan.blocks;
    const size_t n = (size_t)job->plan.n_sums;
    job->sums = td_arena_alloc(exec->arena, n, job->plan.sum_size, err);
    char *const before = td_arena_alloc(exec->arena, n, job->plan.sum_size, err);
    if (!job->sums || !before)
        return err->status;
    td_status status = td_exec_for(exec, td_blocks_count(blocks), grain_of(blocks), fn, job, err);
    job->before = before;
    if (status == TD_OK)
        status = td_exec_for(exec, blocks->outer * blocks->n_tiles,
                             td_larger(1, 16384 / (blocks->n_chunks * blocks->tile)), add_sums, job,
                             err);
    return status;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    struct job job = { .plan = plan_of(args),
                       .from = args->inputs[0].tensors[0].data,
                       .to = args->outputs[0].data };
    const struct td_blocks *blocks = &job.plan.blocks;
    if (args->outputs[0].numel == 0)
        return TD_OK;
    if (job.plan.loops != job.plan.dtype) {
        job.widen = td_widen(job.plan.dtype, isa);
        job.narrow = td_narrow(job.plan.dtype, isa);
    }
    job.loops = td_scan_loops_of(job.plan.loops, isa);
    job.sum_loops = td_scan_loops_of(td_reduce_result(TD_REDUCE_SUM, job.plan.dtype), isa);
    td_range_fn *const fn = blocks->inner == 1 ? add_rows : add_columns;
    if (job.plan.n_sums > 0) {
        const td_status status = sum_chunks(&job, exec, fn, err);
        if (status != TD_OK)
            return status;
    }
    return td_exec_for(exec, td_blocks_count(blocks), grain_of(blocks), fn, &job, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    return td_rows_is_first(rows) &&
           td_axis_is_in_rows(attrs_of(args).axis, &args->inputs[0].tensors[0].shape);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "x",
        .summary = "A tensor of rank 1 or more.",
        .dtypes = TD_DTYPES_ALL & ~(TD_DTYPE_BIT(BOOL) | TD_DTYPE_BIT(STRING)),
        .reads_values = true,
    },
};

enum { ATTR_AXIS, ATTR_EXCLUSIVE, ATTR_REVERSE, ATTR_COUNT };

static const struct td_attr_spec attrs_specs[] = {
    [ATTR_AXIS] = {
        .name = "axis",
        .summary = "The dimension along which to add. A negative number counts from the end.",
        .kind = TD_ATTR_INT,
        .offset = offsetof(struct td_cumsum_attrs, axis),
    },
    [ATTR_EXCLUSIVE] = {
        .name = "exclusive",
        .summary = "Whether each result leaves out the element at its own position.",
        .kind = TD_ATTR_BOOL,
        .offset = offsetof(struct td_cumsum_attrs, exclusive),
    },
    [ATTR_REVERSE] = {
        .name = "reverse",
        .summary = "Whether to add from the last element to the first.",
        .kind = TD_ATTR_BOOL,
        .offset = offsetof(struct td_cumsum_attrs, reverse),
    },
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The cumulative sums.",
        .shape_rule = "x.shape",
        .dtype_of = "x",
    },
};

static const td_status errors[] = {
    TD_INVALID_AXIS, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_op_example examples[] = {
    { "cumulative sums along the rows", "{\"x\":[[1,2,3],[4,5,6]],\"axis\":1}" },
    { "sums of the elements that follow", "{\"x\":[1,2,3],\"exclusive\":true,\"reverse\":true}" },
    { NULL, NULL },
};

const struct td_op td_op_cumsum = {
    .name = "cumsum",
    .summary = "Adds up the elements along a dimension, with a result for each element.",
    .source = "tf.cumsum (TensorFlow 2 API reference)",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = ATTR_COUNT,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
};
