/* program_task.h - the tasks that run or plan a program. The body of POST /v1/programs/run and of
 * /v1/programs/plan contains the program. POST /v1/programs/{program} runs a stored program.
 *
 * After decoding, the program is an op (kernels/program), and the stages are those of op_task.h. */
#ifndef TD_SERVER_CALLS_PROGRAM_TASK_H
#define TD_SERVER_CALLS_PROGRAM_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_program_run_task, td_program_plan_task, td_stored_program_task;

/* The op of a call whose body contains a program to run or to plan, until the body is decoded. The
 * op has no inputs and no attributes. */
extern const struct td_op td_posted_program, td_posted_plan;

#endif
