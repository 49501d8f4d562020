#include "kernels/program/run.h"

#include "kernels/integers.h"
#include "kernels/key_index/keyed_rows.h"
#include "kernels/program/fuse.h"
#include "kernels/program/plan.h"

#include <string.h>

/* Bytes of stack for the small allocations of a step. */
#define SCRATCH_BYTES 4096
/* Results of unknown size that are smaller share the memory of their step's first result, because
 * an arena takes memory in blocks of 64 KiB. */
#define SMALL_BYTES   ((size_t)16 * 1024)
/* Bytes of the list node of an arena that holds one large result, with the bytes that
 * AddressSanitizer needs after it. */
#define NODE_BYTES    32

struct td_program_held {
    struct td_arena arena;
    _Alignas(16) char node[NODE_BYTES];
};

/* ---- Memory of results ------------------------------------------------------------------- */

static void begin_held(struct td_program_job *job, int v)
{
    struct td_program_held *held = &job->held[v];
    td_arena_init(&held->arena, held->node, sizeof(held->node), job->exec->arena->memory);
    held->arena.stop = job->exec->arena->stop;
}

td_status td_program_begin(struct td_program_job *job, struct td_op_args *args,
                           struct td_exec *exec, struct td_error *err)
{
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)args->plan;
    const struct td_program *program = plan->program;
    struct td_arena *arena = exec->arena;
    *job = (struct td_program_job){
        .plan = plan, .args = args, .exec = exec, .flops = args->op->cost(args).flops
    };
    job->block = td_arena_alloc(arena, 1, plan->block_bytes, err);
    job->held = td_arena_alloc(arena, (size_t)program->n_values, sizeof(job->held[0]), err);
    job->replaced = td_arena_alloc(arena, (size_t)program->n_steps, sizeof(job->replaced[0]), err);
    job->times = td_arena_alloc(arena, (size_t)program->n_steps, sizeof(job->times[0]), err);
    for (int v = 0; job->held && v < program->n_values; v++)
        begin_held(job, v);
    if (!job->block || !job->held || !job->replaced || !job->times)
        return err->status;
    job->args->replaced_in = job->replaced;
    job->args->n_replaced_in = 0;
    job->args->times = job->times;
    job->args->n_times = 0;
    for (int i = 0; i < program->op.n_outputs; i++)
        if (plan->values[program->outputs[i]].is_known)
            plan->values[program->outputs[i]].tensor = job->args->outputs[i];
    return TD_OK;
}

/* Adds the size of an output whose size was not known before to the sum of these sizes. */
static td_status admit_output(struct td_program_job *job, const struct td_tensor *output,
                              struct td_error *err)
{
    const uint64_t limit = job->exec->output_limit;
    job->output_bytes = td_saturating_add(job->output_bytes, td_tensor_footprint(output));
    return job->output_bytes <= limit
               ? TD_OK
               : td_error_resource(err, "output_bytes", job->output_bytes, limit, "the output");
}

/* Returns the arena for a result that has no place in the block. */
static struct td_arena *arena_of(const struct td_program_job *job, int v)
{
    const struct td_program *program = job->plan->program;
    const bool is_small = job->plan->values[v].tensor.bytes < SMALL_BYTES;
    return &job->held[is_small ? program->steps[program->values[v].step].results[0] : v].arena;
}

/* Sets the data of a result that has none: a place in the block, or memory of its own. */
static td_status allocate(struct td_program_job *job, int v, struct td_error *err)
{
    const struct td_program_plan *plan = job->plan;
    const bool is_output = plan->program->values[v].output >= 0;
    struct td_tensor *tensor = &plan->values[v].tensor;
    if (tensor->data || tensor->offsets || plan->values[v].is_inner)
        return TD_OK;
    if (plan->values[v].place != TD_PROGRAM_NO_PLACE) {
        tensor->data = job->block + plan->values[v].place;
        return TD_OK;
    }
    td_status status = is_output ? admit_output(job, tensor, err) : TD_OK;
    job->has_held |= !is_output;
    if (status == TD_OK)
        status = td_tensor_alloc(tensor, is_output ? job->exec->arena : arena_of(job, v), err);
    return status;
}

/* Frees the results that no step after s reads. */
static void release(struct td_program_job *job, int s)
{
    for (int v = 0; job->has_held && v < job->plan->program->n_values; v++)
        if (job->plan->values[v].last_use == s && job->plan->program->values[v].output < 0)
            td_arena_reset(&job->held[v].arena);
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Gives the step the data of results that were computed after it was described. Does not write the
 * dtypes and shapes, because another thread can read them (pass.h). */
static void set_inputs(const struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    const struct td_op_args *args = &plan->steps[s].args;
    for (int i = 0; i < step->op->n_inputs; i++) {
        struct td_tensor *tensors =
            step->inputs[i].by_keys ? plan->steps[s].keys[i] : args->inputs[i].tensors;
        for (int k = 0; k < step->inputs[i].count; k++) {
            const struct td_tensor *from = &plan->values[step->inputs[i].values[k]].tensor;
            if (tensors[k].data)
                continue;
            tensors[k].data = from->data;
            tensors[k].bytes = from->bytes;
            tensors[k].offsets = from->offsets;
            tensors[k].owner = from->owner;
            tensors[k].key_index = from->key_index;
            tensors[k].keys = from->keys;
        }
    }
}

td_status td_program_find_rows(struct td_program_job *job, struct td_error *err)
{
    const int s = job->step;
    const struct td_program_step *step = &job->plan->program->steps[s];
    struct td_tensor **keys = job->plan->steps[s].keys;
    td_status status = TD_OK;
    for (int i = 0; keys && i < step->op->n_inputs && status == TD_OK; i++)
        if (keys[i])
            status = td_keyed_rows_find(step->op, &job->plan->steps[s].args, i, keys[i],
                                        step->op->inputs[i].name, job->exec, err);
    return status;
}

static td_status set_outputs(struct td_program_job *job, int s, struct td_error *err)
{
    const struct td_program_step *step = &job->plan->program->steps[s];
    td_status status = TD_OK;
    for (int r = 0; r < td_program_result_count(job->plan, s) && status == TD_OK; r++) {
        status = allocate(job, step->results[r], err);
        job->plan->steps[s].args.outputs[r] = job->plan->values[step->results[r]].tensor;
    }
    return status;
}

/* Runs the op, or the chain that begins with the step. */
static td_status run_op(struct td_program_job *job, int s, struct td_error *err)
{
    const struct td_program_plan *plan = job->plan;
    if (plan->steps[s].first < plan->steps[s].last)
        return td_program_run_chain(job->plan, s, job->exec, err);
    const td_status status = td_program_find_rows(job, err);
    return status == TD_OK
               ? plan->program->steps[s].op->run(&job->plan->steps[s].args, job->exec, err)
               : status;
}

/* True if the step has a result with strings. Sets *is_output if one of them is an output of the
 * program. */
static bool has_strings(const struct td_program_job *job, int s, bool *is_output)
{
    const struct td_program *program = job->plan->program;
    const struct td_op_args *args = &job->plan->steps[s].args;
    bool any = false;
    *is_output = false;
    for (int r = 0; r < args->n_outputs && r < program->steps[s].n_results; r++) {
        if (args->outputs[r].dtype != TD_DTYPE_STRING)
            continue;
        any = true;
        *is_output |= program->values[program->steps[s].results[r]].output >= 0;
    }
    return any;
}

/* Runs the op and frees the memory that the op allocated. Memory that holds strings is freed after
 * the last step that reads a result of this step, or with the call if the strings are outputs. */
static td_status run_in_scratch(struct td_program_job *job, int s, struct td_error *err)
{
    struct td_exec *exec = job->exec;
    struct td_arena *const arena = exec->arena, scratch;
    _Alignas(64) char first[SCRATCH_BYTES];
    bool is_output;
    if (has_strings(job, s, &is_output)) {
        job->has_held |= !is_output;
        if (!is_output)
            exec->arena = &job->held[job->plan->program->steps[s].results[0]].arena;
        const td_status status = run_op(job, s, err);
        exec->arena = arena;
        return status;
    }
    td_arena_init(&scratch, first, sizeof(first), arena->memory);
    scratch.stop = arena->stop;
    exec->arena = &scratch;
    const td_status status = run_op(job, s, err);
    exec->arena = arena;
    td_arena_reset(&scratch);
    return status;
}

/* Records the indices that a bounds policy replaced in a step. */
static void keep_replaced(struct td_program_job *job, int s)
{
    const struct td_op_args *args = &job->plan->steps[s].args;
    if (args->replaced > 0)
        job->replaced[job->args->n_replaced_in++] = (struct td_step_replaced){
            .step = s,
            .policy = td_op_bounds(job->plan->program->steps[s].op, args),
            .replaced = args->replaced,
        };
}

/* Passes on the results of a step. */
static void keep_outputs(struct td_program_job *job, int s)
{
    const struct td_program *program = job->plan->program;
    const struct td_program_step *step = &program->steps[s];
    for (int r = 0; r < td_program_result_count(job->plan, s); r++) {
        const int value = step->results[r], output = program->values[value].output;
        job->plan->values[value].tensor = job->plan->steps[s].args.outputs[r];
        if (output >= 0)
            job->args->outputs[output] = job->plan->values[value].tensor;
    }
}

/* Describes a step whose shapes depend on computed values, and adds its FLOPs to the total of the
 * program. */
static td_status describe(struct td_program_job *job, int s, struct td_error *err)
{
    const struct td_op *op = job->plan->program->steps[s].op;
    const td_status status = td_program_plan_step(job->plan, s, job->exec->arena, err);
    if (status != TD_OK)
        return status;
    job->flops = td_saturating_add(job->flops, op->cost(&job->plan->steps[s].args).flops);
    return job->flops <= job->exec->flops_limit
               ? TD_OK
               : td_error_resource(err, "flops", job->flops, job->exec->flops_limit, "the program");
}

/* Gives a step its inputs. */
static td_status give_inputs(struct td_program_job *job, int s, struct td_error *err)
{
    const td_status status = job->plan->steps[s].is_inferred ? TD_OK : describe(job, s, err);
    if (status == TD_OK)
        set_inputs(job->plan, s);
    return status;
}

td_status td_program_open_step(struct td_program_job *job, struct td_error *err)
{
    const struct td_program_plan *plan = job->plan;
    const int first = job->step, last = plan->steps[first].last;
    job->begun_ns = job->exec->now ? job->exec->now() : 0;
    td_status status = td_exec_check(job->exec, err);
    for (int s = first; s <= last && status == TD_OK; s++)
        status = give_inputs(job, s, err);
    if (td_program_shares(plan->program, first))
        return status;
    for (int s = first; s <= last && status == TD_OK; s++)
        status = set_outputs(job, s, err);
    return status;
}

/* Records how long the open step took. */
static void keep_time(struct td_program_job *job)
{
    const int first = job->step, last = job->plan->steps[first].last;
    const char *as = job->plan->program->steps[last].as;
    if (job->exec->now)
        job->times[job->args->n_times++] =
            (struct td_step_time){ first, last, as, job->exec->now() - job->begun_ns };
}

void td_program_close_step(struct td_program_job *job)
{
    const int first = job->step, last = job->plan->steps[first].last;
    for (int s = first; s <= last && !td_program_shares(job->plan->program, first); s++) {
        keep_outputs(job, s);
        keep_replaced(job, s);
    }
    release(job, last);
    keep_time(job);
    job->step = last + 1;
}

/* Runs the next step, or the chain that begins with it. */
static td_status run_step(struct td_program_job *job, struct td_error *err)
{
    const int s = job->step;
    td_status status = td_program_open_step(job, err);
    if (status == TD_OK && td_program_shares(job->plan->program, s))
        td_program_share(job->plan, s);
    else if (status == TD_OK)
        status = run_in_scratch(job, s, err);
    if (status == TD_OK)
        td_program_close_step(job);
    return td_program_blame(job->plan->program, s, status, err);
}

td_status td_program_run_steps(struct td_program_job *job, int end, struct td_error *err)
{
    td_status status = TD_OK;
    while (job->step < end && status == TD_OK)
        status = run_step(job, err);
    return status;
}

void td_program_end(struct td_program_job *job)
{
    for (int v = 0; job->has_held && v < job->plan->program->n_values; v++)
        td_arena_reset(&job->held[v].arena);
}

td_status td_program_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct td_program_job job;
    td_status status = td_program_begin(&job, args, exec, err);
    if (status == TD_OK)
        status = td_program_run_steps(&job, job.plan->program->n_steps, err);
    td_program_end(&job);
    return status;
}
