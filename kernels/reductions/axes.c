#include "kernels/reductions/axes.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns INVALID_AXIS for an axis that x does not have. `name` is "axis" or "axes[1]". */
static td_status refuse(const char *name, const char *attribute, int64_t axis,
                        const struct td_shape *x, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    if (x->rank == 0)
        td_error_set(err, TD_INVALID_AXIS, "%s is %" PRId64 ", but x is a scalar", name, axis);
    else
        td_error_set(err, TD_INVALID_AXIS, "%s = %" PRId64 " is not in [-%d, %d): x has shape %s",
                     name, axis, x->rank, x->rank, td_shape_text(x, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_AXIS, attribute);
}

td_status td_axis_read(int64_t axis, const struct td_shape *x, int *out, struct td_error *err)
{
    return td_axis_normalize(axis, x->rank, out) ? TD_OK : refuse("axis", "axis", axis, x, err);
}

/* Returns INVALID_AXIS for element i of the list, whose dimension has been in the list before. */
static td_status refuse_repeated(const struct td_ints *list, int i, int dimension,
                                 struct td_error *err)
{
    td_error_set(err, TD_INVALID_AXIS,
                 "axes[%d] is %" PRId64 ", which is dimension %d again; expected each dimension "
                 "at most once",
                 i, list->values[i], dimension);
    return td_error_at_attribute(err, TD_INVALID_AXIS, "axes");
}

td_status td_axes_check(const struct td_ints *list, const struct td_shape *x, struct td_error *err)
{
    uint32_t axes = 0;
    for (int i = 0; list->values && i < list->count; i++) {
        char name[32];
        int dimension = 0;
        snprintf(name, sizeof(name), "axes[%d]", i);
        if (!td_axis_normalize(list->values[i], x->rank, &dimension))
            return refuse(name, "axes", list->values[i], x, err);
        if (axes >> dimension & 1)
            return refuse_repeated(list, i, dimension, err);
        axes |= (uint32_t)1 << dimension;
    }
    return TD_OK;
}

uint32_t td_axes_set(const struct td_ints *list, int rank)
{
    uint32_t axes = list->values ? 0 : ((uint32_t)1 << rank) - 1;
    for (int i = 0; list->values && i < list->count; i++) {
        int dimension = 0;
        (void)td_axis_normalize(list->values[i], rank, &dimension);
        axes |= (uint32_t)1 << dimension;
    }
    return axes;
}

td_status td_axes_refuse_empty(const struct td_shape *x, uint32_t axes, const char *op,
                               struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    for (int d = 0; d < x->rank; d++)
        if ((axes >> d & 1) && x->dim[d] == 0) {
            td_error_set(err, TD_INVALID_ARGUMENT,
                         "dimension %d of x is 0; %s needs at least one element along it: x has "
                         "shape %s",
                         d, op, td_shape_text(x, text, sizeof(text)));
            return td_error_at_input(err, TD_INVALID_ARGUMENT, "x");
        }
    return TD_OK;
}
