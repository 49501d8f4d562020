/* statistics_task.h - the task of GET /v1/tensors/{name}/statistics.
 *
 * Statistics are computed once for each version and kept with the version. Workers compute them if
 * the computation takes longer than --inline-limit-us. Two calls can compute the statistics of one
 * version at the same time; the version keeps the result of the call that ends first.
 *
 * Errors   The errors of GET for a tensor; MEMORY_EXHAUSTED and DEADLINE_EXCEEDED during the
 *          computation. */
#ifndef TD_SERVER_CALLS_STATISTICS_TASK_H
#define TD_SERVER_CALLS_STATISTICS_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_statistics_task;

#endif
