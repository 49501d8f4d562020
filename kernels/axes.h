/* axes.h - finds the dimensions that the attributes `axis`, `axes` and `perm` name, for the
 * descriptors' infer functions.
 *
 * A negative axis counts from the end. `input` is the name of the input in messages, such as "x" or
 * "inputs[0]", and `shape` is its shape.
 *
 * Errors     INVALID_AXIS: an axis is out of range, or is named twice; so every axis of a scalar.
 *            RESOURCE_LIMIT (rank): a new dimension would exceed TD_MAX_RANK.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_AXES_H
#define TD_KERNELS_AXES_H

#include "kernels/op.h"

/* Sets *out to the dimension that the attribute `axis` names. */
TD_MUST_CHECK td_status td_axis_find(int64_t axis, const char *input, const struct td_shape *shape,
                                     int *out, struct td_error *err);

/* Sets *out to the position, among rank + 1 dimensions, at which a new dimension is inserted. */
TD_MUST_CHECK td_status td_axis_find_new(int64_t axis, const char *input,
                                         const struct td_shape *shape, int *out,
                                         struct td_error *err);

/* Sets out[i] to the dimension that axes->values[i] names. The dimensions are distinct, so `out`
 * needs room for TD_MAX_RANK. `attribute` is the name of the list. */
TD_MUST_CHECK td_status td_axes_find(const char *attribute, const struct td_ints *axes,
                                     const char *input, const struct td_shape *shape, int *out,
                                     struct td_error *err);

/* Returns TD_OK if an output can have `rank` dimensions, otherwise RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_axes_check_rank(int rank, struct td_error *err);

#endif
