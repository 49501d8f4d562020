#include "kernels/concat/concat.h"

#include "kernels/axes.h"
#include "kernels/integers.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/strings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The output has n_rows rows, one for each combination of the dimensions before axis. A row
 * consists of one chunk from each input, in the order of the list. A chunk has A_i * Q elements,
 * which are contiguous in the input. */
struct plan {
    int64_t n_rows;
    int64_t inner; /* Q: elements per step along axis */
    /* [count + 1]: start of each input's chunk within a row, in steps along axis. The last element
     * is the size of a row. */
    const int64_t *start;
    int count;
};

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Adds the shapes of inputs[0] and inputs[i] to a SHAPE_MISMATCH error. */
static td_status mismatch(const struct td_operand *inputs, int i, struct td_error *err)
{
    char name[sizeof(err->input)];
    td_error_add_shape(err, "inputs[0]", &inputs->tensors[0].shape);
    snprintf(name, sizeof(name), "inputs[%d]", i);
    td_error_add_shape(err, name, &inputs->tensors[i].shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status check_shape(const struct td_operand *inputs, int i, int axis, struct td_error *err)
{
    const struct td_shape *first = &inputs->tensors[0].shape, *shape = &inputs->tensors[i].shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_shape_text(shape, text, sizeof(text));
    td_shape_text(first, more, sizeof(more));
    if (shape->rank != first->rank) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "inputs[%d] %s has rank %d; expected %d, as in inputs[0] %s", i, text,
                     shape->rank, first->rank, more);
        return mismatch(inputs, i, err);
    }
    for (int d = 0; d < shape->rank; d++) {
        if (d == axis || shape->dim[d] == first->dim[d])
            continue;
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "dimension %d of inputs[%d] %s is %" PRId64 "; expected %" PRId64
                     ", as in inputs[0] %s; only dimension %d, the axis, can differ",
                     d, i, text, shape->dim[d], first->dim[d], more, axis);
        return mismatch(inputs, i, err);
    }
    return TD_OK;
}

/* Checks the shapes of all inputs and adds up their extents along axis. */
static td_status place_inputs(const struct td_operand *inputs, int axis, int64_t *start,
                              struct td_error *err)
{
    start[0] = 0;
    for (int i = 0; i < inputs->count; i++) {
        td_status status = check_shape(inputs, i, axis, err);
        if (status != TD_OK)
            return status;
        const int64_t size = inputs->tensors[i].shape.dim[axis];
        if (__builtin_add_overflow(start[i], size, &start[i + 1]))
            return td_error_resource(err, "elements", (uint64_t)start[i] + (uint64_t)size,
                                     INT64_MAX, "the output along axis");
    }
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    struct td_concat_attrs attrs;
    int axis;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    td_status status = td_axis_find(attrs.axis, "inputs[0]", &inputs->tensors[0].shape, &axis, err);
    if (status != TD_OK)
        return status;
    struct plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    int64_t *start = td_arena_alloc(arena, (size_t)inputs->count + 1, sizeof(start[0]), err);
    if (!plan || !start)
        return err->status;
    status = place_inputs(inputs, axis, start, err);
    if (status != TD_OK)
        return status;
    struct td_shape shape = inputs->tensors[0].shape;
    shape.dim[axis] = start[inputs->count];
    *plan = (struct plan){ .start = start, .count = inputs->count };
    args->plan = plan;
    status = td_op_output(args, inputs->tensors[0].dtype, &shape, arena, err);
    if (status != TD_OK || args->outputs[0].numel == 0)
        return status;
    /* Neither product overflows, because both are factors of the output's number of elements. */
    (void)td_shape_product(&shape, 0, axis, &plan->n_rows);
    (void)td_shape_product(&shape, axis + 1, shape.rank, &plan->inner);
    return TD_OK;
}

static struct td_cost cost(const struct td_op_args *args)
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

/* ---- Copying ----------------------------------------------------------------------------- */

struct job {
    const struct plan *plan;
    const struct td_tensor *inputs;
    struct td_tensor *out;
    size_t step_bytes; /* bytes per step along axis */
    size_t row_bytes;  /* bytes of an output row */
    int64_t row_parts; /* number of parts of TD_ROWS_RANGE_BYTES per row */
};

/* Copies one chunk for each of n rows. */
static inline __attribute__((always_inline)) void copy_chunks(char *restrict to, size_t to_stride,
                                                              const char *restrict from,
                                                              size_t chunk_bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++, to += to_stride, from += chunk_bytes)
        memcpy(to, from, chunk_bytes);
}

/* Copies chunks of each narrow width with a constant size, so each copy is a single move. A call to
 * memcpy would take longer than the copy. */
static void copy_chunks_by_width(char *to, size_t to_stride, const char *from, size_t chunk_bytes,
                                 int64_t n)
{
    switch (chunk_bytes) {
#define CASE(width)                                                                                \
    case width:                                                                                    \
        copy_chunks(to, to_stride, from, width, n);                                                \
        break
        CASE(1);
        CASE(2);
        CASE(4);
        CASE(8);
        CASE(12);
        CASE(16);
        CASE(24);
        CASE(32);
        CASE(64);
#undef CASE
    default:
        copy_chunks(to, to_stride, from, chunk_bytes, n);
    }
}

/* Copies whole rows, one input at a time. The rows of a range stay in the L2 cache until all inputs
 * have been copied. */
static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t *start = job->plan->start;
    char *to = (char *)job->out->data + (size_t)begin * job->row_bytes;
    for (int i = 0; i < job->plan->count; i++) {
        const size_t chunk_bytes = (size_t)(start[i + 1] - start[i]) * job->step_bytes;
        if (chunk_bytes == 0)
            continue;
        copy_chunks_by_width(to + (size_t)start[i] * job->step_bytes, job->row_bytes,
                             (const char *)job->inputs[i].data + (size_t)begin * chunk_bytes,
                             chunk_bytes, end - begin);
    }
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
        memcpy(to + begin, chunk + (begin - first), stop - begin);
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

/* Implements td_string_rows_fn for concat. A row is one step along axis and has `inner`
 * elements. */
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

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
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
    if (job.row_bytes <= TD_ROWS_RANGE_BYTES)
        return td_exec_for(exec, plan->n_rows, td_rows_in_range(job.row_bytes), copy_rows, &job,
                           err);
    job.row_parts = td_rows_parts(job.row_bytes);
    return td_exec_for(exec, plan->n_rows * job.row_parts, 1, copy_parts, &job, err);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "inputs",
        .summary = "The tensors to join, in order. They have the same dtype, and their shapes can "
                   "differ only along axis.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .list = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "axis",
        .summary = "The dimension to join along. A negative number counts from the end.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .offset = offsetof(struct td_concat_attrs, axis),
    },
};

static const td_status errors[] = {
    TD_SHAPE_MISMATCH,   TD_INVALID_AXIS,   TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The tensors, one after the other along axis.",
        .shape_rule = "inputs[0].shape, with the sum of the sizes of all inputs along axis",
        .dtype_of = "inputs",
    },
};

static const struct td_op_example examples[] = {
    { "side by side: axis 1", "{\"inputs\":[[[1,2],[3,4]],[[5],[6]]],\"axis\":1}" },
    { "one below the other", "{\"inputs\":[[[1,2]],[[3,4],[5,6]]]}" },
    { NULL, NULL },
};

const struct td_op td_op_concat = {
    .name = "concat",
    .summary = "Joins tensors along one of their dimensions.",
    .source = "tf.concat (TensorFlow 2 API reference)",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
};
