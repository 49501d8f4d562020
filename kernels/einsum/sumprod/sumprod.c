#include "kernels/einsum/sumprod/sumprod.h"

#include "kernels/einsum/nest/workspace.h"
#include "kernels/einsum/sumprod/unit.h"
#include "kernels/integers.h"

#include <string.h>

/* sumprod_plan.h settles what is done in which order, sumprod_unit.h does one unit of it; here
 * units, or their parts, are dealt out to threads. */

/* Bytes read or written by a range: 50 to 100 us of memory's time. Less than ALONE_BYTES in all is
 * not worth waking a thread, which takes 30. */
#define RANGE_BYTES (1 << 20)
#define ALONE_BYTES (2 * RANGE_BYTES)

/* One run of td_sumprod_run. */
struct job {
    struct td_sumprod_work work;
    char *partial; /* totals [part][unit][plan.unit_outputs]; NULL for one part */
    struct td_workspace *workspace;
};

struct td_workspace_size td_sumprod_workspace(const struct td_contraction *contraction)
{
    struct td_sumprod_plan plan;
    td_sumprod_plan_make(&plan, contraction);
    struct td_workspace_size size = {
        .per_thread = (uint64_t)td_sumprod_slot_bytes(&plan),
        .single_threaded = plan.parts == 1 && plan.bytes < ALONE_BYTES,
    };
    if (plan.parts > 1)
        size.shared =
            (uint64_t)plan.parts * (uint64_t)plan.units * (uint64_t)td_sumprod_totals_bytes(&plan);
    return size;
}

static char *partial_of(const struct job *job, int64_t part, int64_t unit)
{
    const struct td_sumprod_plan *plan = &job->work.plan;
    return job->partial + (part * plan->units + unit) * td_sumprod_totals_bytes(plan);
}

static void run_units(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->work.plan;
    const int slot = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_cut_slot(plan, td_workspace_scratch(job->workspace, slot));
    const struct td_sumprod_summed summed = { plan->sums, plan->run };
    const int64_t nowhere[2] = { 0 };
    struct td_nest_iter iter;
    td_nest_iter_init(&iter, plan->unit_loops, plan->n_unit_loops, begin);
    for (int64_t unit = begin; unit < end; unit++) {
        td_sumprod_unit(&job->work, &scratch, &iter, &summed, nowhere, NULL);
        td_nest_iter_next(&iter);
    }
    td_workspace_release(job->workspace, slot);
}

/* Item i is part i % parts of unit i / parts. */
static void run_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->work.plan;
    const int slot = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_cut_slot(plan, td_workspace_scratch(job->workspace, slot));
    struct td_loop sums[TD_MAX_LOOPS + 1];
    memcpy(sums, plan->sums, (size_t)plan->n_sums * sizeof(sums[0]));
    struct td_sumprod_summed summed = { sums, plan->run };
    struct td_loop *cut = plan->split == plan->n_sums ? &summed.run : &sums[plan->split];
    const int64_t extent = cut->extent, each = extent / plan->parts, more = extent % plan->parts;
    struct td_nest_iter iter;
    for (int64_t item = begin; item < end; item++) {
        const int64_t unit = item / plan->parts, part = item % plan->parts;
        /* The first `more` parts have one step more. */
        const int64_t first = part * each + td_smaller(part, more);
        cut->extent = each + (part < more);
        td_nest_iter_init(&iter, plan->unit_loops, plan->n_unit_loops, unit);
        td_sumprod_unit(&job->work, &scratch, &iter, &summed,
                        (int64_t[2]){ first * cut->stride[TD_A], first * cut->stride[TD_B] },
                        partial_of(job, part, unit));
    }
    td_workspace_release(job->workspace, slot);
}

/* Adds the parts of units, in their order. */
static void add_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct td_sumprod_plan *plan = &job->work.plan;
    const int slot = td_workspace_acquire(job->workspace);
    struct td_sumprod_scratch scratch =
        td_sumprod_cut_slot(plan, td_workspace_scratch(job->workspace, slot));
    struct td_nest_iter iter;
    td_nest_iter_init(&iter, plan->unit_loops, plan->n_unit_loops, begin);
    const int64_t part_bytes = plan->units * td_sumprod_totals_bytes(plan);
    for (int64_t unit = begin; unit < end; unit++) {
        td_sumprod_join_parts(&job->work, &scratch, &iter, partial_of(job, 0, unit), part_bytes);
        td_nest_iter_next(&iter);
    }
    td_workspace_release(job->workspace, slot);
}

static const struct td_sumprod_kernels *kernels_of(td_compute compute, td_isa isa)
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

static void choose_kernels(struct td_sumprod_work *work, td_isa isa)
{
    const struct td_sumprod_side *side = work->plan.side;
    const struct td_transpose_kernels *transpose = td_transpose_kernels(isa);
    work->kernels = kernels_of(work->plan.compute, isa);
    for (int operand = TD_A; operand <= TD_B; operand++) {
        const int log2_width = __builtin_ctzll((unsigned long long)side[operand].size);
        work->widen[operand] = td_widen(side[operand].dtype, isa);
        work->transpose[operand] = transpose->by_log2_width[log2_width];
    }
    work->narrow = td_narrow(side[TD_C].dtype, isa);
}

/* Items of a range, where `bytes` are moved by all `items` together. */
static int64_t grain_of(int64_t items, double bytes)
{
    if (bytes < ALONE_BYTES)
        return items;
    const double each = bytes / (double)items;
    return each >= RANGE_BYTES ? 1 : (int64_t)(RANGE_BYTES / each);
}

td_status td_sumprod_run(const struct td_contraction *contraction, const void *a, const void *b,
                         void *c, struct td_workspace *workspace, struct td_exec *exec,
                         struct td_error *err)
{
    struct job job;
    const struct td_sumprod_plan *plan = &job.work.plan;
    td_sumprod_plan_make(&job.work.plan, contraction);
    choose_kernels(&job.work, td_isa_resolve(exec->isa));
    job.work.data[TD_A] = plan->swapped ? b : a;
    job.work.data[TD_B] = plan->swapped ? a : b;
    if (!plan->has_b)
        job.work.data[TD_B] = job.work.data[TD_A]; /* never read, but moved along */
    job.work.c = c;
    job.partial = plan->parts > 1 ? workspace->shared : NULL;
    job.workspace = workspace;

    if (plan->parts == 1)
        return td_exec_for(exec, plan->units, grain_of(plan->units, plan->bytes), run_units, &job,
                           err);
    const int64_t items = plan->units * plan->parts;
    td_status status = td_exec_for(exec, items, grain_of(items, plan->bytes), run_parts, &job, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(exec, plan->units,
                       grain_of(plan->units, (double)items * (double)td_sumprod_totals_bytes(plan)),
                       add_parts, &job, err);
}
