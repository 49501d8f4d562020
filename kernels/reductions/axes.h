/* axes.h - the dimensions along which an op works, from its attributes.
 *
 * Errors     INVALID_AXIS: an axis outside [-rank, rank), so every axis of a scalar; an axis that
 *            is given twice. INVALID_ARGUMENT: a dimension of 0 that must not be 0.
 * Threads    Pure functions. */
#ifndef TD_KERNELS_REDUCTIONS_AXES_H
#define TD_KERNELS_REDUCTIONS_AXES_H

#include "kernels/op.h"

/* Returns INVALID_AXIS unless the dimensions in the list exist, each at most once. */
TD_MUST_CHECK td_status td_axes_check(const struct td_ints *list, const struct td_shape *x,
                                      struct td_error *err);

/* Returns a set of dimensions, which has bit d for each dimension d in the list, or for all
 * dimensions if the list is not given. The list is valid. */
uint32_t td_axes_set(const struct td_ints *list, int rank);

/* Reads the attribute `axis`. */
TD_MUST_CHECK td_status td_axis_read(int64_t axis, const struct td_shape *x, int *out,
                                     struct td_error *err);

/* Returns INVALID_ARGUMENT if one of the dimensions is 0. */
TD_MUST_CHECK td_status td_axes_refuse_empty(const struct td_shape *x, uint32_t axes,
                                             const char *op, struct td_error *err);

#endif
