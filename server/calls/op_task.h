/* op_task.h - the task that runs an op: POST /v1/{op} and inference requests of /v2.
 *
 * The call's style selects the protocol. After decoding, both protocols are handled in the same
 * way. The member `store` is in store_option.h. */
#ifndef TD_SERVER_CALLS_OP_TASK_H
#define TD_SERVER_CALLS_OP_TASK_H

#include "server/calls/call.h"
#include "server/workers/worker_pool.h"

extern const struct td_task td_op_task;

/* The stages of the task, for other tasks that run an op. td_op_begin chooses the formats.
 * td_op_decode_with decodes the body with `decode`, and handles `store` and the headers. */
TD_MUST_CHECK td_status td_op_begin(struct td_call *call);
TD_MUST_CHECK td_status td_op_decode_with(struct td_call *call,
                                          td_status (*decode)(struct td_call *call));
TD_MUST_CHECK td_status td_op_admit(struct td_call *call, struct td_admission *admission);
TD_MUST_CHECK td_status td_op_compute(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_op_change_stage(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_op_encode(struct td_call *call);
uint64_t td_op_admit_bytes(const struct td_call *call);

/* Reads attributes and common members from the query. Also used by other tasks that run an
 * op. */
td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length);

/* Parts of the compute stage, for calls that are computed together (passes.h). td_op_task_exec
 * initializes the execution of a call's op. td_op_task_begin also allocates the outputs and finds
 * the rows that the request names by key. td_op_task_end takes the status of the op, and completes
 * the outputs. */
void td_op_task_exec(struct td_call *call, struct td_worker *worker, struct td_pool_exec *exec);
TD_MUST_CHECK td_status td_op_task_begin(struct td_call *call, struct td_worker *worker,
                                         struct td_pool_exec *exec);
TD_MUST_CHECK td_status td_op_task_end(struct td_call *call, struct td_exec *exec,
                                       td_status status);

#endif
