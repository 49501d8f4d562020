/* by_rows.h - determines whether an op computes each row of its outputs from one row of some of its
 * inputs. Such calls can be merged along the first dimension (merge.h).
 *
 * Threads  Pure functions. */
#ifndef TD_KERNELS_BY_ROWS_H
#define TD_KERNELS_BY_ROWS_H

#include "kernels/op.h"

/* True if row i of each output depends on row i of the tensors in `rows`, and on nothing else but
 * the other tensors. Rows are along the first dimension. The tensors in `rows` and all outputs then
 * have the same number of rows. Called after infer. Reads no data. */
bool td_op_by_rows(const struct td_op_args *args, td_tensor_set rows);

/* True if `rows` has input i, which is not a list and is given. */
bool td_rows_has_input(const struct td_op_args *args, td_tensor_set rows, int i);

/* True if `rows` has the given inputs of a set, in which bit i is input i, and no other tensors. */
bool td_rows_are_inputs(const struct td_op_args *args, td_tensor_set rows, uint64_t inputs);

/* True if the axis, which has been checked, is not the first dimension. An op along the axis then
 * computes each row on its own. */
static inline bool td_axis_is_in_rows(int64_t axis, const struct td_shape *shape)
{
    return axis != 0 && axis != -shape->rank;
}

/* True if `rows` has only the first tensor. */
static inline bool td_rows_is_first(td_tensor_set rows)
{
    return rows == 1;
}

/* True if `rows` has all tensors of the first input, which is a list of n tensors. */
static inline bool td_rows_is_list(td_tensor_set rows, int n)
{
    return n < TD_TENSOR_SET_MOST && rows == (UINT64_C(1) << n) - 1;
}

#endif
