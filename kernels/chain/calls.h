/* calls.h - runs calls of elementwise ops as one chain (chain.h).
 *
 * Shapes     The outputs of all calls have the same shape.
 * Ownership  Borrows the calls and their arguments.
 * Threads    As in td_chain_run.
 * Errors     As in td_chain_run. */
#ifndef TD_KERNELS_CHAIN_CALLS_H
#define TD_KERNELS_CHAIN_CALLS_H

#include "kernels/chain/chain.h"
#include "kernels/op.h"

struct td_chain_call {
    /* The inferred arguments. args->op->chain accepts the call (can_add). */
    const struct td_op_args *args;
    /* For each input: the number of the earlier call whose result it is, or -1 if the input is a
     * tensor with data. */
    int operands[TD_CHAIN_OPERANDS];
    /* True if only later calls of the chain use the result. The output then has no data. */
    bool is_inner;
};

/* Runs n calls. Together they need at most TD_CHAIN_INPUTS inputs and TD_CHAIN_STEPS steps. */
TD_MUST_CHECK td_status td_chain_run_calls(const struct td_chain_call *calls, int n,
                                           struct td_exec *exec, struct td_error *err);

#endif
