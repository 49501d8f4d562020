#include "kernels/program/pass.h"

#include "kernels/integers.h"
#include "kernels/program/run.h"

/* The work of the other steps is at most this part of the bytes that the shared step reads. */
enum { SMALL_PART = 16 };

/* ---- The shared step --------------------------------------------------------------------- */

/* Returns a measure of the work that a step does: bytes moved plus FLOPs. A row that is read from a
 * random address counts as one cache line. */
static uint64_t work_of(const struct td_cost *cost)
{
    uint64_t work = td_saturating_add(cost->bytes_read, cost->bytes_written);
    work = td_saturating_add(work, cost->flops);
    return td_saturating_add(work, td_saturating_mul(cost->random_reads, 64));
}

/* True if the work of all other steps is small beside the bytes that step s reads. The first call
 * of a pass prepares the other calls, and the steps after the pass are not split over the
 * workers. */
static bool does_most_work(const struct td_program_plan *plan, int s)
{
    const uint64_t most = td_program_step_cost(plan, s).bytes_read / SMALL_PART;
    uint64_t others = 0;
    for (int i = 0; i < plan->program->n_steps && others < most; i++) {
        if (i == s || !plan->steps[i].is_inferred)
            continue;
        const struct td_cost cost = td_program_step_cost(plan, i);
        others = td_saturating_add(others, work_of(&cost));
    }
    return others < most;
}

/* True if the results of the step have a place before the program runs. The memory of other results
 * would not be freed if a pass is refused between its stages. */
static bool has_places(const struct td_program_plan *plan, int s)
{
    const struct td_op_args *args = &plan->steps[s].args;
    if (!plan->steps[s].is_inferred)
        return false;
    for (int i = 0; i < args->n_outputs; i++)
        if (args->outputs[i].dtype == TD_DTYPE_STRING)
            return false;
    return true;
}

int td_program_shared_step(const struct td_program_plan *plan)
{
    for (int s = 0; s < plan->program->n_steps && has_places(plan, s); s++) {
        const struct td_op_pass *pass = plan->program->steps[s].op->pass;
        const struct td_op_args *args = &plan->steps[s].args;
        if (pass && pass->can_join(args, args) && does_most_work(plan, s))
            return s;
    }
    return -1;
}

/* ---- A pass ------------------------------------------------------------------------------ */

static struct td_program_plan *plan_of(const struct td_op_args *args)
{
    return (struct td_program_plan *)(uintptr_t)args->plan;
}

static struct td_op_args *shared_args(const struct td_op_args *args)
{
    struct td_program_plan *plan = plan_of(args);
    return &plan->steps[plan->shared].args;
}

static const struct td_op_pass *shared_pass(const struct td_op_args *args)
{
    const struct td_program_plan *plan = plan_of(args);
    return plan->program->steps[plan->shared].op->pass;
}

static bool can_join(const struct td_op_args *a, const struct td_op_args *b)
{
    return plan_of(a)->shared >= 0 && plan_of(b)->shared >= 0 && shared_pass(a) == shared_pass(b) &&
           shared_pass(a)->can_join(shared_args(a), shared_args(b));
}

static const void *data(const struct td_op_args *args)
{
    return shared_pass(args)->data(shared_args(args));
}

static td_status blame(const struct td_op_args *args, td_status status, struct td_error *err)
{
    const struct td_program_plan *plan = plan_of(args);
    return td_program_blame(plan->program, plan->shared, status, err);
}

static td_status open_shared(struct td_program_job *job, struct td_error *err)
{
    td_status status = td_program_open_step(job, err);
    if (status == TD_OK)
        status = td_program_find_rows(job, err);
    return status == TD_OK ? shared_pass(job->args)->prepare(shared_args(job->args), job->exec, err)
                           : status;
}

static td_status prepare(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct td_program_plan *plan = plan_of(args);
    struct td_program_job *job = td_arena_alloc(exec->arena, 1, sizeof(*job), err);
    if (!job)
        return err->status;
    plan->job = job;
    td_status status = td_program_begin(job, args, exec, err);
    if (status == TD_OK)
        status = td_program_run_steps(job, plan->shared, err);
    return status == TD_OK ? blame(args, open_shared(job, err), err) : status;
}

static td_status run(struct td_op_args *const *calls, int n, struct td_exec *exec,
                     struct td_error *err)
{
    struct td_op_args **shared = td_arena_alloc(exec->arena, (size_t)n, sizeof(shared[0]), err);
    if (!shared)
        return err->status;
    for (int i = 0; i < n; i++)
        shared[i] = shared_args(calls[i]);
    const td_status status = shared_pass(calls[0])->run(shared, n, exec, err);
    return n == 1 ? blame(calls[0], status, err) : status; /* each program has its own step */
}

static td_status finish(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_program_plan *plan = plan_of(args);
    struct td_program_job *job = plan->job;
    job->exec = exec;
    td_status status = blame(args, shared_pass(args)->finish(shared_args(args), exec, err), err);
    if (status == TD_OK) {
        td_program_close_step(job);
        status = td_program_run_steps(job, plan->program->n_steps, err);
    }
    td_program_end(job);
    return status;
}

const struct td_op_pass td_program_pass = {
    .can_join = can_join,
    .data = data,
    .prepare = prepare,
    .run = run,
    .finish = finish,
};
