/* op_task.h - the task that runs an op: POST /v1/{op} and inference requests of /v2.
 *
 * The call's style gives the protocol; after decoding both are handled alike.
 *
 * `store`    Stores the outputs under this name instead of returning them, and replies (200) with
 *            their metadata. A list of outputs is stored as name.0, name.1, ..., named outputs as
 *            name.values, .... If-Match and If-None-Match apply to each stored name. Outputs are
 *            stored one after the other. That all of them fit is checked before they are computed,
 *            but one may still fail: the quota was used up meanwhile, or a condition does not hold.
 *            The reply is then that error, and the outputs before it stay stored. */
#ifndef TD_SERVER_CALLS_OP_TASK_H
#define TD_SERVER_CALLS_OP_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_op_task;

/* For other tasks that run an op: reads attributes and request-wide members from the query, and
 * returns DEVICE_UNAVAILABLE for a device that is not available. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);
TD_MUST_CHECK td_status td_op_device(struct td_call *call);

#endif
