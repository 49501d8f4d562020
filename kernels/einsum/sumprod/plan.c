#include "kernels/einsum/sumprod/plan.h"

#include "kernels/einsum/sumprod/sumprod_isa.h"
#include "kernels/integers.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Outputs of a unit that reduces; more where several summed loops go around them, so that a good
 * piece of memory is read before the next step of the outer one jumps ahead, and most where the
 * outputs are its inner loop: often that is all of them, and nothing is jumped over. */
#define GROUP         16
#define LARGE_GROUP   64
#define LARGEST_GROUP 512

/* With fewer units than this the summed range is cut into parts, so that there is work for many
 * threads; a part has PART_STEPS steps or more. A unit of more than UNIT_STEPS is cut in any case:
 * no range may keep a thread from looking at the deadline for long. */
#define FEW_UNITS       32
#define MANY_PARTS      64
#define PART_STEPS      (512 << 10)
#define UNIT_STEPS      (8 << 20)
#define SCATTERED_STEPS (2 << 20)

static bool is_summed(const struct td_loop *loop)
{
    return loop->stride[TD_C] == 0;
}

/* What an element of an operand costs in a run along the loop, where a load is 1. */
static double access_cost(const struct td_sumprod_side *side, int64_t stride)
{
    if (stride == 0)
        return 0;
    if (stride != side->size)
        return 6;
    return side->native ? 1 : 2;
}

/* Do the runs along a loop lie one after the other in the operand, as steps of the other loop? Or
 * is it one run for all steps? */
static bool touches(const struct td_sumprod_plan *plan, int operand, const struct td_loop *run,
                    const struct td_loop *rows)
{
    const int64_t size = plan->side[operand].size;
    return run->stride[operand] == size && rows->stride[operand] == run->extent * size;
}

/* Steps of the loop that the kernels put together with those of the run, so short that beginning it
 * would take the time. */
static int64_t rows_at_once(const struct td_sumprod_plan *plan, const struct td_loop *run,
                            const struct td_loop *rows)
{
    if (is_summed(run) == is_summed(rows) || !touches(plan, TD_A, run, rows))
        return 1;
    if (is_summed(run)) {
        const bool shared = run->stride[TD_B] != 0 && rows->stride[TD_B] == 0;
        if (run->extent > TD_SHORT_RUN ||
            (plan->has_b && !shared && !touches(plan, TD_B, run, rows)))
            return 1;
    } else if (run->extent > TD_FOLDED_ROW / plan->element_size ||
               (plan->has_b && !touches(plan, TD_B, run, rows))) {
        return 1;
    }
    return rows->extent;
}

/* What a step costs, likewise, with this loop as the run. `rows` is the number of steps that share
 * a C. */
static double run_cost(const struct td_sumprod_plan *plan, const struct td_loop *loops, int n_loops,
                       const struct td_loop *loop, double rows)
{
    int64_t at_once = 1;
    for (int i = 0; i < n_loops; i++)
        at_once = td_larger(at_once, rows_at_once(plan, loop, &loops[i]));
    double cost = 40 / (double)loop->extent / (double)at_once; /* to begin a run */
    cost += access_cost(&plan->side[TD_A], loop->stride[TD_A]);
    if (plan->has_b)
        cost += access_cost(&plan->side[TD_B], loop->stride[TD_B]);
    if (!is_summed(loop))
        cost += access_cost(&plan->side[TD_C], loop->stride[TD_C]) / rows;
    return cost;
}

static struct td_loop take_loop(struct td_loop *loops, int *n_loops, int which)
{
    const struct td_loop taken = loops[which];
    --*n_loops;
    memmove(loops + which, loops + which + 1, (size_t)(*n_loops - which) * sizeof(loops[0]));
    return taken;
}

static int cheapest_run(const struct td_sumprod_plan *plan, const struct td_loop *loops,
                        int n_loops)
{
    double rows = 1, least = 0;
    int best = 0;
    for (int i = 0; i < n_loops; i++)
        if (is_summed(&loops[i]))
            rows *= (double)loops[i].extent;
    for (int i = 0; i < n_loops; i++) {
        const double cost = run_cost(plan, loops, n_loops, &loops[i], rows);
        if (i == 0 || cost <= least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/* Do the elements of a run lie in lines of their own, with those of the next run beside them? */
static bool is_scattered(const struct td_sumprod_plan *plan, int operand,
                         const struct td_loop *around)
{
    const int64_t size = plan->side[operand].size;
    return td_magnitude(plan->run.stride[operand]) > size &&
           td_magnitude(around->stride[operand]) == size;
}

#define REUSES_LINES 4

/* How well a loop goes around the run: the cache lines that a scattered operand has brought are
 * used again where this loop moves it by one element, a shared operand is used again as it is. */
static int reuse(const struct td_sumprod_plan *plan, const struct td_loop *loop)
{
    int score = 0;
    for (int operand = TD_A; operand <= (plan->has_b ? TD_B : TD_A); operand++) {
        if (is_scattered(plan, operand, loop))
            score += REUSES_LINES;
        if (plan->has_b && loop->stride[operand] == 0)
            score += 2;
    }
    return score;
}

/* The loop, summed or not as asked, that goes best around the run; the innermost of equals. -1 when
 * there is none. */
static int best_around(const struct td_sumprod_plan *plan, const struct td_loop *loops, int n_loops,
                       bool summed)
{
    int best = -1;
    for (int i = 0; i < n_loops; i++)
        if (is_summed(&loops[i]) == summed &&
            (best < 0 || reuse(plan, &loops[i]) >= reuse(plan, &loops[best])))
            best = i;
    return best;
}

static void swap_strides(struct td_loop *loops, int n_loops)
{
    for (int i = 0; i < n_loops; i++) {
        const int64_t stride = loops[i].stride[TD_A];
        loops[i].stride[TD_A] = loops[i].stride[TD_B];
        loops[i].stride[TD_B] = stride;
    }
}

static void swap_operands(struct td_sumprod_plan *plan, struct td_loop *loops, int n_loops)
{
    const struct td_sumprod_side side = plan->side[TD_A];
    plan->side[TD_A] = plan->side[TD_B];
    plan->side[TD_B] = side;
    swap_strides(loops, n_loops);
    swap_strides(&plan->run, 1);
    swap_strides(&plan->along, 1);
    plan->swapped = true;
}

/* How the operands reach the kernels, once the run is known. */
static void choose_access(struct td_sumprod_plan *plan)
{
    for (int operand = TD_A; operand <= TD_B; operand++) {
        const struct td_sumprod_side *side = &plan->side[operand];
        plan->direct[operand] = side->native && plan->run.stride[operand] == side->size;
    }
    plan->scalar = plan->has_b && !plan->reduces && plan->run.stride[TD_B] == 0;
    plan->buffered = !plan->direct[TD_A] || (plan->has_b && !plan->scalar && !plan->direct[TD_B]);
    plan->side_by_side = !plan->reduces && plan->n_sums > 0 &&
                         rows_at_once(plan, &plan->run, &plan->sums[plan->n_sums - 1]) > 1;
}

static int64_t blocks_of(const struct td_sumprod_plan *plan)
{
    return (plan->along.extent - 1) / plan->block + 1;
}

/* Units in the order of C, but for a loop that should go around the run at once. */
static void lay_out_units(struct td_sumprod_plan *plan, struct td_loop *loops, int n_loops)
{
    struct td_loop around;
    bool has_around = false;
    if (!plan->reduces) {
        const int best = best_around(plan, loops, n_loops, false);
        if (best >= 0 && reuse(plan, &loops[best]) >= REUSES_LINES) {
            around = take_loop(loops, &n_loops, best);
            has_around = true;
        }
    }
    for (int i = 0; i < n_loops; i++)
        plan->unit_loops[plan->n_unit_loops++] = loops[i];
    plan->along_at = plan->n_unit_loops;
    struct td_loop *blocks = &plan->unit_loops[plan->n_unit_loops++];
    blocks->extent = blocks_of(plan);
    for (int operand = TD_A; operand <= TD_C; operand++)
        blocks->stride[operand] =
            blocks->extent > 1 ? plan->along.stride[operand] * plan->block : 0;
    if (has_around)
        plan->unit_loops[plan->n_unit_loops++] = around;
    plan->units = 1;
    for (int i = 0; i < plan->n_unit_loops; i++)
        plan->units *= plan->unit_loops[i].extent;
}

static int64_t extent_of_sum(const struct td_sumprod_plan *plan, int which)
{
    return which == plan->n_sums ? plan->run.extent : plan->sums[which].extent;
}

/* Outputs of a unit that reduces, with at most so many elements of a run at a time. */
static int64_t reducing_block(const struct td_sumprod_plan *plan, int64_t run_block)
{
    int64_t block = GROUP;
    if (plan->n_sums > 0) {
        const int64_t around = td_magnitude(plan->sums[plan->n_sums - 1].stride[TD_A]);
        block = plan->scattered || td_magnitude(plan->along.stride[TD_A]) > around ? LARGE_GROUP
                                                                                   : LARGEST_GROUP;
    } else if (!plan->scattered && plan->buffered && plan->run.extent > run_block) {
        /* A piece of each output after the other would jump from row to row. 4000 x 4000 of
         * float16: 7.3 GB/s so, 9.5 one by one, although what the outputs share is widened
         * again. */
        block = 1;
    }
    if (plan->scattered)
        return block;
    /* Short runs: as much memory as a long one has. */
    return td_larger(block, TD_SUMPROD_UNIT_BYTES / plan->element_size / plan->run.extent);
}

/* n_loops loops are left for the units. */
static void choose_blocks(struct td_sumprod_plan *plan, const struct td_loop *loops, int n_loops)
{
    bool scattered = false;
    for (int operand = TD_A; operand <= TD_B; operand++) {
        for (int i = 0; i < n_loops; i++)
            scattered = scattered || is_scattered(plan, operand, &loops[i]);
        for (int i = 0; i < plan->n_sums; i++)
            scattered = scattered || is_scattered(plan, operand, &plan->sums[i]);
        scattered = scattered || is_scattered(plan, operand, &plan->along);
    }
    plan->scattered = scattered;
    const int64_t most = scattered        ? TD_SUMPROD_SCATTERED_BLOCK
                         : plan->buffered ? TD_SUMPROD_BUFFER_BYTES / plan->element_size
                         : plan->reduces  ? TD_SUMPROD_REDUCE_BLOCK
                                          : TD_SUMPROD_UNIT_BYTES / plan->element_size;
    if (plan->reduces) {
        plan->run_block = most;
        plan->block = reducing_block(plan, most);
    } else {
        plan->block = most;
    }
    plan->unit_outputs = td_smaller(plan->along.extent, plan->block);
}

/* The outermost summed loop that has as many steps as there are to be parts, so that a part reads
 * long stretches; where none has, the longest. */
static int loop_to_split(const struct td_sumprod_plan *plan)
{
    int longest = plan->reduces ? plan->n_sums : 0;
    for (int i = 0; i < plan->n_sums; i++) {
        if (plan->sums[i].extent >= plan->parts)
            return i;
        if (plan->sums[i].extent > extent_of_sum(plan, longest))
            longest = i;
    }
    return longest;
}

static void cut_parts(struct td_sumprod_plan *plan)
{
    plan->parts = 1;
    if (plan->n_sums == 0 && !plan->reduces)
        return;
    int64_t steps = plan->reduces ? plan->run.extent : 1;
    for (int i = 0; i < plan->n_sums; i++)
        steps *= plan->sums[i].extent;
    /* Saturates where it matters not: a unit of 2^63 steps is never done. */
    const int64_t outputs = plan->unit_outputs;
    const int64_t unit_steps = steps > INT64_MAX / outputs ? INT64_MAX : steps * outputs;
    if (plan->units < FEW_UNITS)
        plan->parts = td_smaller(unit_steps / PART_STEPS, MANY_PARTS / plan->units);
    const int64_t most_steps = plan->scattered ? SCATTERED_STEPS : UNIT_STEPS;
    plan->parts = td_larger(plan->parts, td_larger(1, unit_steps / most_steps));
    plan->split = loop_to_split(plan);
    plan->parts = td_smaller(plan->parts, extent_of_sum(plan, plan->split));
}

/* Only where nothing else comes between one run and the next. */
static enum td_sumprod_around around_of(const struct td_sumprod_plan *plan, int operand)
{
    const bool sums_around =
        plan->n_sums > 0 && is_scattered(plan, operand, &plan->sums[plan->n_sums - 1]);
    if (plan->reduces) {
        if (is_scattered(plan, operand, &plan->along))
            return TD_AROUND_ALONG;
        return sums_around && plan->along.extent == 1 ? TD_AROUND_SUMS : TD_AROUND_NOTHING;
    }
    if (plan->n_sums > 0)
        return sums_around ? TD_AROUND_SUMS : TD_AROUND_NOTHING;
    return is_scattered(plan, operand, &plan->unit_loops[plan->n_unit_loops - 1])
               ? TD_AROUND_UNITS
               : TD_AROUND_NOTHING;
}

static struct td_sumprod_side side_of(td_dtype dtype)
{
    return (struct td_sumprod_side){ .size = (int64_t)td_dtype_info(dtype)->size,
                                     .native = td_compute_is_native(dtype),
                                     .dtype = dtype };
}

static int64_t total_size_of(td_compute compute)
{
    return (int64_t)td_compute_size(compute == TD_COMPUTE_F32   ? TD_COMPUTE_F64
                                    : compute == TD_COMPUTE_C64 ? TD_COMPUTE_C128
                                                                : compute);
}

/* Loops of 2 steps or more, with strides in bytes; one of 1 step where there are none. */
static int read_loops(struct td_sumprod_plan *plan, const struct td_contraction *contraction,
                      struct td_loop *loops)
{
    int n_loops = 0;
    for (int i = 0; i < contraction->rank; i++) {
        if (contraction->loops[i].extent == 1)
            continue;
        assert(n_loops < TD_MAX_LOOPS);
        struct td_loop *loop = &loops[n_loops++];
        *loop = contraction->loops[i];
        for (int operand = TD_A; operand <= TD_C; operand++)
            loop->stride[operand] *= plan->side[operand].size;
        if (!plan->has_b)
            loop->stride[TD_B] = 0;
    }
    if (n_loops == 0)
        loops[n_loops++] = (struct td_loop){ .extent = 1 };
    return n_loops;
}

/* Takes the run, and the outputs of a unit, out of the loops; the second operand becomes the one
 * that is a number for the run, or that all outputs of a unit share. */
static void take_run(struct td_sumprod_plan *plan, struct td_loop *loops, int *n_loops)
{
    const int run = cheapest_run(plan, loops, *n_loops);
    plan->reduces = is_summed(&loops[run]) && loops[run].extent > 1;
    plan->run = take_loop(loops, n_loops, run);
    plan->along = plan->run;
    if (!plan->reduces) {
        if (plan->has_b && plan->run.stride[TD_A] == 0)
            swap_operands(plan, loops, *n_loops);
        return;
    }
    const int along = best_around(plan, loops, *n_loops, false);
    plan->along = along < 0 ? (struct td_loop){ .extent = 1 } : take_loop(loops, n_loops, along);
    if (plan->has_b && along >= 0 && plan->along.stride[TD_A] == 0)
        swap_operands(plan, loops, *n_loops);
}

static void take_sums(struct td_sumprod_plan *plan, struct td_loop *loops, int *n_loops)
{
    const int last = best_around(plan, loops, *n_loops, true);
    if (last < 0)
        return;
    const struct td_loop rows = take_loop(loops, n_loops, last);
    for (int i = 0; i < *n_loops;) {
        if (is_summed(&loops[i]))
            plan->sums[plan->n_sums++] = take_loop(loops, n_loops, i);
        else
            i++;
    }
    plan->sums[plan->n_sums++] = rows;
}

/* By all steps together, about. */
static double bytes_moved(const struct td_sumprod_plan *plan,
                          const struct td_contraction *contraction)
{
    double bytes = 0;
    for (int operand = TD_A; operand <= TD_C; operand++)
        if (plan->run.stride[operand] != 0)
            bytes += (double)plan->side[operand].size;
    for (int i = 0; i < contraction->rank; i++)
        bytes *= (double)contraction->loops[i].extent;
    return bytes;
}

void td_sumprod_plan_make(struct td_sumprod_plan *plan, const struct td_contraction *contraction)
{
    /* Of the loops, 4 KB, only as many are set as there are. */
    memset(plan, 0, offsetof(struct td_sumprod_plan, unit_loops));
    plan->compute = td_compute_of(contraction->dtype[TD_A]);
    plan->has_b = contraction->has_b;
    assert(td_compute_of(contraction->dtype[TD_C]) == plan->compute);
    plan->element_size = (int64_t)td_compute_size(plan->compute);
    plan->total_size = total_size_of(plan->compute);
    for (int operand = TD_A; operand <= TD_C; operand++)
        plan->side[operand] = side_of(contraction->dtype[operand]);
    struct td_loop loops[TD_MAX_LOOPS + 1];
    int n_loops = read_loops(plan, contraction, loops);
    take_run(plan, loops, &n_loops);
    take_sums(plan, loops, &n_loops);
    choose_access(plan);
    choose_blocks(plan, loops, n_loops);
    lay_out_units(plan, loops, n_loops);
    cut_parts(plan);
    for (int operand = TD_A; operand <= TD_B; operand++)
        plan->around[operand] = around_of(plan, operand);
    plan->bytes = bytes_moved(plan, contraction);
}
