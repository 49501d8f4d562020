/* random.h - arguments drawn at random, the same ones for the same seed. */
#ifndef TD_TESTS_SUPPORT_RANDOM_H
#define TD_TESTS_SUPPORT_RANDOM_H

#include "kernels/tensor.h"

void random_seed(uint64_t seed);
uint64_t random_next(void);
int random_below(int n); /* 0 .. n - 1 */

/* Any bytes at all, in test_arena; strings of up to 16, many of them empty. */
struct td_tensor random_tensor(td_dtype dtype, const struct td_shape *dims);

/* Element i and its size: strings differ in theirs. */
const void *tensor_element(const struct td_tensor *t, int64_t i, size_t *size);

#endif
