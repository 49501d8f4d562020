/* tensor_tasks.h - the tasks of /v1/tensors/{name}: a resident tensor over HTTP.
 *
 *     get       GET     metadata, or the tensor with Accept or ?response; conditions, ranges
 *     put       PUT     creates a new version; 201 if the tensor did not exist
 *     delete    DELETE  204
 *
 * Changes always run on a worker, because they might wait for each other and for the disk. A GET
 * runs on a worker if its reply is long text or slow to measure. A tensor's data is sent from the
 * resident version without a copy, even if the name is replaced or deleted in the meantime.
 *
 * Errors   INVALID_ARGUMENT for an invalid name, TENSOR_NOT_FOUND, PRECONDITION_FAILED; errors of
 *          the formats and of the store. */
#ifndef TD_SERVER_CALLS_TENSOR_TASKS_H
#define TD_SERVER_CALLS_TENSOR_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_get_task, td_tensor_put_task, td_tensor_delete_task;

#endif
