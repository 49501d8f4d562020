/* chain.h - runs a chain of elementwise steps in one pass over memory.
 *
 * The elements are computed in blocks. Each step computes one block from the blocks of its
 * operands, which stay in the L1 cache, so each input is read once and each result that is kept is
 * written once. Every step rounds to its own dtype, so the bits are the same as if each step had
 * run alone.
 *
 * Shapes     The result of every step has the shape of the chain. Inputs are broadcast to it.
 * Ownership  Borrows the tensors. Scratch memory is on the stack and in the arena of `exec`.
 * Threads    A chain is built by one thread. td_chain_run is reentrant, and splits the elements
 *            over the threads of `exec`.
 * Cost       One pass. An input that is repeated is read again for every block. */
#ifndef TD_KERNELS_CHAIN_H
#define TD_KERNELS_CHAIN_H

#include "kernels/broadcast.h"
#include "kernels/convert/cast_path.h"
#include "kernels/exec.h"
#include "kernels/tensor.h"

#define TD_CHAIN_OPERANDS     3 /* operands of a step */
#define TD_CHAIN_INPUTS       16
#define TD_CHAIN_STEPS        48
/* Steps that one call of td_chain_add or td_chain_cast can add. */
#define TD_CHAIN_STEPS_PER_OP (TD_CHAIN_OPERANDS + 2)

/* Computes out[i] from in[0][i], in[1][i], ... for i in [0, n). All arrays are aligned to their
 * dtypes, and `out` overlaps none of the inputs. */
typedef void td_chain_fn(void *restrict out, const void *const *in, int64_t n);

/* Computes one block. Exactly one of the functions is set. */
struct td_chain_step {
    td_chain_fn *loop;
    td_cast_fn *cast;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
    /* Values: inputs 0 to n_inputs - 1, then the results of the steps. */
    int operands[TD_CHAIN_OPERANDS];
    int n_operands;
    int parts;    /* parts of an element that are converted separately: 1, or 2 if complex */
    size_t width; /* bytes per element of the result */
    /* The tensor that receives the result, or NULL if only other steps of the chain use it. */
    const struct td_tensor *to;
};

struct td_chain {
    struct td_shape shape;
    const struct td_tensor *inputs[TD_CHAIN_INPUTS];
    int n_inputs;
    struct td_chain_step steps[TD_CHAIN_STEPS];
    int n_steps;
};

/* Adds an input, or finds it if it was added before. Returns the number of the value. All inputs
 * are added before the first step. */
int td_chain_input(struct td_chain *chain, const struct td_tensor *tensor);

/* A loop, and the dtypes of its operands: `dtype` as given, and `computed` as the loop reads them.
 * If they differ, the operands are widened from float16 or bfloat16 to float32. If `result` is such
 * a dtype, the result of the loop is float32, and is rounded. */
struct td_chain_op {
    td_chain_fn *loop;
    td_dtype dtype, computed, result;
};

/* Adds the steps of an op. `to` receives the result, or is NULL. Returns the number of the
 * value. */
int td_chain_add(struct td_chain *chain, const struct td_chain_op *op, const int *operands,
                 int n_operands, const struct td_tensor *to, td_isa isa);

/* Adds the steps that convert a value to another dtype. */
int td_chain_cast(struct td_chain *chain, td_dtype from, td_dtype dtype, int operand,
                  const struct td_tensor *to, td_isa isa);

/* Returns the workspace that td_chain_run needs for these inputs of a result, in bytes. */
uint64_t td_chain_workspace(const struct td_tensor *const *inputs, int n,
                            const struct td_tensor *out);

/* Computes all results that a tensor receives. */
TD_MUST_CHECK td_status td_chain_run(const struct td_chain *chain, struct td_exec *exec,
                                     struct td_error *err);

#endif
