/* tensor_tasks.h - resident tensors over HTTP: what /v1/tensors and the paths under it do.
 *
 * Writers always run on a worker, since they may wait for each other and for the disk. A GET runs
 * there when its answer is long text, or hard to measure; the data of a tensor is sent from where it lies, without a
 * copy, whatever happens to the name meanwhile.
 *
 *     list      GET     all, as they are told (api/describe.h)
 *     get       GET     that, or with Accept or ?response the tensor itself; conditions, ranges
 *     put       PUT     a new version; 201 where there was none
 *     delete    DELETE  204
 *     scatter   POST    a new version that differs in some slices
 *
 * Errors   INVALID_ARGUMENT for what is no name, TENSOR_NOT_FOUND, PRECONDITION_FAILED and those of
 *          the formats and of the store. */
#ifndef TD_SERVER_CALLS_TENSOR_TASKS_H
#define TD_SERVER_CALLS_TENSOR_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_tensors_list_task, td_tensor_get_task, td_tensor_put_task,
    td_tensor_delete_task, td_tensor_scatter_task;

#endif
