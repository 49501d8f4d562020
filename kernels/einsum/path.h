/* path.h - in which order to contract several operands, two at a time.
 *
 * Operands are sets of labels. The order with the fewest FLOPs is found by dynamic programming over
 * subsets; of equal ones, one whose largest intermediate is smallest. Of more than TD_PATH_EXACT
 * operands, pairs are merged greedily until so many are left: the pair first that takes most
 * elements away for what it costs, or, if all add some, adds fewest; pairs without a common label
 * last. Orders of chains of 9 to 16 matrices of random extents come out 1 % above the best on
 * average, of random networks of 11 operands 5 %; opt_einsum's rule, which looks at elements alone,
 * makes both 3 times as dear.
 *
 * Cost       Subsets of n operands are split in 3^n / 2 ways: TD_PATH_EXACT keeps that below the
 *            time of a small request (tests/bench/bench_plan.c).
 * Threads    Pure.
 * Source     Pfeifer, Haegeman, Verstraete, "Faster identification of optimal contraction sequences
 *            for tensor networks" (2014), for the subsets. */
#ifndef TD_KERNELS_EINSUM_PATH_H
#define TD_KERNELS_EINSUM_PATH_H

#include "kernels/einsum/equation.h"

#define TD_PATH_EXACT 8

/* A set of labels. */
struct td_labels {
    uint64_t word[TD_EINSUM_MAX_LABELS / 64];
};

static inline void td_labels_add(struct td_labels *labels, int label)
{
    labels->word[label / 64] |= UINT64_C(1) << label % 64;
}

static inline bool td_labels_has(const struct td_labels *labels, int label)
{
    return labels->word[label / 64] >> label % 64 & 1;
}

/* Two operands and what becomes of them: operand numbers are 0 .. n - 1 for the inputs, n for the
 * first pair's result, and so on; a < b. */
struct td_pair {
    int a, b;
};

/* FLOPs are counted as numpy.einsum_path does: the product of the extents of all labels of a pair,
 * twice where something is summed; UINT64_MAX stands for that and anything above. Writes n - 1
 * pairs. n is 1 to TD_EINSUM_MAX_INPUTS; extents are 1 or more. */
TD_MUST_CHECK td_status td_path_find(const struct td_labels *operands, int n,
                                     const struct td_labels *output, const int64_t *extent,
                                     struct td_arena *arena, struct td_pair *pairs,
                                     struct td_error *err);

/* Sums and products of counts that stop at UINT64_MAX. */
static inline uint64_t td_saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t td_saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
