/* einsum_plan.h - POST /v1/einsum/plan: what an einsum would do and take, from shapes alone.
 *
 * A request is that of einsum with "shapes" and, where it is not float32, "dtype" in the place of
 * the inputs:
 *
 *     {"equation": "ij,jk->ik", "shapes": [[100, 20], [20, 50]], "dtype": "float64"}
 *
 * The answer is JSON, and its integers are exact: "flops" and "naive_flops" may be beyond 2^53, and
 * 18446744073709551615 stands for that and anything above. "path" and "steps" are empty where there
 * is nothing to compute. (README.md shows one.)
 *
 * Errors     Those of the op, with the same members: "inputs[1]" is the second of the shapes.
 * Threads    Reentrant.
 * Cost       Bounded by TD_EINSUM_MAX_INPUTS and the length of the body: far below a
 *            millisecond. */
#ifndef TD_API_EINSUM_PLAN_H
#define TD_API_EINSUM_PLAN_H

#include "api/message/message.h"

/* What the server that answers allows. */
struct td_plan_limits {
    int threads;         /* the workspace is told for so many */
    uint64_t max_flops;  /* 0: no limit */
    uint64_t max_output; /* bytes */
    uint64_t memory;     /* bytes, of all requests together */
};

/* `request` is begun for td_op_einsum and may have its equation already, from a query string. */
TD_MUST_CHECK td_status td_einsum_plan_answer(const char *body, size_t bytes,
                                              const struct td_plan_limits *limits,
                                              struct td_arena *arena, struct td_request *request,
                                              struct td_reply *reply, struct td_error *err);

#endif
