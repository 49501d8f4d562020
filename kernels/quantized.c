#include "kernels/quantized.h"

const char *const td_row_layout_names[] = {
    [TD_ROW_LAYOUT_PLAIN] = "plain",
    [TD_ROW_LAYOUT_BYTE_ROWWISE] = "byte_rowwise",
    NULL,
};

bool td_is_quantized(td_dtype dtype)
{
    return dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8;
}

enum { PARTS = 3 };

struct part {
    const char *name;
    const struct td_tensor *tensor;
};

static td_status refuse(const char *name, const char *problem, struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT, "%s is given %s", name, problem);
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", name);
}

/* Checks a vector of one element per row, or a scalar. */
static td_status check_length(const struct part *part, const struct td_tensor *params,
                              struct td_error *err)
{
    const struct td_shape *shape = &part->tensor->shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (shape->rank == 0 || (shape->rank == 1 && shape->dim[0] == params->shape.dim[0]))
        return TD_OK;
    td_shape_text(shape, text, sizeof(text));
    if (shape->rank != 1)
        td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected a vector", part->name,
                     text);
    else
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "%s has shape %s and params %s; expected one element per row, or a scalar",
                     part->name, text, td_shape_text(&params->shape, more, sizeof(more)));
    if (shape->rank == 1)
        td_error_add_shape(err, "params", &params->shape);
    td_error_add_shape(err, part->name, shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", part->name);
}

/* Checks rows that end with their scale and offset. */
static td_status check_trailer(const struct td_quantized *rows, const struct part *parts,
                               struct td_error *err)
{
    const struct td_tensor *params = rows->params;
    char text[TD_SHAPE_TEXT];
    if (params->dtype != TD_DTYPE_UINT8) {
        td_error_set(err, TD_UNSUPPORTED_DTYPE,
                     "params has dtype %s; expected uint8 with layout = byte_rowwise",
                     td_dtype_info(params->dtype)->name);
        return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "params");
    }
    for (int i = 0; i < PARTS; i++)
        if (parts[i].tensor)
            return refuse(parts[i].name,
                          "with layout = byte_rowwise, in which each row has its own", err);
    if (params->shape.rank == 2 && params->shape.dim[1] >= TD_ROW_TRAILER)
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "params has shape %s; layout = byte_rowwise expects rows of at least %d bytes, of "
                 "which the last %d are scale and offset",
                 td_shape_text(&params->shape, text, sizeof(text)), TD_ROW_TRAILER, TD_ROW_TRAILER);
    td_error_add_shape(err, "params", &params->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "params");
}

/* Checks that integers have a scale, and not both an offset and a zero point. */
static td_status check_integers(const struct td_quantized *rows, struct td_error *err)
{
    if (rows->offset && rows->zero_point)
        return refuse("zero_point", "together with offset; at most one of them is allowed", err);
    if (rows->scale)
        return TD_OK;
    td_error_set(err, TD_UNSUPPORTED_DTYPE,
                 "params has dtype %s and scale is missing; without scale, expected float16, "
                 "bfloat16, float32 or float64. Rows quantised by deploy/import need scale and "
                 "offset, which are the tables X.scale and X.offset beside X",
                 td_dtype_info(rows->params->dtype)->name);
    return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "params");
}

td_status td_quantized_check(const struct td_quantized *rows, struct td_error *err)
{
    const struct part parts[PARTS] = {
        { "scale", rows->scale },
        { "offset", rows->offset },
        { "zero_point", rows->zero_point },
    };
    const bool quantized = td_is_quantized(rows->params->dtype);
    td_status status = TD_OK;
    if (rows->layout == TD_ROW_LAYOUT_BYTE_ROWWISE)
        return check_trailer(rows, parts, err);
    if (quantized)
        status = check_integers(rows, err);
    for (int i = 0; i < PARTS && status == TD_OK; i++) {
        if (!parts[i].tensor)
            continue;
        if (!quantized)
            return refuse(parts[i].name, "without quantised params; expected int8 or uint8", err);
        status = check_length(&parts[i], rows->params, err);
    }
    return status;
}
