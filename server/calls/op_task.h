/* op_task.h - the task that runs an op: POST /v1/{op} and inference requests of /v2.
 *
 * The call's style gives the protocol; after decoding both are handled alike.
 *
 * `store`    With it the outputs go into the store after they are computed, under its name, or
 *            name.0, name.1, ... of a list, name.values, ... where they have names, and the answer
 *            (200) is their metadata. If-Match and If-None-Match hold for the names that are written. Several
 *            outputs are stored one after the other: room for all of them is looked for before they
 *            are computed, but when another writer takes it or a name's condition fails meanwhile,
 *            those before it stay stored and the answer is that error. */
#ifndef TD_SERVER_CALLS_OP_TASK_H
#define TD_SERVER_CALLS_OP_TASK_H

#include "server/calls/call.h"

extern const struct td_task td_op_task;

/* For other tasks that run an op: reads attributes and request-wide members from the query, and returns
 * DEVICE_UNAVAILABLE for a device that is not available. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);
TD_MUST_CHECK td_status td_op_device(struct td_call *call);

#endif
