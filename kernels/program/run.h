/* run.h - runs the steps of a program.
 *
 * Ownership  Results are in one block of memory. A result whose size was not known in advance is in
 *            memory of its own, which is freed after the last step that reads the result. The
 *            memory that a step allocates for itself is freed after the step.
 * Threads    Steps run one after another; each splits its work through exec.
 * Errors     The errors of the steps, and DEADLINE_EXCEEDED between two steps. */
#ifndef TD_KERNELS_PROGRAM_RUN_H
#define TD_KERNELS_PROGRAM_RUN_H

#include "kernels/op.h"

/* Implements td_op.run. */
TD_MUST_CHECK td_status td_program_run(struct td_op_args *args, struct td_exec *exec,
                                       struct td_error *err);

#endif
