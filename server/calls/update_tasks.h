/* update_tasks.h - the tasks that change some rows of a resident tensor, all in one version that
 * readers get whole.
 *
 *     scatter   POST    writes slices or adds to them, by index
 *     upsert    POST    replaces and appends rows of a table, by key
 *     remove    POST    takes rows of a table out, by key
 *
 * Scatter, and an upsert of keys that the table has, write into the copy that the store keeps for
 * that (store.h), so they cost what they change. Another upsert, and remove, copy the table and
 * build the index of its keys.
 *
 * Errors   as of tensor_tasks.h, and of the ops scatter, upsert, remove; INVALID_ARGUMENT if the
 *          table has no keys; CONFLICT if the name is that of an immutable version or an alias. */
#ifndef TD_SERVER_CALLS_UPDATE_TASKS_H
#define TD_SERVER_CALLS_UPDATE_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_scatter_task, td_table_upsert_task, td_table_remove_task;

#endif
