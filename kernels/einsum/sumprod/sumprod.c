#include "kernels/einsum/sumprod/sumprod.h"

#include "kernels/einsum/sumprod/block.h"
#include "kernels/integers.h"
#include "kernels/workspace.h"

#include <string.h>

/* This file distributes blocks, and splits of blocks, across threads. plan.h determines the order
 * of the loops, and block.h computes one block. */

/* A range reads or writes RANGE_BYTES, which takes 50 to 100 us at memory bandwidth. Waking a
 * thread takes 30 us, which is not worthwhile for a contraction of fewer than
 * SINGLE_THREAD_BYTES. */
#define RANGE_BYTES         (1 << 20)
#define SINGLE_THREAD_BYTES (2 * RANGE_BYTES)

/* A call of td_sumprod_run. */
struct job {
    struct td_sumprod_context ctx;
    /* Totals, [split][block][plan.block_outputs]. NULL if there are no splits. */
    char *partial;
    struct td_workspace *workspace;
};

struct td_workspace_size td_sumprod_workspace(const struct td_contraction *contraction)
{
    struct td_sumprod_plan plan;
    td_sumprod_plan_make(&plan, contraction);
    struct td_workspace_size size = {
        .per_thread = (uint64_t)td_sumprod_scratch_bytes(&plan),
        .single_threaded = plan.n_splits == 1 && plan.bytes < SINGLE_THREAD_BYTES,
    };
    if (plan.n_splits > 1)
        size.shared = (uint64_t)plan.n_splits * (uint64_t)plan.n_blocks *
                      (uint64_t)td_sumprod_totals_bytes(&plan);
    return size;
}

static char *partial_at(const struct job *job, int64_t split, int64_t block)
{
    const struct td_sumprod_plan *plan = &job->ctx.plan;
    return job->partial + (split * plan->n_blocks + block) * td_sumprod_totals_bytes(plan);
}

static void compute_blocks(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->ctx.plan;
    const int thread = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_scratch_at(plan, td_workspace_scratch(job->workspace, thread));
    const struct td_sumprod_reduction reduction = { plan->summed, plan->run };
    const int64_t no_offset[2] = { 0 };
    struct td_nest_iter iter;
    td_nest_iter_init(&iter, plan->outer, plan->n_outer, begin);
    for (int64_t block = begin; block < end; block++) {
        td_sumprod_compute_block(&job->ctx, &scratch, &iter, &reduction, no_offset, NULL);
        td_nest_iter_next(&iter);
    }
    td_workspace_release(job->workspace, thread);
}

/* Computes items of a parallel loop. Item i is split i % n_splits of block i / n_splits. */
static void compute_splits(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->ctx.plan;
    const int thread = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_scratch_at(plan, td_workspace_scratch(job->workspace, thread));
    struct td_loop summed[TD_MAX_LOOPS + 1];
    memcpy(summed, plan->summed, (size_t)plan->n_summed * sizeof(summed[0]));
    struct td_sumprod_reduction reduction = { summed, plan->run };
    struct td_loop *loop =
        plan->split_loop == plan->n_summed ? &reduction.run : &summed[plan->split_loop];
    const int64_t extent = loop->extent, each = extent / plan->n_splits,
                  rest = extent % plan->n_splits;
    struct td_nest_iter iter;
    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item / plan->n_splits, split = item % plan->n_splits;
        /* The first `rest` splits have one more iteration than the others. */
        const int64_t first = split * each + td_smaller(split, rest);
        loop->extent = each + (split < rest);
        td_nest_iter_init(&iter, plan->outer, plan->n_outer, block);
        td_sumprod_compute_block(
            &job->ctx, &scratch, &iter, &reduction,
            (int64_t[2]){ first * loop->stride[TD_A], first * loop->stride[TD_B] },
            partial_at(job, split, block));
    }
    td_workspace_release(job->workspace, thread);
}

/* Adds the partial totals of blocks. */
static void add_partials(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->ctx.plan;
    const int thread = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_scratch_at(plan, td_workspace_scratch(job->workspace, thread));
    struct td_nest_iter iter;
    td_nest_iter_init(&iter, plan->outer, plan->n_outer, begin);
    const int64_t split_bytes = plan->n_blocks * td_sumprod_totals_bytes(plan);
    for (int64_t block = begin; block < end; block++) {
        td_sumprod_add_partials(&job->ctx, &scratch, &iter, partial_at(job, 0, block), split_bytes);
        td_nest_iter_next(&iter);
    }
    td_workspace_release(job->workspace, thread);
}

static const struct td_sumprod_kernels *kernels_for(td_compute compute, td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_sumprod_avx512[compute];
    if (isa == TD_ISA_AVX2)
        return &td_sumprod_avx2[compute];
#endif
    (void)isa;
    return &td_sumprod_generic[compute];
}

static void choose_kernels(struct td_sumprod_context *ctx, td_isa isa)
{
    const struct td_sumprod_format *format = ctx->plan.format;
    const struct td_transpose_kernels *transpose = td_transpose_kernels(isa);
    ctx->kernels = kernels_for(ctx->plan.compute, isa);
    for (int operand = TD_A; operand <= TD_B; operand++) {
        const int log2_width = __builtin_ctzll((unsigned long long)format[operand].size);
        ctx->widen[operand] = td_widen(format[operand].dtype, isa);
        ctx->transpose[operand] = transpose->by_log2_width[log2_width];
    }
    ctx->narrow = td_narrow(format[TD_C].dtype, isa);
}

/* Returns the grain of a parallel loop whose items read and write `bytes` in total. */
static int64_t grain_of(int64_t items, double bytes)
{
    if (bytes < SINGLE_THREAD_BYTES)
        return items;
    const double each = bytes / (double)items;
    return each >= RANGE_BYTES ? 1 : (int64_t)(RANGE_BYTES / each);
}

td_status td_sumprod_run(const struct td_contraction *contraction, const void *a, const void *b,
                         void *c, struct td_workspace *workspace, struct td_exec *exec,
                         struct td_error *err)
{
    struct job job;
    const struct td_sumprod_plan *plan = &job.ctx.plan;
    td_sumprod_plan_make(&job.ctx.plan, contraction);
    choose_kernels(&job.ctx, td_isa_resolve(exec->isa));
    job.ctx.data[TD_A] = plan->swapped ? b : a;
    job.ctx.data[TD_B] = plan->swapped ? a : b;
    if (!plan->has_b)
        job.ctx.data[TD_B] = job.ctx.data[TD_A]; /* B is never read, but its offsets are computed */
    job.ctx.c = c;
    job.partial = plan->n_splits > 1 ? workspace->shared : NULL;
    job.workspace = workspace;

    if (plan->n_splits == 1)
        return td_exec_for(exec, plan->n_blocks, grain_of(plan->n_blocks, plan->bytes),
                           compute_blocks, &job, err);
    const int64_t items = plan->n_blocks * plan->n_splits;
    td_status status =
        td_exec_for(exec, items, grain_of(items, plan->bytes), compute_splits, &job, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(
        exec, plan->n_blocks,
        grain_of(plan->n_blocks, (double)items * (double)td_sumprod_totals_bytes(plan)),
        add_partials, &job, err);
}
