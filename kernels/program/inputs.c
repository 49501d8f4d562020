#include "kernels/program/inputs.h"

/* ---- Inputs ------------------------------------------------------------------------------ */

static int count_uses(const struct td_program_plan *plan)
{
    int n = 0;
    for (int s = 0; s < plan->program->n_steps; s++)
        for (int i = 0; plan->steps[s].is_inferred && i < plan->program->steps[s].op->n_inputs; i++)
            n += plan->program->steps[s].inputs[i].count;
    return n;
}

/* True if the tensor of the use is this input. A step can have a converted copy of an input. */
static bool is_input(const struct td_program_plan *plan, int input,
                     const struct td_program_use *use)
{
    return input >= 0 && plan->inputs[input]->data == use->tensor->data &&
           plan->inputs[input]->key_index == use->tensor->key_index;
}

/* Adds a use of value v by a step. `last[r]` is the last input that has the data of value r, or
 * -1. */
static void add_use(struct td_program_plan *plan, int v, struct td_tensor *tensor, int *last)
{
    const int root = plan->values[v].root;
    struct td_program_use *use = &plan->uses[plan->n_uses++];
    *use = (struct td_program_use){ .tensor = tensor, .input = -1, .root = root };
    if (plan->program->values[root].step >= 0)
        return;
    if (!is_input(plan, last[root], use)) {
        last[root] = plan->n_inputs;
        plan->input_values[plan->n_inputs] = root;
        plan->inputs[plan->n_inputs++] = tensor;
    }
    use->input = last[root];
}

td_status td_program_find_inputs(struct td_program_plan *plan, struct td_arena *arena,
                                 struct td_error *err)
{
    const struct td_program *program = plan->program;
    const size_t most = (size_t)count_uses(plan), n_values = (size_t)program->n_values;
    int *last = td_arena_alloc(arena, n_values, sizeof(*last), err);
    plan->inputs = td_arena_alloc(arena, most, sizeof(struct td_tensor *), err);
    plan->input_values = td_arena_alloc(arena, most, sizeof(plan->input_values[0]), err);
    plan->uses = td_arena_alloc(arena, most, sizeof(plan->uses[0]), err);
    plan->n_inputs = plan->n_uses = 0;
    if (!last || !plan->inputs || !plan->input_values || !plan->uses)
        return err->status;
    for (int v = 0; v < program->n_values; v++)
        last[v] = -1;
    for (int s = 0; s < program->n_steps; s++) {
        const struct td_program_step *step = &program->steps[s];
        for (int i = 0; plan->steps[s].is_inferred && i < step->op->n_inputs; i++)
            for (int k = 0; k < step->inputs[i].count; k++)
                add_use(plan, step->inputs[i].values[k], &plan->steps[s].args.inputs[i].tensors[k],
                        last);
    }
    return TD_OK;
}

void td_program_pass_inputs(const struct td_program_plan *plan)
{
    for (int u = 0; u < plan->n_uses; u++) {
        const struct td_program_use *use = &plan->uses[u];
        if (use->input < 0)
            continue;
        use->tensor->data = plan->inputs[use->input]->data;
        use->tensor->key_index = plan->inputs[use->input]->key_index;
    }
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Returns the address of a result that does not share the data of another value, or NULL if the
 * result is inside a chain and has no memory. */
static void *address_of(const struct td_program_plan *plan, int v, const struct td_tensor *outputs,
                        char *block)
{
    const int output = plan->program->values[v].output;
    if (output >= 0)
        return outputs[output].data;
    return plan->values[v].place == TD_PROGRAM_NO_PLACE ? NULL : block + plan->values[v].place;
}

void td_program_bind_results(struct td_program_plan *plan, const struct td_tensor *outputs,
                             char *block)
{
    for (int u = 0; u < plan->n_uses; u++)
        if (plan->uses[u].input < 0)
            plan->uses[u].tensor->data = address_of(plan, plan->uses[u].root, outputs, block);
    for (int s = 0; s < plan->program->n_steps; s++) {
        const int *results = plan->program->steps[s].results;
        for (int r = 0; r < td_program_result_count(plan, s); r++)
            plan->steps[s].args.outputs[r].data = address_of(plan, results[r], outputs, block);
    }
}
