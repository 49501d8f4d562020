#include "kernels/axes.h"

#include <inttypes.h>
#include <stdio.h>

static td_status refuse_scalar(const char *input, struct td_error *err)
{
    td_error_set(err, TD_INVALID_AXIS, "%s is a scalar; expected at least one dimension", input);
    return td_error_at_input(err, TD_INVALID_AXIS, "%s", input);
}

/* Refuses an axis out of range. `place` follows the attribute: "", or "[1]" for an element. */
static td_status refuse_axis(const char *attribute, const char *place, int64_t axis,
                             const char *input, const struct td_shape *shape, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    if (shape->rank == 0)
        return refuse_scalar(input, err);
    td_error_set(err, TD_INVALID_AXIS, "%s%s = %" PRId64 " is not in [-%d, %d): %s has shape %s",
                 attribute, place, axis, shape->rank, shape->rank, input,
                 td_shape_text(shape, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_AXIS, attribute);
}

td_status td_axis_find(int64_t axis, const char *input, const struct td_shape *shape, int *out,
                       struct td_error *err)
{
    return td_axis_normalize(axis, shape->rank, out)
               ? TD_OK
               : refuse_axis("axis", "", axis, input, shape, err);
}

td_status td_axis_find_new(int64_t axis, const char *input, const struct td_shape *shape, int *out,
                           struct td_error *err)
{
    const int rank = shape->rank + 1;
    char text[TD_SHAPE_TEXT];
    if (!td_axis_normalize(axis, rank, out)) {
        td_error_set(err, TD_INVALID_AXIS,
                     "axis = %" PRId64 " is not in [-%d, %d): the output has one dimension more "
                     "than %s, which has shape %s",
                     axis, rank, rank, input, td_shape_text(shape, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_AXIS, "axis");
    }
    return td_axes_check_rank(rank, err);
}

td_status td_axes_find(const char *attribute, const struct td_ints *axes, const char *input,
                       const struct td_shape *shape, int *out, struct td_error *err)
{
    int named_by[TD_MAX_RANK] = { 0 }; /* 1 + the element of `axes`; 0: not named */
    for (int i = 0; i < axes->count; i++) {
        const int64_t axis = axes->values[i];
        char place[16];
        int dim;
        if (!td_axis_normalize(axis, shape->rank, &dim)) {
            snprintf(place, sizeof(place), "[%d]", i);
            return refuse_axis(attribute, place, axis, input, shape, err);
        }
        if (named_by[dim] > 0) {
            td_error_set(err, TD_INVALID_AXIS,
                         "%s[%d] = %" PRId64 " names dimension %d, as %s[%d] does; expected "
                         "distinct dimensions",
                         attribute, i, axis, dim, attribute, named_by[dim] - 1);
            return td_error_at_attribute(err, TD_INVALID_AXIS, attribute);
        }
        named_by[dim] = i + 1;
        out[i] = dim;
    }
    return TD_OK;
}

td_status td_axes_check_rank(int rank, struct td_error *err)
{
    return rank <= TD_MAX_RANK
               ? TD_OK
               : td_error_resource(err, "rank", (uint64_t)rank, TD_MAX_RANK, "output");
}
