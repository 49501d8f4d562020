/* path.h - finds the order in which several operands are contracted, two at a time.
 *
 * Operands are sets of labels. Dynamic programming over subsets finds the order with the fewest
 * FLOPs and, of those, with the smallest largest intermediate. With more than TD_PATH_EXACT
 * operands, pairs are first contracted greedily until TD_PATH_EXACT are left: the pair that removes
 * most elements for its cost or, if every pair adds elements, the one that adds fewest; pairs
 * without a common label last. Orders of chains of 9 to 16 matrices of random extents cost 1 % more
 * than the best on average, of random networks of 11 operands 5 %; opt_einsum's rule, which
 * considers elements only, makes both 3 times as expensive.
 *
 * Errors     MEMORY_EXHAUSTED only.
 * Threads    Reentrant.
 * Cost       Subsets of n operands are split in 3^n / 2 ways: TD_PATH_EXACT keeps that below the
 *            time of a small request (tests/bench/bench_plan.c).
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

/* Two operands that are contracted. Operands are numbered 0 .. n - 1 for the inputs, n for the
 * result of the first pair, and so on; a < b. */
struct td_pair {
    int a, b;
};

/* Writes n - 1 pairs. n is 1 to TD_EINSUM_MAX_INPUTS; extents are 1 or more. FLOPs are counted as
 * in numpy.einsum_path: the product of the extents of all labels of a pair, twice that if a label
 * is summed; they saturate at UINT64_MAX. */
TD_MUST_CHECK td_status td_path_find(const struct td_labels *operands, int n,
                                     const struct td_labels *output, const int64_t *extent,
                                     struct td_arena *arena, struct td_pair *pairs,
                                     struct td_error *err);

/* Sums and products of counts, saturating at UINT64_MAX. */
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
