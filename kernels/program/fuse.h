/* fuse.h - runs consecutive elementwise steps of equal shapes as one chain (chain/chain.h), which
 * reads and writes memory once.
 *
 * Ownership  The groups are in the plan.
 * Threads    As in plan.h and run.h. */
#ifndef TD_KERNELS_PROGRAM_FUSE_H
#define TD_KERNELS_PROGRAM_FUSE_H

#include "kernels/program/plan.h"

/* Sets the group of each step. */
void td_program_fuse(struct td_program_plan *plan);

/* Runs the steps of the group that begins with step `first`. The results that are used outside the
 * group have memory. `values` has room for the number of each value in the chain. */
TD_MUST_CHECK td_status td_program_run_chain(struct td_program_plan *plan, int first, int *values,
                                             struct td_exec *exec, struct td_error *err);

#endif
