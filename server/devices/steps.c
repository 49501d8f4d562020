#include "server/devices/steps.h"

#include "kernels/op_rows.h"
#include "kernels/program/fuse.h"

#include <string.h>

int td_steps_count(const struct td_program_plan *plan)
{
    int n = 0;
    for (int s = 0; s < plan->program->n_steps; s = plan->steps[s].last + 1)
        n += !td_program_shares(plan->program, s);
    return n;
}

/* Sets the chain that starts with step s. A single step is not a chain. */
static td_status set_chain(const struct td_program_plan *plan, int s, struct td_device_work *work,
                           struct td_arena *arena, struct td_error *err)
{
    struct td_chain_call calls[TD_CHAIN_STEPS];
    if (plan->steps[s].first == plan->steps[s].last)
        return TD_OK;
    work->n_chain = td_program_chain_calls(plan, s, calls);
    const size_t bytes = (size_t)work->n_chain * sizeof(calls[0]);
    struct td_chain_call *chain = td_arena_alloc(arena, 1, bytes, err);
    if (!chain)
        return err->status;
    memcpy(chain, calls, bytes);
    work->chain = chain;
    return TD_OK;
}

td_status td_steps_works(const struct td_program_plan *plan, struct td_arena *arena,
                         struct td_device_work **works, int **steps, struct td_error *err)
{
    const size_t count = (size_t)td_steps_count(plan);
    td_status status = TD_OK;
    *works = td_arena_alloc(arena, count, sizeof(**works), err);
    *steps = td_arena_alloc(arena, count, sizeof(**steps), err);
    if (!*works || !*steps)
        return err->status;
    int n = 0;
    for (int s = 0; s < plan->program->n_steps && status == TD_OK; s = plan->steps[s].last + 1) {
        if (td_program_shares(plan->program, s))
            continue;
        (*works)[n] = (struct td_device_work){ .op = plan->program->steps[s].op,
                                               .args = &plan->steps[s].args,
                                               .n_items = 1 };
        (*steps)[n] = s;
        status = set_chain(plan, s, &(*works)[n++], arena, err);
    }
    return status;
}

td_status td_steps_divide(const struct td_program_plan *plan, int step,
                          const struct td_op_args *const *calls, int n, struct td_arena *arena,
                          struct td_device_work *work, struct td_error *err)
{
    const struct td_op *op = plan->program->steps[step].op;
    const int query = op->rows ? td_op_rows_input(op, TD_ROW_PART_QUERY) : -1;
    const struct td_program_operand *operand =
        query >= 0 ? &plan->program->steps[step].inputs[query] : NULL;
    if (!operand || operand->count == 0 || !plan->values[operand->values[0]].has_rows)
        return TD_OK;
    const struct td_tensor *queries = plan->steps[step].args.inputs[query].tensors;
    const int64_t n_rows = queries->shape.dim[0],
                  row = n_rows > 0 ? queries->numel / n_rows : 0; /* elements of a row */
    int64_t *ends = td_arena_alloc(arena, (size_t)n, sizeof(ends[0]), err), end = 0;
    if (!ends)
        return err->status;
    for (int c = 0; c < n; c++) {
        end += row * calls[c]->outputs[0].shape.dim[0];
        ends[c] = end;
    }
    work->n_items = n;
    work->item_end = ends;
    return TD_OK;
}
