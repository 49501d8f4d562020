/* pass.h - lets calls of programs share a pass over a table (op_pass.h).
 *
 *     prepare: the steps before the shared step ─► run: the shared step of all calls ─► finish:
 *     the steps after it
 *
 * The shared step is a step whose op can share a pass, and that does most of the program's work.
 * The programs of the calls can differ in everything else. Each call runs its other steps alone, so
 * its results have the same bits as without the other calls.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_PROGRAM_PASS_H
#define TD_KERNELS_PROGRAM_PASS_H

#include "kernels/op_pass.h"
#include "kernels/program/plan.h"

/* td_op.pass of programs that have a step whose op can share a pass. */
extern const struct td_op_pass td_program_pass;

/* Returns the step of a planned call that can be shared, or -1. */
int td_program_shared_step(const struct td_program_plan *plan);

#endif
