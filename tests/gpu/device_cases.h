/* device_cases.h - calls of every op that a device may be asked for: dtypes, shapes, index dtypes,
 * bounds policies, items, equations. What should come out is for the processor's kernels to say.
 *
 * Needs kernels/ and libc only: it runs where nothing else is. The same calls every time. */
#ifndef TD_TESTS_GPU_DEVICE_CASES_H
#define TD_TESTS_GPU_DEVICE_CASES_H

#include "kernels/op.h"

struct device_case {
    char says[400];
    const struct td_op *op;
    struct td_op_args args; /* inputs on the host; td_op_infer accepts them */
    /* Of the indices: components in a tuple and what each is below; -1: the op replaces none. */
    int depth;
    int64_t bound[TD_MAX_RANK];
    int n_items;
    const int64_t *item_end; /* NULL where there is one item and nothing to tell */
    double tolerance; /* 0: bit for bit; else the share of the sum of magnitudes that may differ */
    size_t first_offset; /* bytes behind a 256-byte boundary where the first input begins */
};

typedef void device_case_fn(void *context, const struct device_case *one);

/* Calls fn with each of them. All of a case lies in the arena, which fn may reset whenever it needs
 * none of the cases so far any more. */
void each_device_case(struct td_arena *arena, device_case_fn *fn, void *context);

/* Products of float32 only, with room for inputs that were rounded to 10 bits. */
void each_tf32_case(struct td_arena *arena, device_case_fn *fn, void *context);

/* One or a few calls that the seed decides: ops, dtypes, shapes, items, at random. */
void some_random_cases(struct td_arena *arena, uint64_t seed, device_case_fn *fn, void *context);

#endif
