/* plan.h - an einsum as a list of steps, with what each takes: made from the equation and the
 * shapes, before there is any data.
 *
 * A label that only one operand has, and the output has not, is summed away in that operand first.
 * Then pairs are contracted in the order that path.h finds. A label of extent 1 in an operand costs
 * nothing and is left out of every step. float16 and bfloat16 stay float32 between steps.
 *
 * The result of a step has the labels that both operands share first, then the first one's, then
 * the second one's: batches, rows and columns, for whoever takes it next. The last step writes the
 * output in its own order. The results of all steps but the last lie in one block of workspace,
 * each at an offset, where those that are never alive together may share bytes.
 *
 * FLOPs      Of a pair, the product of the extents of all its labels, twice where something is
 *            summed; of a sum over one operand, the elements it reads; of data that only moves, 0.
 * Ownership  The plan lies in the arena it was made in, and refers to nothing outside of it.
 * Threads    Constant once made. */
#ifndef TD_KERNELS_EINSUM_PLAN_H
#define TD_KERNELS_EINSUM_PLAN_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/equation.h"
#include "kernels/einsum/path.h"

struct td_einsum_step {
    int a, b; /* operands: inputs 0 .. n - 1, then the results of steps, n + step; b < 0: none */
    const char *equation; /* "ij,jk->ik", with td_equation's characters */
    struct td_contraction contraction;
    uint64_t flops; /* saturates at UINT64_MAX */
    td_dtype dtype; /* of the result */
    struct td_subscript_list {
        int rank;
        const uint8_t *label;
    } result; /* its dimensions of extent 2 or more, row-major */
    int64_t numel;
    uint64_t offset; /* of the result in the workspace; unused by the last step, whose result is the
                        output */
};

struct td_einsum_plan {
    const struct td_equation *equation;
    td_dtype dtype;
    int n_steps;
    struct td_einsum_step *steps;
    int n_pairs;
    struct td_pair *pairs; /* the contraction order, for numpy-style paths */
    bool fill_zeros;       /* the steps do not reach all of the output (a repeated output label), or
                              there is an empty sum: zeros first */
    bool nothing_to_do;    /* some extent is 0: the output is empty, or nothing but zeros. No steps,
                              no pairs */
    uint64_t flops;        /* of all steps; saturates */
    uint64_t naive_flops;  /* of one nest over all labels: their product, times the number of
                              multiplications and, where something is summed, one addition */
    uint64_t largest_intermediate;      /* elements; the output counts, as in numpy.einsum_path */
    uint64_t intermediate_bytes;        /* of the workspace that holds results */
    struct td_workspace_size workspace; /* beside the results: the largest of any step */
};

/* The bytes that a run with this many threads uses: intermediate_bytes, workspace.shared and, for
 * each thread (for one if workspace.single_threaded), workspace.per_thread, each rounded up to 64.
 * UINT64_MAX when that overflows. */
uint64_t td_einsum_plan_workspace(const struct td_einsum_plan *plan, int threads);

/* shapes are those of tensors of this dtype, so their sizes in bytes fit 63 bits. Errors as
 * td_equation_parse, and RESOURCE_LIMIT when the output or the results between steps have more than
 * 2^63 - 1 bytes, or a step has to walk more than 2^63 - 1 products. */
TD_MUST_CHECK td_status td_einsum_plan_make(const char *equation,
                                            const struct td_shape *const *shapes, int n_shapes,
                                            td_dtype dtype, struct td_arena *arena,
                                            const struct td_einsum_plan **plan,
                                            struct td_error *err);

#endif
