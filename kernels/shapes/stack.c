#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/permute/joining.h"
#include "kernels/shapes/shapes.h"

#include <string.h>

static td_status check_shapes(const struct td_op_args *args, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    const struct td_shape *first = &inputs->tensors[0].shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    for (int i = 1; i < inputs->count; i++) {
        if (td_shape_equal(&inputs->tensors[i].shape, first))
            continue;
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "inputs[%d] has shape %s; expected %s, as inputs[0] has", i,
                     td_shape_text(&inputs->tensors[i].shape, text, sizeof(text)),
                     td_shape_text(first, more, sizeof(more)));
        return td_joining_mismatch(args, i, err);
    }
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    const struct td_shape *first = &inputs->tensors[0].shape;
    struct td_stack_attrs attrs;
    struct td_shape shape = { .rank = 0 };
    int axis;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    td_status status = td_axis_find_new(attrs.axis, "inputs[0]", first, &axis, err);
    if (status == TD_OK)
        status = check_shapes(args, err);
    if (status != TD_OK)
        return status;
    int64_t *start = td_arena_alloc(arena, (size_t)inputs->count + 1, sizeof(start[0]), err);
    if (!start)
        return err->status;
    for (int i = 0; i <= inputs->count; i++)
        start[i] = i;
    (void)td_shape_append(&shape, first, 0, axis);
    shape.dim[shape.rank++] = inputs->count;
    (void)td_shape_append(&shape, first, axis, first->rank);
    return td_joining_output(args, &shape, axis, start, arena, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    struct td_stack_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return td_rows_is_list(rows, args->inputs[0].count) &&
           td_axis_is_in_rows(attrs.axis, &args->outputs[0].shape);
}

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "inputs",
        .summary = "The tensors to stack, in order. They have the same dtype and the same shape.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .list = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "axis",
        .summary = "The position of the new dimension in the output. A negative number counts from "
                   "the end of the output.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .offset = offsetof(struct td_stack_attrs, axis),
    },
};

static const td_status errors[] = {
    TD_SHAPE_MISMATCH,   TD_INVALID_AXIS,   TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The tensors, one after the other along the new dimension.",
        .shape_rule = "inputs[0].shape, with the number of inputs at axis",
        .dtype_of = "inputs",
    },
};

static const struct td_op_example examples[] = {
    { "vectors as rows", "{\"inputs\":[[1,2,3],[4,5,6]]}" },
    { "vectors as columns", "{\"inputs\":[[1,2,3],[4,5,6]],\"axis\":-1}" },
    { NULL, NULL },
};

const struct td_op td_op_stack = {
    .name = "stack",
    .summary = "Joins tensors of one shape along a new dimension.",
    .source = "tf.stack (TensorFlow 2 API reference); numpy.stack",
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
