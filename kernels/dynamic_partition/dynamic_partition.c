#include "kernels/dynamic_partition/dynamic_partition.h"

#include "kernels/integers.h"
#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <string.h>

enum { DATA, PARTITIONS };

/* The plan of a call. infer divides the rows of data into blocks of about equal size, which run
 * distributes in parallel. If rows are strings or are larger than TD_ROWS_RANGE_BYTES, run
 * distributes row numbers instead and then gathers each output by row number. */
struct plan {
    int64_t n_rows;
    int64_t n_partitions;
    bool by_number;     /* row numbers are distributed instead of rows */
    size_t row_bytes;   /* bytes per row or row number */
    int64_t block_rows; /* rows per block; the last block can have fewer */
    int64_t n_blocks;
    int64_t *start; /* [n_blocks][n_partitions]: first row of block b within output p */
};

/* ---- Shapes ------------------------------------------------------------------------------ */

static int64_t num_partitions(const struct td_op_args *args)
{
    struct td_dynamic_partition_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.num_partitions;
}

static td_status check(const struct td_op_args *args, struct td_error *err)
{
    int64_t n = num_partitions(args);
    const struct td_shape *data = &args->inputs[DATA].tensors->shape;
    const struct td_shape *partitions = &args->inputs[PARTITIONS].tensors->shape;
    if (n > TD_MAX_PARTITIONS) {
        td_error_resource(err, "outputs", (uint64_t)n, TD_MAX_PARTITIONS, "num_partitions");
        return td_error_at_attribute(err, TD_RESOURCE_LIMIT, "num_partitions");
    }
    if (!td_shape_starts_with(data, partitions)) {
        char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
        td_error_set(
            err, TD_SHAPE_MISMATCH, "data %s does not start with the shape of partitions, %s",
            td_shape_text(data, text, sizeof(text)), td_shape_text(partitions, more, sizeof(more)));
        td_error_add_shape(err, "data", data);
        td_error_add_shape(err, "partitions", partitions);
        return td_error_at_input(err, TD_SHAPE_MISMATCH, "data");
    }
    if (data->rank - partitions->rank == TD_MAX_RANK)
        return td_error_resource(err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK, "output");
    return TD_OK;
}

struct td_dynamic_partition_geometry td_dynamic_partition_geometry(const struct td_op_args *args)
{
    const struct td_tensor *data = args->inputs[DATA].tensors;
    const struct td_tensor *partitions = args->inputs[PARTITIONS].tensors;
    struct td_dynamic_partition_geometry geometry = {
        .n_rows = partitions->numel,
        .n_partitions = num_partitions(args),
    };
    /* If a tensor is empty, the product of some of its dimensions can overflow, so it is not
     * computed. */
    if (data->numel > 0)
        (void)td_shape_product(&data->shape, partitions->shape.rank, data->shape.rank,
                               &geometry.row_numel);
    geometry.row_bytes = (size_t)geometry.row_numel * td_dtype_info(data->dtype)->size;
    return geometry;
}

static td_status check_numbers(const struct td_op_args *args, struct td_arena *arena,
                               struct td_error *err)
{
    const struct td_tensor *partitions = args->inputs[PARTITIONS].tensors;
    int64_t n_bad, first, bound = num_partitions(args);
    struct td_exec serial; /* infer has no td_exec */
    td_exec_serial(&serial, arena);
    td_status status = td_rows_check(partitions, bound, &serial, &n_bad, &first, err);
    if (status != TD_OK || n_bad == 0)
        return status;
    /* A partition number is a position in the list of outputs, so the axis is 0. */
    return td_rows_out_of_bounds(err, "partitions", partitions, first, n_bad, bound, 0, "");
}

/* ---- Plan -------------------------------------------------------------------------------- */

/* Number of bytes in a block per partition. plan.start takes a sixteenth of this number: 8 bytes
 * per block and partition. */
#define BLOCK_BYTES_PER_PARTITION 128

static void choose_block_size(struct plan *plan)
{
    size_t row_cost = plan->row_bytes > TD_ROWS_NARROW ? plan->row_bytes : TD_ROWS_NARROW;
    size_t block = (size_t)plan->n_partitions * BLOCK_BYTES_PER_PARTITION;
    if (block < TD_ROWS_RANGE_BYTES)
        block = TD_ROWS_RANGE_BYTES;
    plan->block_rows = block > row_cost ? (int64_t)(block / row_cost) : 1;
    plan->n_blocks = plan->n_rows == 0 ? 1 : (plan->n_rows - 1) / plan->block_rows + 1;
}

/* Sets start[b][p] to the number of rows in block b that belong to output p. */
static void count_blocks(const struct plan *plan, const struct td_tensor *partitions)
{
    int64_t *count = plan->start;
    memset(count, 0, (size_t)(plan->n_blocks * plan->n_partitions) * sizeof(count[0]));
    for (int64_t begin = 0; begin < plan->n_rows; begin += plan->block_rows) {
        int64_t end = td_smaller(begin + plan->block_rows, plan->n_rows);
        td_rows_count(partitions, begin, end - begin, plan->n_partitions, count);
        count += plan->n_partitions;
    }
}

/* Replaces each count by the sum of the counts of all previous blocks, and sets total[p] to the sum
 * over all blocks. */
static void sum_counts(const struct plan *plan, int64_t *total)
{
    memset(total, 0, (size_t)plan->n_partitions * sizeof(total[0]));
    for (int64_t b = 0; b < plan->n_blocks; b++) {
        int64_t *start = plan->start + b * plan->n_partitions;
        for (int64_t p = 0; p < plan->n_partitions; p++) {
            int64_t count = start[p];
            start[p] = total[p];
            total[p] += count;
        }
    }
}

static td_status make_plan(struct td_op_args *args,
                           const struct td_dynamic_partition_geometry *geometry,
                           struct td_arena *arena, int64_t *total, struct td_error *err)
{
    bool by_number = geometry->row_numel > 0 &&
                     (geometry->row_bytes == 0 || geometry->row_bytes > TD_ROWS_RANGE_BYTES);
    const struct td_tensor *partitions = args->inputs[PARTITIONS].tensors;
    struct plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    *plan = (struct plan){
        .n_rows = geometry->n_rows,
        .n_partitions = geometry->n_partitions,
        .by_number = by_number,
        .row_bytes = by_number ? sizeof(int64_t) : geometry->row_bytes,
    };
    choose_block_size(plan);
    plan->start = td_arena_alloc(arena, (size_t)plan->n_blocks,
                                 (size_t)plan->n_partitions * sizeof(plan->start[0]), err);
    if (!plan->start)
        return err->status;
    count_blocks(plan, partitions);
    sum_counts(plan, total);
    args->plan = plan;
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    td_status status = check(args, err);
    if (status == TD_OK)
        status = check_numbers(args, arena, err);
    if (status != TD_OK)
        return status;

    const struct td_tensor *data = args->inputs[DATA].tensors;
    int depth = args->inputs[PARTITIONS].tensors->shape.rank;
    const struct td_dynamic_partition_geometry geometry = td_dynamic_partition_geometry(args);
    const int64_t n = geometry.n_partitions;
    int64_t *total = td_arena_alloc(arena, (size_t)n, sizeof(total[0]), err);
    if (!total)
        return err->status;
    status = td_op_outputs(args, (int)n, arena, err);
    if (status == TD_OK)
        status = make_plan(args, &geometry, arena, total, err);
    if (status != TD_OK)
        return status;
    /* Checks the size of an output that contains all rows before describing each output with its
     * own size. */
    struct td_tensor all;
    struct td_shape shape = { .rank = 1, .dim = { geometry.n_rows } };
    (void)td_shape_append(&shape, &data->shape, depth, data->shape.rank);
    status = td_tensor_describe(&all, "outputs", data->dtype, &shape, err);
    if (status != TD_OK)
        return status;
    for (int64_t p = 0; p < n; p++) {
        struct td_tensor *output = &args->outputs[p];
        *output = all;
        output->shape.dim[0] = total[p];
        output->numel = total[p] * geometry.row_numel;
        output->bytes = (size_t)total[p] * geometry.row_bytes;
    }
    return TD_OK;
}

/* Returns the size in bytes of the scratch memory, which holds each block's write position in each
 * output, and the row numbers. */
static uint64_t scratch_bytes(const struct plan *plan)
{
    uint64_t table = (uint64_t)(plan->n_blocks * plan->n_partitions) * sizeof(char *);
    return plan->by_number ? table + (uint64_t)plan->n_rows * sizeof(int64_t) : table;
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct plan *plan = args->plan;
    const struct td_tensor *data = args->inputs[DATA].tensors;
    uint64_t outputs = (uint64_t)args->n_outputs * sizeof(args->outputs[0]);
    uint64_t scratch = scratch_bytes(plan);
    return (struct td_cost){
        .bytes_read = td_tensor_footprint(data) + args->inputs[PARTITIONS].tensors->bytes,
        .bytes_written = td_tensor_footprint(data) + outputs + scratch,
        .random_reads = (uint64_t)plan->n_rows,
        .workspace = scratch,
    };
}

/* ---- Distribution ------------------------------------------------------------------------ */

struct partition {
    const struct plan *plan;
    const struct td_tensor *partitions;
    const char *from; /* data, or NULL if row numbers are distributed */
    /* [n_blocks][n_partitions]: where block b writes its next row for output p. */
    char **next;
    bool stream;
};

static void distribute_row_numbers(const struct partition *job, char **next, int64_t begin,
                                   int64_t end)
{
    int64_t rows[TD_ROWS_CHUNK];
    for (int64_t at = begin; at < end; at += TD_ROWS_CHUNK) {
        int64_t n = td_smaller(end - at, TD_ROWS_CHUNK);
        for (int64_t k = 0; k < n; k++)
            rows[k] = at + k;
        td_rows_distribute(next, job->partitions, at, n, rows, sizeof(rows[0]), false);
    }
}

static void distribute_range(void *context, int64_t begin, int64_t end)
{
    struct partition *job = context;
    const struct plan *plan = job->plan;
    for (int64_t b = begin; b < end; b++) {
        char **next = job->next + b * plan->n_partitions;
        int64_t at = b * plan->block_rows, last = td_smaller(at + plan->block_rows, plan->n_rows);
        if (job->from)
            td_rows_distribute(next, job->partitions, at, last - at,
                               job->from + (size_t)at * plan->row_bytes, plan->row_bytes,
                               job->stream);
        else
            distribute_row_numbers(job, next, at, last);
    }
}

/* Distributes the rows among the outputs. If order is not NULL, distributes the row numbers into
 * `order` instead: first the numbers for output 0, then for output 1, and so on. */
static td_status distribute(const struct td_op_args *args, int64_t *order, struct td_exec *exec,
                            struct td_error *err)
{
    const struct plan *plan = args->plan;
    const struct td_tensor *data = args->inputs[DATA].tensors;
    struct partition job = {
        .plan = plan,
        .partitions = args->inputs[PARTITIONS].tensors,
        .from = order ? NULL : data->data,
        .stream = !order && td_rows_should_stream(data->bytes, plan->row_bytes),
    };
    job.next = td_arena_alloc(exec->arena, (size_t)plan->n_blocks,
                              (size_t)plan->n_partitions * sizeof(job.next[0]), err);
    if (!job.next)
        return err->status;
    for (int64_t p = 0; p < plan->n_partitions; p++) {
        char *base = order ? (char *)order : args->outputs[p].data;
        for (int64_t b = 0; b < plan->n_blocks; b++) {
            int64_t i = b * plan->n_partitions + p;
            job.next[i] = base + (size_t)plan->start[i] * plan->row_bytes;
        }
        if (order)
            order += args->outputs[p].shape.dim[0];
    }
    return td_exec_for(exec, plan->n_blocks, 1, distribute_range, &job, err);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): a td_rows_fn can write to rows. */
static const int64_t *ordered_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const int64_t *order = context;
    (void)n;
    (void)rows;
    return order + begin;
}

static td_status gather_by_number(const struct td_op_args *args, struct td_exec *exec,
                                  struct td_error *err)
{
    const struct plan *plan = args->plan;
    const struct td_tensor *data = args->inputs[DATA].tensors;
    if (data->dtype == TD_DTYPE_STRING) {
        /* Each row goes to exactly one output, so all outputs together have the same number of
         * bytes as data. */
        uint64_t bytes = data->offsets[data->numel] - data->offsets[0];
        if (bytes > exec->output_limit)
            return td_error_resource(err, "output_bytes", bytes, exec->output_limit, "the output");
    }
    int64_t *order = td_arena_alloc(exec->arena, (size_t)plan->n_rows, sizeof(order[0]), err);
    if (!order)
        return err->status;
    td_status status = distribute(args, order, exec, err);
    for (int p = 0; status == TD_OK && p < args->n_outputs; p++) {
        struct td_tensor *out = &args->outputs[p];
        int64_t n_rows = out->shape.dim[0];
        if (n_rows == 0)
            continue;
        struct td_gathering job = {
            .table = data,
            .out = out,
            .n_rows = n_rows,
            .row_numel = out->numel / n_rows,
            .rows = ordered_rows,
            .context = order,
        };
        status = td_gathering_run(&job, exec, err);
        order += n_rows;
    }
    return status;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct plan *plan = args->plan;
    if (args->inputs[DATA].tensors->numel == 0)
        return TD_OK;
    return plan->by_number ? gather_by_number(args, exec, err) : distribute(args, NULL, exec, err);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs[] = {
    [DATA] = {
        .name = "data",
        .summary = "The tensor to distribute. Its shape starts with the shape of partitions.",
        .dtypes = TD_DTYPES_ALL,
    },
    [PARTITIONS] = {
        .name = "partitions",
        .summary = "For each row of data, the number of its output, in [0, num_partitions): a "
                   "tensor of any rank.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .sets_shape = true,
        .aligned_with = "data",
    },
};

static const struct td_attr_spec attrs[] = {
    {
        .name = "num_partitions",
        .summary = "The number of outputs, from 1 to 16384. Outputs without rows are empty.",
        .kind = TD_ATTR_INT,
        .required = true,
        .range = &(const struct td_int_range){ 1, INT64_MAX },
        .offset = offsetof(struct td_dynamic_partition_attrs, num_partitions),
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs[] = {
    {
        .name = "outputs",
        .summary = "For each partition, its rows of data in their original order.",
        .shape_rule = "num_partitions times [count] + data.shape[rank(partitions):]",
        .dtype_of = "data",
        .list = true,
    },
};

static const struct td_op_example examples[] = {
    { "two parts", "{\"data\":[[1,2],[3,4],[5,6]],\"partitions\":[0,1,0],\"num_partitions\":2}" },
    { "three parts, one of them empty",
      "{\"data\":[\"a\",\"b\",\"c\"],\"partitions\":[2,0,2],\"num_partitions\":3}" },
    { NULL, NULL },
};

const struct td_op td_op_dynamic_partition = {
    .name = "dynamic_partition",
    .summary =
        "Distributes the rows of data among num_partitions tensors by number, keeping their order.",
    .source = "tf.dynamic_partition (TensorFlow 2 API reference)",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = attrs,
    .n_attrs = 1,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
};
