#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/shapes/layout.h"
#include "kernels/shapes/shapes.h"

#include <string.h>

/* ---- Python's slices --------------------------------------------------------------------- */

/* Moves a start or stop into [low, high]; a negative one counts from the end. */
static int64_t clamped(int64_t place, int64_t size, int64_t low, int64_t high)
{
    if (place < 0)
        place += size;
    return place < low ? low : place > high ? high : place;
}

/* Sets *first to the first selected element of a dimension, and returns the number of selected
 * elements. `step` is not 0. */
static int64_t select_elements(int64_t start, int64_t stop, int64_t step, int64_t size,
                               int64_t *first)
{
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    *first = clamped(start, size, low, high);
    stop = clamped(stop, size, low, high);
    const int64_t distance = step > 0 ? stop - *first : *first - stop;
    const uint64_t magnitude = step > 0 ? (uint64_t)step : -(uint64_t)step;
    return distance > 0 ? 1 + (int64_t)((uint64_t)(distance - 1) / magnitude) : 0;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Checks that a list has as many values as starts. A list that is not given fits. */
static td_status check_length(const char *name, const struct td_ints *list,
                              const struct td_ints *starts, struct td_error *err)
{
    if (!list->values || list->count == starts->count)
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT, "%s has length %d; expected %d, the length of starts",
                 name, list->count, starts->count);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
}

static td_status check_lists(const struct td_slice_attrs *attrs, const struct td_shape *x,
                             struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    td_status status = check_length("stops", &attrs->stops, &attrs->starts, err);
    if (status == TD_OK)
        status = check_length("steps", &attrs->steps, &attrs->starts, err);
    if (status == TD_OK)
        status = check_length("axes", &attrs->axes, &attrs->starts, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < attrs->steps.count; i++)
        if (attrs->steps.values[i] == 0) {
            td_error_set(err, TD_INVALID_ARGUMENT,
                         "steps[%d] is 0; expected a number above or below 0", i);
            return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "steps");
        }
    if (attrs->axes.values || attrs->starts.count <= x->rank)
        return TD_OK;
    td_error_set(err, TD_INVALID_AXIS,
                 "starts has length %d; expected at most %d, the rank of x, which has shape %s",
                 attrs->starts.count, x->rank, td_shape_text(x, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_AXIS, "starts");
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    struct td_slice_attrs attrs;
    struct td_shape shape = x->shape;
    int64_t strides[TD_MAX_RANK], first = 0;
    int dims[TD_MAX_RANK];
    memcpy(&attrs, args->attrs, sizeof(attrs));
    for (int d = 0; d < shape.rank; d++)
        dims[d] = d;
    td_status status = check_lists(&attrs, &x->shape, err);
    if (status == TD_OK)
        status = td_axes_find("axes", &attrs.axes, "x", &x->shape, dims, err);
    if (status != TD_OK)
        return status;
    td_layout_strides(x, strides);
    for (int i = 0; i < attrs.starts.count; i++) {
        const int d = dims[i];
        const int64_t step = attrs.steps.values ? attrs.steps.values[i] : 1;
        int64_t place;
        shape.dim[d] = select_elements(attrs.starts.values[i], attrs.stops.values[i], step,
                                       x->shape.dim[d], &place);
        first += shape.dim[d] > 0 ? place * strides[d] : 0;
        /* With two elements, the step is less than the size, so the product does not overflow. */
        strides[d] *= shape.dim[d] > 1 ? step : 0;
    }
    return td_layout_output(args, &shape, first, strides, arena, err);
}

/* True if the call takes all rows, in order. Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    struct td_slice_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    for (int i = 0; i < attrs.starts.count; i++) {
        const int64_t axis = attrs.axes.values ? attrs.axes.values[i] : i;
        const bool in_order = !attrs.steps.values || attrs.steps.values[i] == 1;
        if (!td_axis_is_in_rows(axis, &args->outputs[0].shape) && !in_order)
            return false;
    }
    return td_rows_is_first(rows);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "starts",
        .summary = "The first element to take along each axis. A negative number counts from the "
                   "end, and a number out of range is clamped, as in Python.",
        .kind = TD_ATTR_INTS,
        .required = true,
        .offset = offsetof(struct td_slice_attrs, starts),
    },
    {
        .name = "stops",
        .summary = "The end of the elements to take along each axis, which is not taken itself. "
                   "Counts like starts. A stop out of range takes all elements up to the end; with "
                   "a negative step, up to the first element.",
        .kind = TD_ATTR_INTS,
        .required = true,
        .offset = offsetof(struct td_slice_attrs, stops),
    },
    {
        .name = "steps",
        .summary = "The distance between two elements along each axis. With a negative step, the "
                   "elements are taken in reverse.",
        .kind = TD_ATTR_INTS,
        .default_text = "1",
        .offset = offsetof(struct td_slice_attrs, steps),
    },
    {
        .name = "axes",
        .summary = "The dimensions that the other lists are for, in the same order. A negative "
                   "number counts from the end. The output has all elements along other "
                   "dimensions.",
        .kind = TD_ATTR_INTS,
        .default_text = "the first dimensions",
        .offset = offsetof(struct td_slice_attrs, axes),
    },
};

static const struct td_output_spec outputs_specs[] = {
    TD_LAYOUT_OUTPUT("The selected elements.",
                     "x.shape, with the number of selected elements along each of axes"),
};

static const struct td_op_example examples[] = {
    { "the second and third row", "{\"x\":[[1,2],[3,4],[5,6]],\"starts\":[1],\"stops\":[3]}" },
    { "every second column",
      "{\"x\":[[1,2,3],[4,5,6]],\"starts\":[0],\"stops\":[3],\"steps\":[2],\"axes\":[1]}" },
    { "a vector in reverse", "{\"x\":[1,2,3],\"starts\":[-1],\"stops\":[-4],\"steps\":[-1]}" },
    { NULL, NULL },
};

const struct td_op td_op_slice = {
    .name = "slice",
    .summary = "Takes a range of elements along each dimension.",
    .source =
        "Python's slices (x[start:stop:step], The Python Language Reference), also by axes as "
        "Slice of ONNX",
    .inputs = td_layout_inputs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 4,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = td_layout_errors,
    .examples = examples,
    .infer = infer,
    .cost = td_layout_cost,
    .run = td_layout_run,
    .by_rows = by_rows,
};
