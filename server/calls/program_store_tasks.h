/* program_store_tasks.h - the tasks that store, describe and delete a program: PUT, GET and DELETE
 * of /v1/programs/{program}. */
#ifndef TD_SERVER_CALLS_PROGRAM_STORE_TASKS_H
#define TD_SERVER_CALLS_PROGRAM_STORE_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_program_get_task, td_program_put_task, td_program_delete_task;

#endif
