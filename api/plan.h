/* plan.h - POST /v1/OP/plan: the steps, operations and memory of an op that has a plan, computed
 * from shapes alone.
 *
 * The request is that of the op with "shapes" instead of its first input, and "dtype" unless it is
 * float32:
 *
 *     {"equation": "ij,jk->ik", "shapes": [[100, 20], [20, 50]], "dtype": "float64"}
 *
 * The reply is JSON with exact integers: "flops" and "naive_flops" may exceed 2^53;
 * 18446744073709551615 means that or more. "path" and "steps" are empty if there is nothing to
 * compute. kernels/einsum/README.md has an example.
 *
 * Errors     Those of the op, with the same members: "inputs[1]" is the second shape.
 * Threads    Reentrant.
 * Cost       Bounded by the most tensors that the op takes and the length of the body: far below a
 *            millisecond. */
#ifndef TD_API_PLAN_H
#define TD_API_PLAN_H

#include "api/message/message.h"

/* The limits of the server. */
struct td_plan_limits {
    int threads;         /* number of threads, on which the workspace depends */
    uint64_t max_flops;  /* 0: no limit */
    uint64_t max_output; /* bytes */
    uint64_t memory;     /* bytes, for all requests together */
};

/* Writes the reply. `request` is initialized for an op with explain, and may already have
 * attributes from the query string. */
TD_MUST_CHECK td_status td_plan_reply(const char *body, size_t bytes,
                                      const struct td_plan_limits *limits, struct td_arena *arena,
                                      struct td_request *request, struct td_reply *reply,
                                      struct td_error *err);

#endif
