/* plan.h - plans an einsum: derives a list of steps and their costs from the equation and the
 * shapes, before any data exists.
 *
 * Labels that occur in only one operand and not in the output are summed first, one operand at a
 * time. Pairs are then contracted in the order found by path.h. Every step omits dimensions of
 * extent 1. float16 and bfloat16 results between steps are float32.
 *
 * The labels of a step's result are ordered as batch, rows and columns for the next step: first the
 * labels that both operands share, then the other labels of the first operand, then the other
 * labels of the second operand. The last step writes the output in the order of the output's
 * labels. The results of all other steps are stored in one block of workspace, each at its own
 * offset. Results that are never alive at the same time can share bytes.
 *
 * FLOPs      For a pair, the product of the extents of all its labels, or twice that product if a
 *            label is summed. For a sum over one operand, the number of elements read. Data
 *            movement counts 0.
 * Ownership  The plan is allocated from the arena and refers to nothing outside the arena.
 * Threads    Reentrant. A plan does not change after it is made. */
#ifndef TD_KERNELS_EINSUM_PLAN_H
#define TD_KERNELS_EINSUM_PLAN_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/equation.h"
#include "kernels/einsum/path.h"

struct td_einsum_step {
    /* Operands: 0 to n - 1 are the inputs, and n + i is the result of step i. `b` is negative if
     * the step has one operand. */
    int a, b;
    /* The equation of the step, such as "ij,jk->ik", with the characters of td_equation. */
    const char *equation;
    struct td_contraction contraction;
    uint64_t flops; /* saturates at UINT64_MAX */
    td_dtype dtype; /* dtype of the result */
    struct td_subscript_list {
        int rank;
        const uint8_t *label;
    } result; /* the result's dimensions of extent 2 or more, row-major */
    int64_t numel;
    /* Offset of the result in the workspace. Unused for the last step. */
    uint64_t offset;
};

struct td_einsum_plan {
    const struct td_equation *equation;
    td_dtype dtype;
    int n_steps;
    struct td_einsum_step *steps;
    int n_pairs;
    /* The contraction order, for paths in the format of NumPy. */
    struct td_pair *pairs;
    /* The output must be zeroed first, because it repeats a label and the steps do not write all of
     * it, or because a sum is empty. */
    bool fill_zeros;
    /* An extent is 0, so the output is empty or all zeros, and there are no steps or pairs. */
    bool nothing_to_do;
    uint64_t flops; /* sum over all steps; saturates */
    /* FLOPs of a single nest over all labels: the product of the extents times the FLOPs of one
     * iteration. An iteration counts its multiplications and, if a label is summed, one
     * addition. */
    uint64_t naive_flops;
    /* Number of elements of the largest result, including the output, as in numpy.einsum_path. */
    uint64_t largest_intermediate;
    /* Number of workspace bytes that hold intermediate results. */
    uint64_t intermediate_bytes;
    /* Workspace in addition to the results: the maximum over all steps. */
    struct td_workspace_size workspace;
};

/* Returns the size in bytes of the workspace of a run with `threads` threads: intermediate_bytes,
 * workspace.shared and, for each thread, workspace.per_thread, each rounded up to a multiple of 64.
 * Counts only one thread if workspace.single_threaded is set. Returns UINT64_MAX if the sum
 * overflows. */
uint64_t td_einsum_plan_workspace(const struct td_einsum_plan *plan, int threads);

/* Makes a plan. `shapes` must be the shapes of tensors of this dtype, so their sizes in bytes are
 * below 2^63. Returns the errors of td_equation_parse, or RESOURCE_LIMIT if the output or the
 * results between steps exceed 2^63 - 1 bytes or a step has more than 2^63 - 1 products. */
TD_MUST_CHECK td_status td_einsum_plan_make(const char *equation,
                                            const struct td_shape *const *shapes, int n_shapes,
                                            td_dtype dtype, struct td_arena *arena,
                                            const struct td_einsum_plan **plan,
                                            struct td_error *err);

#endif
