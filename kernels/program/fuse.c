#include "kernels/program/fuse.h"

#include "kernels/chain/chain.h"

#include <string.h>

/* ---- Groups ------------------------------------------------------------------------------ */

/* What a group needs of a chain so far. */
struct need {
    int inputs, steps;
};

static bool is_elementwise(const struct td_program_plan *plan, int s)
{
    const struct td_op *op = plan->program->steps[s].op;
    return plan->steps[s].is_inferred && op->chain && op->chain->can_add(&plan->steps[s].args);
}

static const struct td_shape *shape_of(const struct td_program_plan *plan, int s)
{
    return &plan->steps[s].args.outputs[0].shape;
}

/* Adds what step s needs at most. An operand counts as an input of the chain even if it is the
 * result of a step of the group. */
static void add_need(const struct td_program_plan *plan, int s, struct need *need)
{
    const struct td_program_step *step = &plan->program->steps[s];
    bool is_converted = false;
    for (int i = 0; i < step->op->n_inputs; i++) {
        const struct td_tensor *tensor = plan->steps[s].args.inputs[i].tensors;
        need->inputs +=
            plan->program->values[step->inputs[i].values[0]].step < plan->steps[s].first;
        is_converted |= tensor->dtype == TD_DTYPE_FLOAT16 || tensor->dtype == TD_DTYPE_BFLOAT16;
    }
    is_converted |= step->op->n_inputs == 1 && plan->steps[s].args.inputs[0].tensors->dtype !=
                                                   plan->steps[s].args.outputs->dtype;
    need->steps += is_converted ? TD_CHAIN_STEPS_PER_OP : 1;
}

/* Extends the group that begins with step `first` as far as possible. */
static int group_end(struct td_program_plan *plan, int first)
{
    struct need need = { 0, 0 };
    int last = first - 1;
    for (int s = first; s < plan->program->n_steps; s++) {
        if (!is_elementwise(plan, s) || !td_shape_equal(shape_of(plan, s), shape_of(plan, first)))
            break;
        plan->steps[s].first = first;
        add_need(plan, s, &need);
        if (need.inputs > TD_CHAIN_INPUTS || need.steps > TD_CHAIN_STEPS)
            break;
        last = s;
    }
    return last;
}

void td_program_fuse(struct td_program_plan *plan)
{
    const int n = plan->program->n_steps;
    for (int first = 0; first < n;) {
        int last = is_elementwise(plan, first) ? group_end(plan, first) : first;
        last = last < first ? first : last;
        for (int s = first; s <= last; s++) {
            plan->steps[s].first = first;
            plan->steps[s].last = last;
        }
        first = last + 1;
    }
}

/* ---- Running ----------------------------------------------------------------------------- */

/* The tensor of an operand that is computed outside the group. The tensor of a constant is in the
 * arguments of its only reader. */
static const struct td_tensor *outside(const struct td_program_plan *plan, int s, int input)
{
    const int value = plan->program->steps[s].inputs[input].values[0];
    const bool is_constant =
        plan->program->values[value].step < 0 && value >= plan->program->op.n_inputs;
    return is_constant ? plan->steps[s].args.inputs[input].tensors : &plan->values[value].tensor;
}

static void add_inputs(const struct td_program_plan *plan, int s, struct td_chain *chain,
                       int *values)
{
    const struct td_program_step *step = &plan->program->steps[s];
    for (int i = 0; i < step->op->n_inputs; i++) {
        const int value = step->inputs[i].values[0];
        if (plan->program->values[value].step < plan->steps[s].first)
            values[value] = td_chain_input(chain, outside(plan, s, i));
    }
}

static void add_step(struct td_program_plan *plan, int s, struct td_chain *chain, int *values,
                     td_isa isa)
{
    const struct td_program_step *step = &plan->program->steps[s];
    const int result = step->results[0];
    int operands[TD_CHAIN_OPERANDS];
    for (int i = 0; i < step->op->n_inputs; i++)
        operands[i] = values[step->inputs[i].values[0]];
    values[result] = step->op->chain->add(
        &plan->steps[s].args, chain, operands,
        plan->values[result].is_inner ? NULL : &plan->values[result].tensor, isa);
}

td_status td_program_run_chain(struct td_program_plan *plan, int first, int *values,
                               struct td_exec *exec, struct td_error *err)
{
    const int last = plan->steps[first].last;
    const td_isa isa = td_isa_resolve(exec->isa);
    struct td_chain chain = { .shape = *shape_of(plan, first) };
    for (int s = first; s <= last; s++)
        add_inputs(plan, s, &chain, values);
    for (int s = first; s <= last; s++)
        add_step(plan, s, &chain, values, isa);
    return td_chain_run(&chain, exec, err);
}
