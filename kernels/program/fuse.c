#include "kernels/program/fuse.h"

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

int td_program_chain_calls(const struct td_program_plan *plan, int first,
                           struct td_chain_call *calls)
{
    const int last = plan->steps[first].last;
    for (int s = first; s <= last; s++) {
        const struct td_program_step *step = &plan->program->steps[s];
        struct td_chain_call *call = &calls[s - first];
        call->args = &plan->steps[s].args;
        call->is_inner = plan->values[step->results[0]].is_inner;
        for (int i = 0; i < step->op->n_inputs; i++) {
            const int producer = plan->program->values[step->inputs[i].values[0]].step;
            call->operands[i] = producer < first ? -1 : producer - first;
        }
    }
    return last - first + 1;
}

td_status td_program_run_chain(const struct td_program_plan *plan, int first, struct td_exec *exec,
                               struct td_error *err)
{
    struct td_chain_call calls[TD_CHAIN_STEPS];
    const int n = td_program_chain_calls(plan, first, calls);
    return td_chain_run_calls(calls, n, exec, err);
}
