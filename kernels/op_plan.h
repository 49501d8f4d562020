/* op_plan.h - how an op will compute a call, told before there is data: the steps of its plan.
 *
 * Ownership  A plan is in the arena.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_OP_PLAN_H
#define TD_KERNELS_OP_PLAN_H

#include "kernels/op.h"

struct td_plan_step {
    int operands[2]; /* input 0 .. n - 1, or n + i for the result of step i; the second may be -1 */
    const char *equation; /* what the step computes, "ij,jk->ik" */
    const char *kind;     /* of its loops */
    bool is_product;      /* of matrices, with these sizes */
    int64_t batch, m, n, k;
    uint64_t flops;
    td_dtype dtype; /* of the result, */
    int rank;       /* which may have more dimensions than a tensor */
    const int64_t *dims;
    uint64_t bytes;
};

/* FLOPs saturate at UINT64_MAX. */
struct td_plan {
    int n_inputs;
    const struct td_plan_step *steps;
    int n_steps;
    /* The order as numpy.einsum_path has it: each entry removes its operands, one or two, from the
     * list of those left, by position, and appends its result. The second may be -1. */
    const int (*path)[2];
    int n_path;
    uint64_t flops;
    uint64_t naive_flops;      /* without steps, in one nest of loops */
    uint64_t largest_elements; /* of all results, that of the op included */
    uint64_t largest_bytes;
    uint64_t workspace; /* bytes; UINT64_MAX: more */
};

#define TD_OP(folder, name) extern const struct td_op td_op_##name;
#include "kernels/plans.def"
#undef TD_OP

#endif
