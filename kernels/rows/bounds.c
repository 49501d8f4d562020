#include "kernels/rows/bounds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sets the error for element `first` of an index tensor, with the message "indices[0,1] = 7
 * <problem>". */
static td_status bad_index(struct td_error *err, const char *name, const struct td_tensor *indices,
                           int64_t first, int64_t n_bad, const char *problem)
{
    struct td_shape position = { .rank = indices->shape.rank };
    td_shape_unravel(&indices->shape, first, position.dim);
    int64_t index = td_tensor_index_at(indices, first);
    char place[TD_SHAPE_TEXT] = ""; /* a scalar has no coordinates */
    if (position.rank > 0)
        td_shape_text(&position, place, sizeof(place));
    td_error_set(err, TD_INDEX_OUT_OF_BOUNDS, "%s%s = %" PRId64 " %s", name, place, index, problem);
    err->has_index = true;
    err->position_rank = position.rank;
    memcpy(err->position, position.dim, sizeof(err->position));
    err->index = index;
    err->bad_count = n_bad;
    return td_error_at_input(err, TD_INDEX_OUT_OF_BOUNDS, "%s", name);
}

td_status td_rows_out_of_bounds(struct td_error *err, const char *name,
                                const struct td_tensor *indices, int64_t first, int64_t n_bad,
                                int64_t bound, int axis, const char *more)
{
    char problem[2 * TD_SHAPE_TEXT + 128]; /* more than fits in the message */
    snprintf(problem, sizeof(problem), "is not in [0, %" PRId64 ")%s", bound, more);
    bad_index(err, name, indices, first, n_bad, problem);
    err->has_bound = true;
    err->bound = bound;
    err->axis = axis;
    return TD_INDEX_OUT_OF_BOUNDS;
}

td_status td_rows_bad_tuple(const struct td_tensor *params, const struct td_tensor *indices,
                            int first_dim, int64_t first, int64_t n_bad, struct td_error *err)
{
    int64_t position[TD_MAX_RANK];
    td_shape_unravel(&indices->shape, first, position);
    int last = indices->shape.rank - 1, component = (int)position[last];
    int dimension = first_dim + component;
    struct td_shape tuple = { .rank = (int)indices->shape.dim[last] };
    for (int c = 0; c < tuple.rank; c++)
        tuple.dim[c] = td_tensor_index_at(indices, first - component + c);
    char text[TD_SHAPE_TEXT], shape[TD_SHAPE_TEXT], more[2 * TD_SHAPE_TEXT + 64];
    snprintf(more, sizeof(more), ": tuple %s indexes dimension %d of params %s",
             td_shape_text(&tuple, text, sizeof(text)), dimension,
             td_shape_text(&params->shape, shape, sizeof(shape)));
    return td_rows_out_of_bounds(err, "indices", indices, first, n_bad,
                                 params->shape.dim[dimension], dimension, more);
}

const char *td_rows_bounds_hint(const struct td_tensor *indices, int64_t first, int64_t bound)
{
    const int64_t index = td_tensor_index_at(indices, first);
    if (bound <= 0 || index >= 0)
        return "";
    return index == -1
               ? "; find returns -1 for a missing key, for which bounds = zero gives zeros; "
                 "bounds = wrap counts negative indices from the end"
               : "; bounds = wrap counts negative indices from the end";
}

td_status td_rows_negative(struct td_error *err, const char *name, const struct td_tensor *indices,
                           int64_t first, int64_t n_bad)
{
    return bad_index(err, name, indices, first, n_bad, "is negative; must be at least 0");
}
