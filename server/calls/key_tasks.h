/* key_tasks.h - the tasks of /v1/tensors/{name}/keys: the keys of a table's rows.
 *
 *     get       GET     as of a tensor (tensor_tasks.h)
 *     put       PUT     a new version with the same rows; 201 if there were no keys
 *     delete    DELETE  a new version with the same rows and without keys; 204
 *
 * Errors   CONFLICT if there are not as many keys as rows, or if the table is an immutable version;
 *          INVALID_ARGUMENT with the positions of equal keys; TENSOR_NOT_FOUND. */
#ifndef TD_SERVER_CALLS_KEY_TASKS_H
#define TD_SERVER_CALLS_KEY_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_keys_get_task, td_keys_put_task, td_keys_delete_task;

#endif
