/* plan.h - POST /v1/OP/plan: computes the steps, operations and memory of an op that has a plan,
 * from shapes alone.
 *
 * The request is the op's request with "shapes" instead of the first input, and with "dtype" unless
 * the dtype is float32:
 *
 *     {"equation": "ij,jk->ik", "shapes": [[100, 20], [20, 50]], "dtype": "float64"}
 *
 * The reply is JSON with exact integers. "flops" and "naive_flops" can exceed 2^53, and
 * 18446744073709551615 means at least that value. If there is nothing to compute, "path" and
 * "steps" are empty. kernels/einsum/README.md has an example.
 *
 * Errors     The errors of the op, with the same members: "inputs[1]" is the second shape.
 * Threads    Reentrant.
 * Cost       Far below a millisecond, limited by the maximum number of tensors of the op and the
 *            length of the body. */
#ifndef TD_API_PLAN_H
#define TD_API_PLAN_H

#include "api/message/message.h"
#include "api/message/plan_limits.h"

/* Writes the reply. `request` must be initialized for an op that has `explain`. It can already
 * contain attributes from the query string. */
TD_MUST_CHECK td_status td_plan_reply(const char *body, size_t bytes,
                                      const struct td_plan_limits *limits, struct td_arena *arena,
                                      struct td_request *request, struct td_reply *reply,
                                      struct td_error *err);

#endif
