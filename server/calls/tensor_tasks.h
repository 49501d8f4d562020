/* tensor_tasks.h - the tasks of /v1/tensors/{name}: a resident tensor over HTTP.
 *
 * Writers always run on a worker, since they may wait for each other and for the disk. A GET runs
 * there if its reply is long text or hard to measure. The data of a tensor is sent from the
 * resident version, without a copy, even if the name is replaced or deleted meanwhile.
 *
 *     get       GET     metadata, or with Accept or ?response the tensor; conditions, ranges
 *     put       PUT     a new version; 201 if there was none
 *     delete    DELETE  204
 *
 * Errors   INVALID_ARGUMENT for an invalid name, TENSOR_NOT_FOUND, PRECONDITION_FAILED and those of
 *          the formats and of the store. */
#ifndef TD_SERVER_CALLS_TENSOR_TASKS_H
#define TD_SERVER_CALLS_TENSOR_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_get_task, td_tensor_put_task, td_tensor_delete_task;

#endif
