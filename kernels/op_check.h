/* op_check.h - checks the arguments of a call against the op's descriptor, and infers its outputs.
 *
 * Ownership  Converted and aligned inputs are copied to the arena.
 * Threads    Reentrant.
 * Errors     INVALID_ARGUMENT: an input or attribute is missing, a list is empty, or an attribute
 *            is outside its minimum and maximum. UNSUPPORTED_DTYPE: the op does not accept the
 *            dtype, or inputs that must have the same dtype differ. SHAPE_MISMATCH: keys are not a
 *            vector. The errors of op->infer. */
#ifndef TD_KERNELS_OP_CHECK_H
#define TD_KERNELS_OP_CHECK_H

#include "kernels/op.h"

/* Performs the checks common to all ops: required inputs and attributes are given, no list is
 * empty, dtypes are accepted and are equal where one_dtype is set, and attributes are in range.
 * Called by td_op_infer. */
TD_MUST_CHECK td_status td_op_check(const struct td_op *op, const struct td_op_args *args,
                                    struct td_error *err);

/* Widens int32 and uint32 keys (key_dtype.h), calls td_op_check, aligns the inputs whose values are
 * read, and calls op->infer. */
TD_MUST_CHECK td_status td_op_infer(const struct td_op *op, struct td_op_args *args,
                                    struct td_arena *arena, struct td_error *err);

#endif
