/* plan_task.h - POST /v1/einsum/plan: describes how an einsum would be computed, from shapes
 * alone. */
#ifndef TD_SERVER_CALLS_PLAN_TASK_H
#define TD_SERVER_CALLS_PLAN_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_plan_task;

#endif
