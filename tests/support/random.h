/* random.h - random numbers and tensors, reproducible by seed. */
#ifndef TD_TESTS_SUPPORT_RANDOM_H
#define TD_TESTS_SUPPORT_RANDOM_H

#include "kernels/tensor.h"

/* The next number of the sequence whose state is the caller's; any value starts one. */
uint64_t random_from(uint64_t *state);

/* A sequence for the whole program. */
void random_seed(uint64_t seed);
uint64_t random_next(void);
int random_below(int n); /* 0 .. n - 1 */

/* A tensor of random bytes, in test_arena; strings of up to 16 bytes, many of them empty. */
struct td_tensor random_tensor(td_dtype dtype, const struct td_shape *dims);

/* The address of element i and its size in bytes. */
const void *tensor_element(const struct td_tensor *t, int64_t i, size_t *size);

#endif
