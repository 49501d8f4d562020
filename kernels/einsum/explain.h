/* explain.h - describes the plan of an einsum in the format of op_plan.h. */
#ifndef TD_KERNELS_EINSUM_EXPLAIN_H
#define TD_KERNELS_EINSUM_EXPLAIN_H

#include "kernels/op_plan.h"

/* Implements td_op.explain. */
TD_MUST_CHECK td_status td_einsum_explain(const struct td_op_args *args, int threads,
                                          struct td_arena *arena, struct td_plan *out,
                                          struct td_error *err);

#endif
