#include "kernels/program/rows.h"

#include "kernels/by_rows.h"

bool td_program_declares_rows(const struct td_program *program)
{
    if (!program->shapes || program->op.n_inputs == 0 || program->shapes[0].rank == 0)
        return false;
    const int letter = program->shapes[0].sizes[0].letter;
    for (int i = 0; i < program->op.n_inputs; i++) {
        const struct td_program_shape *shape = &program->shapes[i];
        for (int d = 0; d < shape->rank; d++)
            if ((shape->sizes[d].letter == letter) != (d == 0))
                return false;
        if (shape->rank == 0)
            return false;
    }
    return letter >= 0;
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Sets *rows to the tensors of the step that have rows. Returns false if there are too many
 * tensors. */
static bool rows_of(const struct td_program_plan *plan, int s, td_tensor_set *rows)
{
    const struct td_program_step *step = &plan->program->steps[s];
    int number = 0;
    *rows = 0;
    for (int i = 0; i < step->op->n_inputs; i++) {
        for (int k = 0; k < step->inputs[i].count; k++) {
            if (!plan->values[step->inputs[i].values[k]].has_rows)
                continue;
            if (number + k >= TD_TENSOR_SET_MOST)
                return false;
            *rows |= UINT64_C(1) << (number + k);
        }
        number += plan->steps[s].args.inputs[i].count;
    }
    return true;
}

static bool step_by_rows(struct td_program_plan *plan, int s)
{
    const int *results = plan->program->steps[s].results;
    td_tensor_set rows;
    if (!plan->steps[s].is_inferred || plan->steps[s].keys || !rows_of(plan, s, &rows) ||
        (rows && !td_op_by_rows(&plan->steps[s].args, rows)))
        return false;
    for (int r = 0; r < td_program_result_count(plan, s); r++)
        plan->values[results[r]].has_rows = rows != 0;
    return true;
}

bool td_program_by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)args->plan;
    const struct td_program *program = plan->program;
    for (int v = 0; v < program->n_values; v++)
        plan->values[v].has_rows = v < program->op.n_inputs && rows >> v & 1;
    for (int s = 0; s < program->n_steps; s++)
        if (!step_by_rows(plan, s))
            return false;
    for (int i = 0; i < program->op.n_outputs; i++)
        if (!plan->values[program->outputs[i]].has_rows)
            return false;
    return true;
}

/* ---- Programs ---------------------------------------------------------------------------- */

static bool same_constant(const struct td_tensor *a, const struct td_tensor *b)
{
    return a == b || (a && b && a->data == b->data && a->dtype == b->dtype &&
                      a->key_index == b->key_index && td_shape_equal(&a->shape, &b->shape));
}

bool td_program_is_same(const struct td_op *op, const struct td_op *other)
{
    const struct td_program *a = td_program_of(op), *b = td_program_of(other);
    if (!a || !b || a->steps != b->steps)
        return false;
    for (int v = 0; v < a->n_values; v++)
        if (!same_constant(a->values[v].constant, b->values[v].constant))
            return false;
    return true;
}
