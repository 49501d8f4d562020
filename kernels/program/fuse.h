/* fuse.h - runs consecutive elementwise steps of equal shapes as one chain (chain/chain.h), which
 * reads and writes memory once.
 *
 * Ownership  The groups are in the plan.
 * Threads    As in plan.h and run.h. */
#ifndef TD_KERNELS_PROGRAM_FUSE_H
#define TD_KERNELS_PROGRAM_FUSE_H

#include "kernels/chain/calls.h"
#include "kernels/program/plan.h"

/* Sets the group of each step. */
void td_program_fuse(struct td_program_plan *plan);

/* Describes the steps of the group that starts with step `first` as calls of a chain. `calls` has
 * room for TD_CHAIN_STEPS calls. Returns the number of calls. */
int td_program_chain_calls(const struct td_program_plan *plan, int first,
                           struct td_chain_call *calls);

/* Runs the steps of the group that starts with step `first`. The inputs of the group, and the
 * results that are used outside the group, must have data. */
TD_MUST_CHECK td_status td_program_run_chain(const struct td_program_plan *plan, int first,
                                             struct td_exec *exec, struct td_error *err);

#endif
