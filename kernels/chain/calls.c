#include "kernels/chain/calls.h"

#include <assert.h>

/* Adds the tensors that the call reads, and sets the number of each of them in the chain. */
static void add_inputs(const struct td_chain_call *call, struct td_chain *chain, int *numbers)
{
    for (int i = 0; i < call->args->op->n_inputs; i++)
        if (call->operands[i] < 0)
            numbers[i] = td_chain_input(chain, call->args->inputs[i].tensors);
}

td_status td_chain_run_calls(const struct td_chain_call *calls, int n, struct td_exec *exec,
                             struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    struct td_chain chain = { .shape = calls[0].args->outputs[0].shape };
    int numbers[TD_CHAIN_STEPS][TD_CHAIN_OPERANDS], results[TD_CHAIN_STEPS];
    assert(n <= TD_CHAIN_STEPS);
    for (int c = 0; c < n; c++)
        add_inputs(&calls[c], &chain, numbers[c]);
    for (int c = 0; c < n; c++) {
        const struct td_op_args *args = calls[c].args;
        for (int i = 0; i < args->op->n_inputs; i++)
            if (calls[c].operands[i] >= 0)
                numbers[c][i] = results[calls[c].operands[i]];
        results[c] = args->op->chain->add(args, &chain, numbers[c],
                                          calls[c].is_inner ? NULL : &args->outputs[0], isa);
    }
    return td_chain_run(&chain, exec, err);
}
