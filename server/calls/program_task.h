/* program_task.h - the task that runs a program in the body of the request: POST /v1/programs/run.
 *
 * After decoding, the program is an op (kernels/program), and the stages are those of op_task.h. */
#ifndef TD_SERVER_CALLS_PROGRAM_TASK_H
#define TD_SERVER_CALLS_PROGRAM_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_program_run_task;

/* The op of such a call until its body is decoded. It has no inputs and no attributes. */
extern const struct td_op td_posted_program;

#endif
