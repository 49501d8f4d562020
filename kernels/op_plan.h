/* op_plan.h - the steps in which an op will compute a call, known before any data exists.
 *
 * Ownership  A plan is in the arena.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_OP_PLAN_H
#define TD_KERNELS_OP_PLAN_H

#include "kernels/op.h"

struct td_plan_step {
    /* Each operand is an input (0 to n - 1) or the result of step i (n + i). The second can be -1
     * if the step has only one operand. */
    int operands[2];
    const char *equation; /* what the step computes, such as "ij,jk->ik" */
    const char *kind;     /* kind of the step's loops */
    bool is_product;      /* true for a product of matrices, which has the sizes below */
    int64_t batch, m, n, k;
    uint64_t flops;
    td_dtype dtype; /* dtype of the result */
    int rank;       /* rank of the result, which can exceed TD_MAX_RANK */
    const int64_t *dims;
    uint64_t bytes;
};

/* The plan of a call. FLOPs saturate at UINT64_MAX. */
struct td_plan {
    int n_inputs;
    /* What the call computes, with a label for each dimension of the inputs and of the output, such
     * as "ij,jk->ik". A dimension of size 1 can have the label of a larger dimension. */
    const char *equation;
    const struct td_plan_step *steps;
    int n_steps;
    /* The contraction order in the format of numpy.einsum_path. Each entry gives the positions of
     * one or two operands in the list of remaining operands. The entry removes them and appends its
     * result. The second position can be -1. */
    const int (*path)[2];
    int n_path;
    uint64_t flops;
    uint64_t naive_flops; /* FLOPs of a single loop nest, without steps */
    /* Number of elements of the largest result, including the output of the op. */
    uint64_t largest_elements;
    uint64_t largest_bytes;
    uint64_t workspace; /* size in bytes; UINT64_MAX if larger */
};

#define TD_OP(folder, name) extern const struct td_op td_op_##name;
#include "kernels/plans.def"
#undef TD_OP

#endif
