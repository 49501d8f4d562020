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

/* Memory of results that have no place in the block. */
struct held {
    struct td_arena arena;
    _Alignas(16) char node[NODE_BYTES];
};

struct job {
    struct td_program_plan *plan;
    struct td_op_args *args; /* of the program */
    struct td_exec *exec;
    char *block;                       /* the results that have a place */
    struct held *held;                 /* [n_values] */
    bool has_held;                     /* true if an element of `held` has memory */
    struct td_step_replaced *replaced; /* [n_steps] */
    struct td_step_time *times;        /* [n_steps] */
    uint64_t output_bytes;             /* of the outputs that were described by this run */
    uint64_t flops;                    /* of the steps that are described so far */
};

/* ---- Memory of results ------------------------------------------------------------------- */

static void begin_held(struct job *job, int v)
{
    struct held *held = &job->held[v];
    td_arena_init(&held->arena, held->node, sizeof(held->node), job->exec->arena->memory);
    held->arena.stop = job->exec->arena->stop;
}

/* Starts with the outputs that the caller has allocated. */
static td_status begin(struct job *job, struct td_error *err)
{
    const struct td_program_plan *plan = job->plan;
    const struct td_program *program = plan->program;
    struct td_arena *arena = job->exec->arena;
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
static td_status admit_output(struct job *job, const struct td_tensor *output, struct td_error *err)
{
    const uint64_t limit = job->exec->output_limit;
    job->output_bytes = td_saturating_add(job->output_bytes, td_tensor_footprint(output));
    return job->output_bytes <= limit
               ? TD_OK
               : td_error_resource(err, "output_bytes", job->output_bytes, limit, "the output");
}

/* Returns the arena for a result that has no place in the block. */
static struct td_arena *arena_of(const struct job *job, int v)
{
    const struct td_program *program = job->plan->program;
    const bool is_small = job->plan->values[v].tensor.bytes < SMALL_BYTES;
    return &job->held[is_small ? program->steps[program->values[v].step].results[0] : v].arena;
}

/* Sets the data of a result that has none: a place in the block, or memory of its own. */
static td_status allocate(struct job *job, int v, struct td_error *err)
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
static void release(struct job *job, int s)
{
    for (int v = 0; job->has_held && v < job->plan->program->n_values; v++)
        if (job->plan->values[v].last_use == s && job->plan->program->values[v].output < 0)
            td_arena_reset(&job->held[v].arena);
}

static void release_all(struct job *job)
{
    for (int v = 0; job->has_held && v < job->plan->program->n_values; v++)
        td_arena_reset(&job->held[v].arena);
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Gives the step the data of results that were computed after it was described. */
static void set_inputs(const struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    const struct td_op_args *args = &plan->steps[s].args;
    for (int i = 0; i < step->op->n_inputs; i++) {
        struct td_tensor *tensors =
            step->inputs[i].by_keys ? plan->steps[s].keys[i] : args->inputs[i].tensors;
        for (int k = 0; k < step->inputs[i].count; k++)
            if (!tensors[k].data)
                tensors[k] = plan->values[step->inputs[i].values[k]].tensor;
    }
}

/* Finds the rows that the step names by key. */
static td_status find_rows(struct job *job, int s, struct td_error *err)
{
    const struct td_program_step *step = &job->plan->program->steps[s];
    struct td_tensor **keys = job->plan->steps[s].keys;
    td_status status = TD_OK;
    for (int i = 0; keys && i < step->op->n_inputs && status == TD_OK; i++)
        if (keys[i])
            status = td_keyed_rows_find(step->op, &job->plan->steps[s].args, i, keys[i],
                                        step->op->inputs[i].name, job->exec, err);
    return status;
}

static td_status set_outputs(struct job *job, int s, struct td_error *err)
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
static td_status run_op(struct job *job, int s, struct td_error *err)
{
    const struct td_program_plan *plan = job->plan;
    if (plan->steps[s].first < plan->steps[s].last)
        return td_program_run_chain(job->plan, s, job->exec, err);
    const td_status status = find_rows(job, s, err);
    return status == TD_OK
               ? plan->program->steps[s].op->run(&job->plan->steps[s].args, job->exec, err)
               : status;
}

/* True if the step has a result with strings. Sets *is_output if one of them is an output of the
 * program. */
static bool has_strings(const struct job *job, int s, bool *is_output)
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
static td_status run_in_scratch(struct job *job, int s, struct td_error *err)
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
static void keep_replaced(struct job *job, int s)
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
static void keep_outputs(struct job *job, int s)
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
static td_status describe(struct job *job, int s, struct td_error *err)
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
static td_status prepare(struct job *job, int s, struct td_error *err)
{
    const td_status status = job->plan->steps[s].is_inferred ? TD_OK : describe(job, s, err);
    if (status == TD_OK)
        set_inputs(job->plan, s);
    return status;
}

/* Runs step s, or the chain that begins with it. */
static td_status run_step(struct job *job, int s, struct td_error *err)
{
    struct td_program_plan *plan = job->plan;
    td_status status = td_exec_check(job->exec, err);
    for (int k = s; k <= plan->steps[s].last && status == TD_OK; k++)
        status = prepare(job, k, err);
    if (status == TD_OK && td_program_shares(plan->program, s)) {
        td_program_share(plan, s);
        return TD_OK;
    }
    for (int k = s; k <= plan->steps[s].last && status == TD_OK; k++)
        status = set_outputs(job, k, err);
    if (status == TD_OK)
        status = run_in_scratch(job, s, err);
    for (int k = s; k <= plan->steps[s].last && status == TD_OK; k++) {
        keep_outputs(job, k);
        keep_replaced(job, k);
    }
    return status;
}

td_status td_program_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)args->plan;
    struct job job = {
        .plan = plan, .args = args, .exec = exec, .flops = args->op->cost(args).flops
    };
    td_status status = begin(&job, err);
    uint64_t begin_ns = exec->now ? exec->now() : 0;
    for (int s = 0; s < plan->program->n_steps && status == TD_OK; s = plan->steps[s].last + 1) {
        status = td_program_blame(plan->program, s, run_step(&job, s, err), err);
        release(&job, plan->steps[s].last);
        if (!exec->now)
            continue;
        const uint64_t end_ns = exec->now();
        const int last = plan->steps[s].last;
        job.times[args->n_times++] =
            (struct td_step_time){ s, last, plan->program->steps[last].as, end_ns - begin_ns };
        begin_ns = end_ns;
    }
    release_all(&job);
    return status;
}
