/* chain.h - runs a chain of elementwise steps in one pass over memory.
 *
 * The elements of the result are computed in blocks. Each step computes one block from the blocks
 * of its operands, which stay in the L1 cache, so memory is read once for the inputs and written
 * once for the result. Every step rounds to its own dtype, so the bits are the same as if each step
 * had run alone.
 *
 * Shapes     The result of every step has the shape of the output. Inputs are broadcast to it.
 * Ownership  Borrows the tensors. Scratch memory is on the stack and in the arena of `exec`.
 * Threads    Reentrant. The elements are split over the threads of `exec`.
 * Cost       One pass. An input that is repeated is read again for every block. */
#ifndef TD_KERNELS_ELEMENTWISE_CHAIN_H
#define TD_KERNELS_ELEMENTWISE_CHAIN_H

#include "kernels/broadcast.h"
#include "kernels/convert/cast_path.h"
#include "kernels/elementwise/loops.h"
#include "kernels/exec.h"
#include "kernels/tensor.h"

#define TD_CHAIN_OPERANDS 3 /* operands of a step */
#define TD_CHAIN_INPUTS   16
#define TD_CHAIN_STEPS    48

/* Computes one block. Exactly one of the functions is set. */
struct td_chain_step {
    td_elementwise_fn *loop;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
    /* Values: inputs 0 to n_inputs - 1, then the results of the steps. */
    int operands[TD_CHAIN_OPERANDS];
    int n_operands;
    size_t width; /* bytes per element of the result */
};

struct td_chain {
    const struct td_tensor *inputs[TD_CHAIN_INPUTS];
    int n_inputs;
    struct td_chain_step steps[TD_CHAIN_STEPS];
    int n_steps;
    const struct td_tensor *out; /* the result of the last step */
};

/* Adds an input, or finds it if it was added before. Returns its value number. */
int td_chain_input(struct td_chain *chain, const struct td_tensor *tensor);

/* Adds the steps of `loop` on operands of `dtype`. float16 and bfloat16 are widened to float32
 * before the loop unless the loop is for the dtype itself, and the result is rounded to `result`.
 * Returns the value number of the result. */
int td_chain_add(struct td_chain *chain, td_elementwise_name loop, td_dtype dtype, td_dtype result,
                 const int *operands, int n_operands, td_isa isa);

/* Returns the workspace that td_chain_run needs, in bytes. */
uint64_t td_chain_workspace(const struct td_tensor *const *inputs, int n,
                            const struct td_tensor *out);

/* Computes the elements of `out`. */
TD_MUST_CHECK td_status td_chain_run(const struct td_chain *chain, struct td_exec *exec,
                                     struct td_error *err);

#endif
