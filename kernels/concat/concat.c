#include "kernels/concat/concat.h"

#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/permute/joining.h"

#include <inttypes.h>
#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status check_shape(const struct td_op_args *args, int i, int axis, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    const struct td_shape *first = &inputs->tensors[0].shape, *shape = &inputs->tensors[i].shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_shape_text(shape, text, sizeof(text));
    td_shape_text(first, more, sizeof(more));
    if (shape->rank != first->rank) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "inputs[%d] %s has rank %d; expected %d, as in inputs[0] %s", i, text,
                     shape->rank, first->rank, more);
        return td_joining_mismatch(args, i, err);
    }
    for (int d = 0; d < shape->rank; d++) {
        if (d == axis || shape->dim[d] == first->dim[d])
            continue;
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "dimension %d of inputs[%d] %s is %" PRId64 "; expected %" PRId64
                     ", as in inputs[0] %s; only dimension %d, the axis, can differ",
                     d, i, text, shape->dim[d], first->dim[d], more, axis);
        return td_joining_mismatch(args, i, err);
    }
    return TD_OK;
}

/* Checks the shapes of all inputs and adds up their extents along axis. */
static td_status place_inputs(const struct td_op_args *args, int axis, int64_t *start,
                              struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    start[0] = 0;
    for (int i = 0; i < inputs->count; i++) {
        td_status status = check_shape(args, i, axis, err);
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
    int64_t *start = td_arena_alloc(arena, (size_t)inputs->count + 1, sizeof(start[0]), err);
    if (!start)
        return err->status;
    status = place_inputs(args, axis, start, err);
    if (status != TD_OK)
        return status;
    struct td_shape shape = inputs->tensors[0].shape;
    shape.dim[axis] = start[inputs->count];
    return td_joining_output(args, &shape, axis, start, arena, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_operand *inputs = &args->inputs[0];
    struct td_concat_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return td_rows_is_list(rows, inputs->count) &&
           td_axis_is_in_rows(attrs.axis, &inputs->tensors[0].shape);
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
    .cost = td_joining_cost,
    .run = td_joining_run,
    .by_rows = by_rows,
};
