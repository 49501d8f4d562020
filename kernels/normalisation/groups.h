/* groups.h - computes elements from the elements of their group, in passes over the group.
 *
 * A tensor is seen as [n_outer, n, inner], and a group consists of the n elements along the middle
 * dimension. The first passes reduce a group to a few facts, such as its maximum and a sum. The
 * last pass maps each element with these facts.
 *
 * Shapes     The output has the shape of the input.
 * Bounds     No dimension is 0.
 * Ownership  Borrows all tensors for the call. Scratch memory is in exec->arena.
 * Threads    Reentrant. Splits groups, and the blocks of long groups, through exec. The bits of the
 *            result depend neither on the split nor on the instruction set, except that exp of
 *            float64 is the C library's.
 * Errors     MEMORY_EXHAUSTED, DEADLINE_EXCEEDED. */
#ifndef TD_KERNELS_NORMALISATION_GROUPS_H
#define TD_KERNELS_NORMALISATION_GROUPS_H

#include "kernels/exec.h"
#include "kernels/normalisation/loops.h"
#include "kernels/tensor.h"

/* The facts that the next pass needs, from the results of the last pass. */
typedef void td_norm_learn_fn(struct td_norm_facts *facts, const struct td_norm_sums *sums,
                              int columns, int64_t n, double epsilon);

struct td_norm_method {
    td_norm_reduction first, second; /* `second` can be TD_NORM_REDUCTIONS: no second pass */
    td_norm_learn_fn *learn_first, *learn_second;
    td_norm_map map;
    uint64_t work; /* cost per element, in additions of float32 */
};

struct td_norm_groups {
    const struct td_tensor *x;
    struct td_tensor *out;
    const struct td_norm_method *method;
    double epsilon;
    int64_t n_outer, n, inner;
    /* For TD_NORM_STANDARDISE: n numbers each, as float, or as double for float64. `bias` can be
     * NULL. inner is 1. */
    const void *scale, *bias;
};

/* Return the size in bytes of the scratch memory that td_norm_groups_run allocates: once, and for
 * each thread. */
uint64_t td_norm_groups_workspace(const struct td_norm_groups *groups);
uint64_t td_norm_groups_scratch(const struct td_norm_groups *groups);

TD_MUST_CHECK td_status td_norm_groups_run(const struct td_norm_groups *groups,
                                           struct td_exec *exec, struct td_error *err);

#endif
