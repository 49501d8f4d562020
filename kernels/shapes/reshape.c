/* reshape.c - reshape, expand_dims and squeeze: the same elements in another shape. */
#include "kernels/axes.h"
#include "kernels/shapes/layout.h"
#include "kernels/shapes/shapes.h"

#include <inttypes.h>
#include <string.h>

/* ---- reshape ----------------------------------------------------------------------------- */

/* Copies the attribute to *shape. Sets *inferred to the dimension that is -1, or to -1. */
static td_status read_shape(const struct td_ints *sizes, struct td_shape *shape, int *inferred,
                            struct td_error *err)
{
    const td_status status = td_axes_check_rank(sizes->count, err);
    if (status != TD_OK)
        return status;
    *inferred = -1;
    shape->rank = sizes->count;
    for (int d = 0; d < sizes->count; d++) {
        shape->dim[d] = sizes->values[d];
        if (shape->dim[d] != -1)
            continue;
        if (*inferred >= 0) {
            td_error_set(err, TD_INVALID_ARGUMENT,
                         "shape[%d] and shape[%d] are -1; at most one size can be inferred",
                         *inferred, d);
            return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "shape");
        }
        *inferred = d;
    }
    return TD_OK;
}

static td_status refuse_shape(const struct td_tensor *x, const struct td_shape *shape, int inferred,
                              struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_shape_text(shape, text, sizeof(text));
    td_shape_text(&x->shape, more, sizeof(more));
    if (inferred < 0)
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "shape = %s does not fit the %" PRId64 " elements of x, which has shape %s",
                     text, x->numel, more);
    else
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "%s size for the -1 in shape = %s fits the %" PRId64
                     " elements of x, which has shape %s%s",
                     x->numel == 0 ? "every" : "no", text, x->numel, more,
                     x->numel == 0 ? "; pass the size" : "");
    td_error_add_shape(err, "x", &x->shape);
    return td_error_at_attribute(err, TD_SHAPE_MISMATCH, "shape");
}

static td_status infer_reshape(struct td_op_args *args, struct td_arena *arena,
                               struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    struct td_reshape_attrs attrs;
    struct td_shape shape;
    int64_t numel;
    int inferred;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const td_status status = read_shape(&attrs.shape, &shape, &inferred, err);
    if (status != TD_OK)
        return status;
    const struct td_shape given = shape;
    if (inferred >= 0)
        shape.dim[inferred] = 1;
    const bool has_numel = td_shape_numel(&shape, &numel);
    if (inferred >= 0 && has_numel && numel > 0 && x->numel % numel == 0)
        shape.dim[inferred] = x->numel / numel;
    else if (inferred >= 0 || !has_numel || numel != x->numel)
        return refuse_shape(x, &given, inferred, err);
    return td_layout_output(args, &shape, 0, NULL, arena, err);
}

/* ---- expand_dims ------------------------------------------------------------------------- */

static td_status infer_expand_dims(struct td_op_args *args, struct td_arena *arena,
                                   struct td_error *err)
{
    const struct td_shape *x = &args->inputs[0].tensors[0].shape;
    struct td_expand_dims_attrs attrs;
    struct td_shape shape = { .rank = 0 };
    int axis;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const td_status status = td_axis_find_new(attrs.axis, "x", x, &axis, err);
    if (status != TD_OK)
        return status;
    (void)td_shape_append(&shape, x, 0, axis);
    shape.dim[shape.rank++] = 1;
    (void)td_shape_append(&shape, x, axis, x->rank);
    return td_layout_output(args, &shape, 0, NULL, arena, err);
}

/* ---- squeeze ----------------------------------------------------------------------------- */

static td_status refuse_size(const struct td_shape *x, int axis, int dim, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "axes[%d] names dimension %d of x, whose size is %" PRId64
                 "; expected 1: x has shape %s",
                 axis, dim, x->dim[dim], td_shape_text(x, text, sizeof(text)));
    td_error_add_shape(err, "x", x);
    return td_error_at_attribute(err, TD_SHAPE_MISMATCH, "axes");
}

static td_status infer_squeeze(struct td_op_args *args, struct td_arena *arena,
                               struct td_error *err)
{
    const struct td_shape *x = &args->inputs[0].tensors[0].shape;
    struct td_squeeze_attrs attrs;
    struct td_shape shape = { .rank = 0 };
    bool dropped[TD_MAX_RANK] = { false };
    int dims[TD_MAX_RANK];
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const td_status status = td_axes_find("axes", &attrs.axes, "x", x, dims, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < attrs.axes.count; i++) {
        if (x->dim[dims[i]] != 1)
            return refuse_size(x, i, dims[i], err);
        dropped[dims[i]] = true;
    }
    for (int d = 0; d < x->rank; d++)
        if (attrs.axes.values ? !dropped[d] : x->dim[d] != 1)
            shape.dim[shape.rank++] = x->dim[d];
    return td_layout_output(args, &shape, 0, NULL, arena, err);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_attr_spec reshape_attrs[] = {
    {
        .name = "shape",
        .summary = "The shape of the output, which has as many elements as x. One size can be -1, "
                   "which stands for the size that fits.",
        .kind = TD_ATTR_INTS,
        .required = true,
        .range = &(const struct td_int_range){ -1, INT64_MAX },
        .offset = offsetof(struct td_reshape_attrs, shape),
    },
};

static const struct td_attr_spec expand_dims_attrs[] = {
    {
        .name = "axis",
        .summary = "The position of the new dimension in the output. A negative number counts from "
                   "the end of the output.",
        .kind = TD_ATTR_INT,
        .required = true,
        .offset = offsetof(struct td_expand_dims_attrs, axis),
    },
};

static const struct td_attr_spec squeeze_attrs[] = {
    {
        .name = "axes",
        .summary = "The dimensions to remove, which have size 1. A negative number counts from the "
                   "end. An empty list removes none.",
        .kind = TD_ATTR_INTS,
        .default_text = "all of size 1",
        .offset = offsetof(struct td_squeeze_attrs, axes),
    },
};

static const struct td_output_spec reshape_outputs[] = {
    TD_LAYOUT_OUTPUT("The elements of x, in the same order.", "shape"),
};

static const struct td_output_spec expand_dims_outputs[] = {
    TD_LAYOUT_OUTPUT("The elements of x, in the same order.",
                     "x.shape, with a dimension of size 1 at axis"),
};

static const struct td_output_spec squeeze_outputs[] = {
    TD_LAYOUT_OUTPUT("The elements of x, in the same order.", "x.shape without axes"),
};

static const td_status squeeze_errors[] = {
    TD_SHAPE_MISMATCH, TD_INVALID_AXIS, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const td_status reshape_errors[] = {
    TD_SHAPE_MISMATCH,
    TD_INVALID_ARGUMENT,
    TD_RESOURCE_LIMIT,
    TD_OK,
};

static const struct td_op_example reshape_examples[] = {
    { "a vector as rows", "{\"x\":[1,2,3,4,5,6],\"shape\":[2,3]}" },
    { "one size inferred", "{\"x\":[[1,2],[3,4]],\"shape\":[-1]}" },
    { NULL, NULL },
};

static const struct td_op_example expand_dims_examples[] = {
    { "a vector as a column", "{\"x\":[1,2,3],\"axis\":-1}" },
    { NULL, NULL },
};

static const struct td_op_example squeeze_examples[] = {
    { "all dimensions of size 1", "{\"x\":[[[1],[2]]]}" },
    { "one dimension", "{\"x\":[[[1],[2]]],\"axes\":[0]}" },
    { NULL, NULL },
};

#define RESHAPES(op)                                                                               \
    .inputs = td_layout_inputs, .n_inputs = 1, .attrs = op##_attrs, .n_attrs = 1,                  \
    .outputs = op##_outputs, .n_outputs = 1, .examples = op##_examples, .infer = infer_##op,       \
    .cost = td_layout_cost, .run = td_layout_run, .reshapes = true

const struct td_op td_op_reshape = {
    .name = "reshape",
    .summary = "Gives a tensor another shape with the same number of elements.",
    .source = "tf.reshape (TensorFlow 2 API reference); numpy.reshape",
    .errors = reshape_errors,
    RESHAPES(reshape),
};

const struct td_op td_op_expand_dims = {
    .name = "expand_dims",
    .summary = "Inserts a dimension of size 1.",
    .source = "tf.expand_dims (TensorFlow 2 API reference); numpy.expand_dims",
    .errors = td_layout_errors,
    RESHAPES(expand_dims),
};

const struct td_op td_op_squeeze = {
    .name = "squeeze",
    .summary = "Removes dimensions of size 1.",
    .source = "numpy.squeeze; tf.squeeze (TensorFlow 2 API reference), except that an empty list "
              "of axes removes none",
    .errors = squeeze_errors,
    RESHAPES(squeeze),
};
