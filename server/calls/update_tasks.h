/* update_tasks.h - the task for ops that change some rows of a resident tensor
 * (kernels/op_change.h). All rows change in one version, which readers see as a whole.
 *
 * A change in place, and a change by key that neither adds nor removes rows, is written into a copy
 * that the store keeps for this purpose (store.h). Its cost therefore depends only on the number of
 * rows changed. Other changes copy the table and rebuild the index of its keys.
 *
 * Errors   The errors of tensor_tasks.h and of the ops; INVALID_ARGUMENT if a table without keys is
 *          changed by key; CONFLICT if the name belongs to an immutable version or an alias. */
#ifndef TD_SERVER_CALLS_UPDATE_TASKS_H
#define TD_SERVER_CALLS_UPDATE_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_table_change_task;

#endif
