/* loops.h - the arithmetic of the elementwise ops for each instruction set.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_ELEMENTWISE_LOOPS_H
#define TD_KERNELS_ELEMENTWISE_LOOPS_H

#include "kernels/chain/chain.h"
#include "kernels/dtype.h"
#include "kernels/isa.h"

/* The loops. An op has the loop of its name, and gelu with the attribute approximate has
 * TD_ELEMENTWISE_gelu_tanh. */
typedef enum td_elementwise_name {
#define TD_ELEMENTWISE(name, ...) TD_ELEMENTWISE_##name,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
    TD_ELEMENTWISE_gelu_tanh,
    TD_ELEMENTWISE_COUNT
} td_elementwise_name;

struct td_elementwise_loops {
    /* NULL if the op does not accept the dtype, for strings, and for float16 and bfloat16, which
     * are computed as float32. */
    td_chain_fn *of[TD_ELEMENTWISE_COUNT][TD_DTYPE_COUNT];
};

/* Returns the loops for an instruction set, which must be a result of td_isa_resolve. */
const struct td_elementwise_loops *td_elementwise_loops(td_isa isa);

extern const struct td_elementwise_loops td_elementwise_loops_generic;
#ifdef __x86_64__
extern const struct td_elementwise_loops td_elementwise_loops_avx2;
extern const struct td_elementwise_loops td_elementwise_loops_avx512;
#endif

#endif
