/* rows.h - stored programs that compute their outputs row by row, so that calls of one program can
 * be merged along their batch dimension (merge.h).
 *
 * Threads  A plan belongs to its call. */
#ifndef TD_KERNELS_PROGRAM_ROWS_H
#define TD_KERNELS_PROGRAM_ROWS_H

#include "kernels/program/plan.h"

/* True if all inputs are declared with the same letter as their first size, and the letter occurs
 * nowhere else. */
bool td_program_declares_rows(const struct td_program *program);

/* Implements td_op.by_rows: true if each step computes its results row by row, or does not depend
 * on the rows, and all outputs have rows. Sets plan->values[].has_rows. */
bool td_program_by_rows(const struct td_op_args *args, td_tensor_set rows);

/* Implements td_op.is_same: true if both are the same compiled program with the same tables. */
bool td_program_is_same(const struct td_op *op, const struct td_op *other);

#endif
