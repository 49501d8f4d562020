/* path.h - finds the order in which several operands are contracted, two at a time.
 *
 * Operands are sets of labels. Dynamic programming over subsets finds the order with the fewest
 * FLOPs. Among orders with equal FLOPs, it prefers the order whose largest intermediate is
 * smallest.
 *
 * With more than TD_PATH_EXACT operands, pairs are first contracted greedily until TD_PATH_EXACT
 * operands are left. Each greedy step picks the pair that removes the most elements relative to its
 * cost or, if every pair adds elements, the pair that adds the fewest. Pairs without a common label
 * come last.
 *
 * On average, the orders found cost 1 % more than the best order for chains of 9 to 16 matrices
 * with random extents, and 5 % more for random networks of 11 operands. With the rule of
 * opt_einsum, which considers only elements, both would be 3 times as expensive.
 *
 * Errors     Only MEMORY_EXHAUSTED.
 * Threads    Reentrant.
 * Cost       The subsets of n operands have 3^n / 2 splits. TD_PATH_EXACT keeps the search shorter
 *            than a small request (tests/bench/bench_plan.c).
 * Source     Pfeifer, Haegeman, Verstraete, "Faster identification of optimal contraction sequences
 *            for tensor networks" (2014), for the subsets. */
#ifndef TD_KERNELS_EINSUM_PATH_H
#define TD_KERNELS_EINSUM_PATH_H

#include "kernels/einsum/equation.h"
#include "kernels/integers.h"

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

/* Two operands that are contracted, with a < b. Operands 0 to n - 1 are the inputs, operand n is
 * the result of the first pair, and so on. */
struct td_pair {
    int a, b;
};

/* Writes n - 1 pairs. n is from 1 to TD_EINSUM_MAX_INPUTS, and extents are at least 1. Counts FLOPs
 * like numpy.einsum_path: the product of the extents of all labels of a pair, or twice that product
 * if a label is summed. The count saturates at UINT64_MAX. */
TD_MUST_CHECK td_status td_path_find(const struct td_labels *operands, int n,
                                     const struct td_labels *output, const int64_t *extent,
                                     struct td_arena *arena, struct td_pair *pairs,
                                     struct td_error *err);

#endif
