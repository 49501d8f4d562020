/* device_cases.h - test cases for every op of a device: dtypes, shapes, index dtypes, bounds
 * policies, items, equations. The CPU kernels compute the expected results.
 *
 * Needs kernels/ and libc only, so that it runs on a GPU machine without other packages. The cases
 * are the same in every run. */
#ifndef TD_TESTS_GPU_DEVICE_CASES_H
#define TD_TESTS_GPU_DEVICE_CASES_H

#include "kernels/op.h"

struct device_case {
    char says[400];
    const struct td_op *op;
    struct td_op_args args; /* inputs in host memory, which td_op_infer accepts */
    /* Index tuples: their components and the bound of each; depth -1: the op replaces no index. */
    int depth;
    int64_t bound[TD_MAX_RANK];
    bool reports_missing; /* a lookup: missing keys are reported */
    int n_items;
    const int64_t *item_end; /* NULL if there is one item */
    /* 0: bit for bit; else relative to the sum of magnitudes, or for a search, to 1 + the score */
    double tolerance;
    /* The tolerance is relative to 1 + the magnitude of the result, and any NaN equals any NaN. */
    bool per_element;
    size_t first_offset; /* of the first input from a 256-byte boundary, in bytes */
};

typedef void device_case_fn(void *context, const struct device_case *one);

/* Calls fn with every case. A case is allocated from the arena, which fn may reset when it no
 * longer needs the cases so far. */
void for_each_device_case(struct td_arena *arena, device_case_fn *fn, void *context);

/* Products of float32, with a tolerance for inputs rounded to 10 mantissa bits. */
void for_each_tf32_case(struct td_arena *arena, device_case_fn *fn, void *context);

/* One or a few random cases from a seed: ops, dtypes, shapes, items. */
void for_random_device_cases(struct td_arena *arena, uint64_t seed, device_case_fn *fn,
                             void *context);

#endif
