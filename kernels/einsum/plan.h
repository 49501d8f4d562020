/* plan.h - plans an einsum: a list of steps with their costs, made from the equation and the shapes
 * before there is data.
 *
 * A label that only one operand has, and the output has not, is first summed in that operand. Then
 * pairs are contracted in the order found by path.h. Dimensions of extent 1 are left out of every
 * step. float16 and bfloat16 results between steps are float32.
 *
 * The result of a step has first the labels that both operands share, then those of the first, then
 * those of the second operand: batch, rows and columns for the next step. The last step writes the
 * output in its own order. The results of all steps but the last are stored in one block of
 * workspace, each at an offset; results that are never alive at the same time may share bytes.
 *
 * FLOPs      Of a pair, the product of the extents of all its labels, twice that if a label is
 *            summed; of a sum over one operand, the elements it reads; of data movement, 0.
 * Ownership  The plan is allocated from the arena and refers to nothing outside of it.
 * Threads    Reentrant; a plan is constant once made. */
#ifndef TD_KERNELS_EINSUM_PLAN_H
#define TD_KERNELS_EINSUM_PLAN_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/equation.h"
#include "kernels/einsum/path.h"

struct td_einsum_step {
    int a, b; /* operands: input 0 .. n - 1, or n + i for the result of step i; b < 0: none */
    const char *equation; /* "ij,jk->ik", with the characters of td_equation */
    struct td_contraction contraction;
    uint64_t flops; /* saturates at UINT64_MAX */
    td_dtype dtype; /* of the result */
    struct td_subscript_list {
        int rank;
        const uint8_t *label;
    } result; /* its dimensions of extent 2 or more, row-major */
    int64_t numel;
    uint64_t offset; /* of the result in the workspace; unused by the last step */
};

struct td_einsum_plan {
    const struct td_equation *equation;
    td_dtype dtype;
    int n_steps;
    struct td_einsum_step *steps;
    int n_pairs;
    struct td_pair *pairs; /* the contraction order, for numpy-style paths */
    bool fill_zeros;       /* zero the output first: the steps do not write all of it (a repeated
                              output label), or a sum is empty */
    bool nothing_to_do;    /* an extent is 0: the output is empty or all zeros, without steps and
                              pairs */
    uint64_t flops;        /* of all steps; saturates */
    uint64_t naive_flops;  /* of one nest over all labels: the product of their extents times the
                              number of multiplications, and of one addition if a label is summed */
    uint64_t largest_intermediate;      /* elements; the output counts, as in numpy.einsum_path */
    uint64_t intermediate_bytes;        /* of the workspace that holds results */
    struct td_workspace_size workspace; /* in addition to the results: the largest of any step */
};

/* The bytes that a run with this many threads uses: intermediate_bytes, workspace.shared and, for
 * each thread (for one if workspace.single_threaded), workspace.per_thread, each rounded up to 64.
 * UINT64_MAX when that overflows. */
uint64_t td_einsum_plan_workspace(const struct td_einsum_plan *plan, int threads);

/* `shapes` are those of tensors of this dtype, so their sizes in bytes are below 2^63. Errors as
 * td_equation_parse, and RESOURCE_LIMIT if the output or the results between steps have more than
 * 2^63 - 1 bytes, or a step has more than 2^63 - 1 products. */
TD_MUST_CHECK td_status td_einsum_plan_make(const char *equation,
                                            const struct td_shape *const *shapes, int n_shapes,
                                            td_dtype dtype, struct td_arena *arena,
                                            const struct td_einsum_plan **plan,
                                            struct td_error *err);

#endif
