/* steps.h - the steps of a program as work for a device.
 *
 * Each step or chain of a program that a device supports (support.h) is one launch. Steps that only
 * reshape take no launch.
 *
 * Ownership  Works are in the arena, and refer to the plan.
 * Threads    A plan belongs to one thread at a time. */
#ifndef TD_SERVER_DEVICES_STEPS_H
#define TD_SERVER_DEVICES_STEPS_H

#include "gpu/device.h"
#include "kernels/program/plan.h"

/* Returns the number of launches. */
int td_steps_count(const struct td_program_plan *plan);

/* Makes the works of all launches, and for each the number of its first step. */
TD_MUST_CHECK td_status td_steps_works(const struct td_program_plan *plan, struct td_arena *arena,
                                       struct td_device_work **works, int **steps,
                                       struct td_error *err);

/* Divides the queries of a step among n merged calls, in work->n_items and work->item_end, if each
 * call has queries of its own. Otherwise the step has one item, which all calls share. */
TD_MUST_CHECK td_status td_steps_divide(const struct td_program_plan *plan, int step,
                                        const struct td_op_args *const *calls, int n,
                                        struct td_arena *arena, struct td_device_work *work,
                                        struct td_error *err);

#endif
