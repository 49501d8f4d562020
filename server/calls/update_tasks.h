/* update_tasks.h - the task of the ops that change some rows of a resident tensor
 * (kernels/op_change.h), all in one version that readers get whole.
 *
 * A change in place, and one by key that neither adds nor removes rows, are written into the copy
 * that the store keeps for that (store.h), so they cost what they change. Others copy the table and
 * build the index of its keys.
 *
 * Errors   as of tensor_tasks.h, and of the ops; INVALID_ARGUMENT if a table without keys is to be
 *          changed by key; CONFLICT if the name is that of an immutable version or an alias. */
#ifndef TD_SERVER_CALLS_UPDATE_TASKS_H
#define TD_SERVER_CALLS_UPDATE_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_table_change_task;

#endif
