/* statistics_task.h - GET /v1/tensors/{name}/statistics: computed once for each version, by the
 * workers if it takes longer than --inline-limit-us, and kept with the version. Two calls may
 * compute those of one version at the same time; the first that ends keeps its own.
 *
 * Errors   those of GET of a tensor; MEMORY_EXHAUSTED, DEADLINE_EXCEEDED while they are
 *          computed. */
#ifndef TD_SERVER_CALLS_STATISTICS_TASK_H
#define TD_SERVER_CALLS_STATISTICS_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_statistics_task;

#endif
