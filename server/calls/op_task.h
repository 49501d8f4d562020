/* op_task.h - the task that runs an op: POST /v1/{op} and inference requests of /v2.
 *
 * The call's style selects the protocol. After decoding, both protocols are handled in the same
 * way. The member `store` is in store_option.h. */
#ifndef TD_SERVER_CALLS_OP_TASK_H
#define TD_SERVER_CALLS_OP_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_op_task;

/* Reads attributes and common members from the query. Also used by other tasks that run an
 * op. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);

#endif
