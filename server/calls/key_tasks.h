/* key_tasks.h - the tasks of /v1/tensors/{name}/keys: the keys of a table's rows.
 *
 *     get       GET     the keys, with the same task as for a tensor (tensor_tasks.h)
 *     put       PUT     creates a version with the same rows and these keys; 201 if it had none
 *     delete    DELETE  creates a version with the same rows and no keys; 204
 *
 * Errors   CONFLICT if the numbers of keys and rows differ, or if the table is an immutable
 *          version; INVALID_ARGUMENT with the positions of equal keys; TENSOR_NOT_FOUND. */
#ifndef TD_SERVER_CALLS_KEY_TASKS_H
#define TD_SERVER_CALLS_KEY_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_keys_get_task, td_keys_put_task, td_keys_delete_task;

#endif
