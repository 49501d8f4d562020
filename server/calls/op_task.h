/* op_task.h - the task that runs an op: POST /v1/{op} and inference requests of /v2.
 *
 * The call's style selects the protocol. After decoding, both protocols are handled in the same
 * way.
 *
 * `store`    Stores the outputs under this name instead of returning them, and replies (200) with
 *            their metadata. A list of outputs is stored as name.0, name.1, ..., and named outputs
 *            as name.values, .... If-Match and If-None-Match apply to each stored name. Outputs are
 *            stored one after another. Before the task computes the outputs, it checks that all of
 *            them fit. Storing an output can still fail if the quota has been used up in the
 *            meantime or a condition does not hold. The reply is then this error, and the outputs
 *            stored before the failure remain. */
#ifndef TD_SERVER_CALLS_OP_TASK_H
#define TD_SERVER_CALLS_OP_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_op_task;

/* Used by other tasks that run an op. td_op_argument reads attributes and common members from
 * the query. td_op_device returns DEVICE_UNAVAILABLE if the requested device is not available. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);
TD_MUST_CHECK td_status td_op_device(struct td_call *call);

#endif
