#include "kernels/program/program.h"

#include "kernels/integers.h"
#include "kernels/program/pass.h"
#include "kernels/program/plan.h"
#include "kernels/program/rows.h"
#include "kernels/program/run.h"
#include "kernels/program/signature.h"

/* ---- Inputs ------------------------------------------------------------------------------ */

/* Records what the steps do with each value. A reshaped value shares the elements of the value
 * before it, so the steps are visited from the last to the first. infer widens keys, so it reads
 * them. */
static void mark_uses(struct td_program *program)
{
    for (int s = program->n_steps - 1; s >= 0; s--) {
        const struct td_program_step *step = &program->steps[s];
        const struct td_program_value reshaped =
            step->op->reshapes ? program->values[step->results[0]] : (struct td_program_value){ 0 };
        for (int i = 0; i < step->op->n_inputs; i++) {
            const struct td_input_spec *spec = &step->op->inputs[i];
            const bool by_keys = step->inputs[i].by_keys;
            for (int k = 0; k < step->inputs[i].count; k++) {
                struct td_program_value *value = &program->values[step->inputs[i].values[k]];
                value->is_index |=
                    (spec->role == TD_ROLE_INDEX && !by_keys) || (i == 0 && reshaped.is_index);
                value->is_read |= td_input_reads_values(spec) || (i == 0 && reshaped.is_read);
                value->sets_shape |= spec->sets_shape || spec->role == TD_ROLE_KEY || by_keys ||
                                     (i == 0 && reshaped.sets_shape);
            }
        }
    }
}

/* Describes the inputs. An input is data unless it is used as indices. Keys that other steps use as
 * data must keep their dtype, so each step widens its own keys. */
static void describe_inputs(const struct td_program *program, struct td_input_spec *inputs)
{
    for (int i = 0; i < program->op.n_inputs; i++) {
        if (program->values[i].is_index)
            inputs[i].role = TD_ROLE_INDEX;
        inputs[i].reads_values |= program->values[i].is_read;
        inputs[i].sets_shape |= program->values[i].sets_shape;
    }
}

/* ---- Functions of the op ----------------------------------------------------------------- */

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_program *program = td_program_of(args->op);
    struct td_program_plan *plan;
    td_status status = td_program_check_shapes(program, args, err);
    if (status == TD_OK)
        status = td_program_plan_make(program, args, arena, &plan, err);
    if (status == TD_OK)
        status = td_op_outputs(args, program->op.n_outputs, arena, err);
    if (status != TD_OK)
        return status;
    plan->shared = args->op->pass ? td_program_shared_step(plan) : -1;
    args->plan = plan;
    for (int i = 0; i < program->op.n_outputs; i++)
        args->outputs[i] = plan->values[program->outputs[i]].tensor;
    return TD_OK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_program_plan *plan = args->plan;
    struct td_cost sum = { .steps = (uint64_t)plan->program->n_steps, .single_threaded = true };
    for (int s = 0; s < plan->program->n_steps; s++) {
        if (!plan->steps[s].is_inferred)
            continue;
        const struct td_cost one = td_program_step_cost(plan, s);
        sum.bytes_read = td_saturating_add(sum.bytes_read, one.bytes_read);
        sum.bytes_written = td_saturating_add(sum.bytes_written, one.bytes_written);
        sum.random_reads = td_saturating_add(sum.random_reads, one.random_reads);
        sum.flops = td_saturating_add(sum.flops, one.flops);
        sum.workspace = larger(sum.workspace, one.workspace);
        sum.workspace_per_thread = larger(sum.workspace_per_thread, one.workspace_per_thread);
        sum.single_threaded &= one.single_threaded;
    }
    sum.workspace = td_saturating_add(sum.workspace, plan->block_bytes);
    return sum;
}

/* Implements td_op.valid for the steps that are described. Inputs that other steps compute have no
 * data yet. */
static bool valid(const struct td_op_args *args)
{
    const struct td_program_plan *plan = args->plan;
    bool is_valid = true;
    for (int s = 0; s < plan->program->n_steps && is_valid; s++) {
        const struct td_op *op = plan->program->steps[s].op;
        is_valid = !plan->steps[s].is_inferred || !op->valid || op->valid(&plan->steps[s].args);
    }
    return is_valid;
}

/* ---- Descriptor -------------------------------------------------------------------------- */

const struct td_program *td_program_of(const struct td_op *op)
{
    return op->infer == infer ? (const struct td_program *)op->detail : NULL;
}

void td_program_describe(struct td_program *program, struct td_input_spec *inputs)
{
    static const td_status errors[] = { TD_OK };
    mark_uses(program);
    describe_inputs(program, inputs);
    program->op.named_outputs = true;
    program->op.errors = errors;
    program->op.infer = infer;
    program->op.cost = cost;
    program->op.run = td_program_run;
    program->op.valid = valid;
    if (td_program_declares_rows(program)) {
        program->op.by_rows = td_program_by_rows;
        program->op.is_same = td_program_is_same;
    }
    for (int s = 0; s < program->n_steps; s++)
        if (program->steps[s].op->pass)
            program->op.pass = &td_program_pass;
    program->op.detail = program;
}
