#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/shapes/layout.h"
#include "kernels/shapes/shapes.h"

#include <string.h>

static td_status check_length(const struct td_ints *perm, const struct td_shape *x,
                              struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    if (perm->count == x->rank)
        return TD_OK;
    td_error_set(err, TD_INVALID_AXIS,
                 "perm has length %d; expected %d, one axis for each dimension of x, which has "
                 "shape %s",
                 perm->count, x->rank, td_shape_text(x, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_AXIS, "perm");
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    struct td_transpose_attrs attrs;
    struct td_shape shape = { .rank = x->shape.rank };
    int64_t of_x[TD_MAX_RANK], strides[TD_MAX_RANK];
    int dims[TD_MAX_RANK];
    memcpy(&attrs, args->attrs, sizeof(attrs));
    for (int d = 0; d < shape.rank; d++)
        dims[d] = shape.rank - 1 - d;
    td_status status = attrs.perm.values ? check_length(&attrs.perm, &x->shape, err) : TD_OK;
    if (status == TD_OK)
        status = td_axes_find("perm", &attrs.perm, "x", &x->shape, dims, err);
    if (status != TD_OK)
        return status;
    td_layout_strides(x, of_x);
    for (int d = 0; d < shape.rank; d++) {
        shape.dim[d] = x->shape.dim[dims[d]];
        strides[d] = of_x[dims[d]];
    }
    return td_layout_output(args, &shape, 0, strides, arena, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    struct td_transpose_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const int rank = args->outputs[0].shape.rank;
    const int64_t first = attrs.perm.values ? attrs.perm.values[0] : rank - 1;
    return td_rows_is_first(rows) && (first == 0 || first == -rank);
}

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "perm",
        .summary = "The dimensions of x in the order of the output, each once. A negative number "
                   "counts from the end.",
        .kind = TD_ATTR_INTS,
        .default_text = "reversed",
        .offset = offsetof(struct td_transpose_attrs, perm),
    },
};

static const struct td_output_spec outputs_specs[] = {
    TD_LAYOUT_OUTPUT("The elements of x in the order of the new dimensions.",
                     "x.shape in the order of perm"),
};

static const struct td_op_example examples[] = {
    { "a matrix", "{\"x\":[[1,2,3],[4,5,6]]}" },
    { "matrices of a batch", "{\"x\":[[[1,2],[3,4]],[[5,6],[7,8]]],\"perm\":[0,2,1]}" },
    { NULL, NULL },
};

const struct td_op td_op_transpose = {
    .name = "transpose",
    .summary = "Permutes the dimensions of a tensor.",
    .source = "tf.transpose (TensorFlow 2 API reference); numpy.transpose",
    .inputs = td_layout_inputs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = td_layout_errors,
    .examples = examples,
    .infer = infer,
    .cost = td_layout_cost,
    .run = td_layout_run,
    .by_rows = by_rows,
};
