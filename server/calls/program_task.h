/* program_task.h - the tasks that run or plan a program: POST /v1/programs/run and
 * /v1/programs/plan, whose body contains the program, and POST /v1/programs/{program}, which runs a
 * stored one.
 *
 * After decoding, the program is an op (kernels/program), and the stages are those of op_task.h. */
#ifndef TD_SERVER_CALLS_PROGRAM_TASK_H
#define TD_SERVER_CALLS_PROGRAM_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_program_run_task, td_program_plan_task, td_stored_program_task;

/* The op of a call that runs or plans a program, until its body is decoded. It has no inputs and no
 * attributes. */
extern const struct td_op td_posted_program, td_posted_plan;

#endif
