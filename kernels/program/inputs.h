/* inputs.h - finds the tensors that a planned program reads, and the arguments of steps that use
 * them. A device needs both, because it has copies of the tensors at other addresses.
 *
 * Ownership  Everything is in the arena of the plan.
 * Threads    A plan belongs to its call. */
#ifndef TD_KERNELS_PROGRAM_INPUTS_H
#define TD_KERNELS_PROGRAM_INPUTS_H

#include "kernels/program/plan.h"

/* Sets plan->inputs and plan->uses. Both include only steps that are described. */
TD_MUST_CHECK td_status td_program_find_inputs(struct td_program_plan *plan, struct td_arena *arena,
                                               struct td_error *err);

/* Copies the data and the key index of each input to all uses of the input. */
void td_program_pass_inputs(const struct td_program_plan *plan);

/* Gives each result of a step its data: outputs[i].data for output i of the program, and otherwise
 * its place in the block. Also gives it to the steps that use the result. */
void td_program_bind_results(struct td_program_plan *plan, const struct td_tensor *outputs,
                             char *block);

#endif
