/* op_task.h - running an op: what POST /v1/{op} and an inference request of /v2 do.
 *
 * Which protocol it is shows in the call's style; from the decoded tensors on there is one way.
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

/* Of use to other tasks that run an op: attributes and request-wide members from the query, and
 * DEVICE_UNAVAILABLE for a device that is not here. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);
TD_MUST_CHECK td_status td_op_device(struct td_call *call);

#endif
