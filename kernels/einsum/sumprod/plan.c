#include "kernels/einsum/sumprod/plan.h"

#include "kernels/einsum/sumprod/kernels.h"
#include "kernels/integers.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Number of outputs of a block if the run is summed. Larger if other summed loops surround the loop
 * over the outputs, because a block then reads a long stretch of memory before the next iteration
 * of the outer loop. Largest if the loop over the outputs is the inner loop, because the block then
 * often has all outputs and skips no memory. */
#define BLOCK_OUTPUTS         16
#define LARGE_BLOCK_OUTPUTS   64
#define LARGEST_BLOCK_OUTPUTS 512

/* With fewer than FEW_BLOCKS blocks, a summed loop is split into ranges to provide work for many
 * threads: at most MAX_SPLITS in total, of at least MIN_SPLIT_TERMS each. A block of more than
 * MAX_BLOCK_TERMS terms (MAX_SCATTERED_TERMS for a scattered operand) is always split, because the
 * deadline is checked only between ranges. A term is an iteration of all loops of the block. */
#define FEW_BLOCKS          32
#define MAX_SPLITS          64
#define MIN_SPLIT_TERMS     (512 << 10)
#define MAX_BLOCK_TERMS     (8 << 20)
#define MAX_SCATTERED_TERMS (2 << 20)

static bool is_summed(const struct td_loop *loop)
{
    return loop->stride[TD_C] == 0;
}

/* Returns the cost of accessing an element of an operand with this stride along the run. A load
 * costs 1. */
static double access_cost(const struct td_sumprod_format *format, int64_t stride)
{
    if (stride == 0)
        return 0;
    if (stride != format->size)
        return 6;
    return format->native ? 1 : 2;
}

/* True if the runs of consecutive iterations of `rows` are contiguous in the operand. */
static bool rows_are_contiguous(const struct td_sumprod_plan *plan, int operand,
                                const struct td_loop *run, const struct td_loop *rows)
{
    const int64_t size = plan->format[operand].size;
    return run->stride[operand] == size && rows->stride[operand] == run->extent * size;
}

/* Returns the number of iterations of `rows` that one kernel call processes as fast as one long
 * run: all of them if the runs are short and contiguous, otherwise 1. */
static int64_t fused_rows(const struct td_sumprod_plan *plan, const struct td_loop *run,
                          const struct td_loop *rows)
{
    if (is_summed(run) == is_summed(rows) || !rows_are_contiguous(plan, TD_A, run, rows))
        return 1;
    if (is_summed(run)) {
        const bool shared_b = run->stride[TD_B] != 0 && rows->stride[TD_B] == 0;
        if (run->extent > TD_SUMPROD_SHORT_RUN ||
            (plan->has_b && !shared_b && !rows_are_contiguous(plan, TD_B, run, rows)))
            return 1;
    } else if (run->extent > TD_SUMPROD_FOLDED_ROW_BYTES / plan->element_size ||
               (plan->has_b && !rows_are_contiguous(plan, TD_B, run, rows))) {
        return 1;
    }
    return rows->extent;
}

/* Returns the cost of one term if this loop is the run. An output has `rows` terms. */
static double run_cost(const struct td_sumprod_plan *plan, const struct td_loop *loops, int n_loops,
                       const struct td_loop *loop, double rows)
{
    int64_t fused = 1;
    for (int i = 0; i < n_loops; i++)
        fused = td_larger(fused, fused_rows(plan, loop, &loops[i]));
    double cost = 40 / (double)loop->extent / (double)fused; /* cost of starting a run */
    cost += access_cost(&plan->format[TD_A], loop->stride[TD_A]);
    if (plan->has_b)
        cost += access_cost(&plan->format[TD_B], loop->stride[TD_B]);
    if (!is_summed(loop))
        cost += access_cost(&plan->format[TD_C], loop->stride[TD_C]) / rows;
    return cost;
}

static struct td_loop remove_loop(struct td_loop *loops, int *n_loops, int which)
{
    const struct td_loop removed = loops[which];
    --*n_loops;
    memmove(loops + which, loops + which + 1, (size_t)(*n_loops - which) * sizeof(loops[0]));
    return removed;
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

/* True if the elements of a run are on different cache lines, next to the elements of the next
 * iteration of `around`. */
static bool is_scattered(const struct td_sumprod_plan *plan, int operand,
                         const struct td_loop *around)
{
    const int64_t size = plan->format[operand].size;
    return td_magnitude(plan->run.stride[operand]) > size &&
           td_magnitude(around->stride[operand]) == size;
}

/* Returns a score for the loop directly outside the run. The score is higher if the loop reuses the
 * run's cache lines, by moving a scattered operand by one element, or does not move an operand. */
#define REUSES_LINES 4
static int reuse_score(const struct td_sumprod_plan *plan, const struct td_loop *loop)
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

/* Returns the loop with the best reuse_score: a summed loop if `summed` is true, otherwise one of
 * the other loops. Among equal scores, returns the innermost loop. Returns -1 if no such loop
 * exists. */
static int best_outer_loop(const struct td_sumprod_plan *plan, const struct td_loop *loops,
                           int n_loops, bool summed)
{
    int best = -1;
    for (int i = 0; i < n_loops; i++)
        if (is_summed(&loops[i]) == summed &&
            (best < 0 || reuse_score(plan, &loops[i]) >= reuse_score(plan, &loops[best])))
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
    const struct td_sumprod_format format = plan->format[TD_A];
    plan->format[TD_A] = plan->format[TD_B];
    plan->format[TD_B] = format;
    swap_strides(loops, n_loops);
    swap_strides(&plan->run, 1);
    swap_strides(&plan->outputs, 1);
    plan->swapped = true;
}

/* Decides how to read the operands after the run is known. */
static void choose_access(struct td_sumprod_plan *plan)
{
    for (int operand = TD_A; operand <= TD_B; operand++) {
        const struct td_sumprod_format *format = &plan->format[operand];
        plan->direct[operand] = format->native && plan->run.stride[operand] == format->size;
    }
    plan->scalar = plan->has_b && !plan->reduces && plan->run.stride[TD_B] == 0;
    plan->buffered = !plan->direct[TD_A] || (plan->has_b && !plan->scalar && !plan->direct[TD_B]);
    plan->folds_rows = !plan->reduces && plan->n_summed > 0 &&
                       fused_rows(plan, &plan->run, &plan->summed[plan->n_summed - 1]) > 1;
}

static int64_t blocks_of_outputs(const struct td_sumprod_plan *plan)
{
    return (plan->outputs.extent - 1) / plan->block_length + 1;
}

/* Orders the loops over blocks as in C, except that a loop that reuses cache lines becomes the
 * innermost. */
static void order_blocks(struct td_sumprod_plan *plan, struct td_loop *loops, int n_loops)
{
    struct td_loop inner;
    bool has_inner = false;
    if (!plan->reduces) {
        const int best = best_outer_loop(plan, loops, n_loops, false);
        if (best >= 0 && reuse_score(plan, &loops[best]) >= REUSES_LINES) {
            inner = remove_loop(loops, &n_loops, best);
            has_inner = true;
        }
    }
    for (int i = 0; i < n_loops; i++)
        plan->outer[plan->n_outer++] = loops[i];
    plan->outputs_loop = plan->n_outer;
    struct td_loop *blocks = &plan->outer[plan->n_outer++];
    blocks->extent = blocks_of_outputs(plan);
    for (int operand = TD_A; operand <= TD_C; operand++)
        blocks->stride[operand] =
            blocks->extent > 1 ? plan->outputs.stride[operand] * plan->block_length : 0;
    if (has_inner)
        plan->outer[plan->n_outer++] = inner;
    plan->n_blocks = 1;
    for (int i = 0; i < plan->n_outer; i++)
        plan->n_blocks *= plan->outer[i].extent;
}

static int64_t summed_extent(const struct td_sumprod_plan *plan, int which)
{
    return which == plan->n_summed ? plan->run.extent : plan->summed[which].extent;
}

/* Returns the number of outputs of a block if the run is summed. At most run_length elements of the
 * run are processed at a time. */
static int64_t reduce_block_length(const struct td_sumprod_plan *plan, int64_t run_length)
{
    int64_t block = BLOCK_OUTPUTS;
    if (plan->n_summed > 0) {
        const int64_t summed_stride = td_magnitude(plan->summed[plan->n_summed - 1].stride[TD_A]);
        block = plan->scattered || td_magnitude(plan->outputs.stride[TD_A]) > summed_stride
                    ? LARGE_BLOCK_OUTPUTS
                    : LARGEST_BLOCK_OUTPUTS;
    } else if (!plan->scattered && plan->buffered && plan->run.extent > run_length) {
        /* With several outputs, a block would read a part of each output's run in turn, so reads
         * would jump from row to row. A 4000 x 4000 float16 operand reaches 7.3 GB/s with
         * BLOCK_OUTPUTS and 9.5 GB/s with one output at a time, although an operand shared by
         * several outputs is then widened once for each output. */
        block = 1;
    }
    if (plan->scattered)
        return block;
    /* If runs are short, a block reads as many bytes as a long run has. */
    return td_larger(block, TD_SUMPROD_BLOCK_BYTES / plan->element_size / plan->run.extent);
}

/* Chooses the size of blocks. `loops` are the n_loops loops over blocks. */
static void choose_blocks(struct td_sumprod_plan *plan, const struct td_loop *loops, int n_loops)
{
    bool scattered = false;
    for (int operand = TD_A; operand <= TD_B; operand++) {
        for (int i = 0; i < n_loops; i++)
            scattered = scattered || is_scattered(plan, operand, &loops[i]);
        for (int i = 0; i < plan->n_summed; i++)
            scattered = scattered || is_scattered(plan, operand, &plan->summed[i]);
        scattered = scattered || is_scattered(plan, operand, &plan->outputs);
    }
    plan->scattered = scattered;
    const int64_t most = scattered        ? TD_SUMPROD_SCATTERED_LENGTH
                         : plan->buffered ? TD_SUMPROD_BUFFER_BYTES / plan->element_size
                         : plan->reduces  ? TD_SUMPROD_REDUCE_LENGTH
                                          : TD_SUMPROD_BLOCK_BYTES / plan->element_size;
    if (plan->reduces) {
        plan->run_length = most;
        plan->block_length = reduce_block_length(plan, most);
    } else {
        plan->block_length = most;
    }
    plan->block_outputs = td_smaller(plan->outputs.extent, plan->block_length);
}

/* Returns the outermost summed loop with at least n_splits iterations, so each split reads
 * contiguous memory. If no loop has enough iterations, returns the longest summed loop. */
static int loop_to_split(const struct td_sumprod_plan *plan)
{
    int longest = plan->reduces ? plan->n_summed : 0;
    for (int i = 0; i < plan->n_summed; i++) {
        if (plan->summed[i].extent >= plan->n_splits)
            return i;
        if (plan->summed[i].extent > summed_extent(plan, longest))
            longest = i;
    }
    return longest;
}

static void choose_splits(struct td_sumprod_plan *plan)
{
    plan->n_splits = 1;
    if (plan->n_summed == 0 && !plan->reduces)
        return;
    int64_t terms = plan->reduces ? plan->run.extent : 1;
    for (int i = 0; i < plan->n_summed; i++)
        terms *= plan->summed[i].extent;
    /* Saturates, because a block of 2^63 terms could never be computed. */
    const int64_t outputs = plan->block_outputs;
    const int64_t block_terms = terms > INT64_MAX / outputs ? INT64_MAX : terms * outputs;
    if (plan->n_blocks < FEW_BLOCKS)
        plan->n_splits = td_smaller(block_terms / MIN_SPLIT_TERMS, MAX_SPLITS / plan->n_blocks);
    const int64_t max_terms = plan->scattered ? MAX_SCATTERED_TERMS : MAX_BLOCK_TERMS;
    plan->n_splits = td_larger(plan->n_splits, td_larger(1, block_terms / max_terms));
    plan->split_loop = loop_to_split(plan);
    plan->n_splits = td_smaller(plan->n_splits, summed_extent(plan, plan->split_loop));
}

/* Returns the loop that moves to the next run of a tile. Only the loop directly outside the run
 * qualifies. */
static enum td_sumprod_tile_loop choose_tile_loop(const struct td_sumprod_plan *plan, int operand)
{
    const bool summed_tiles =
        plan->n_summed > 0 && is_scattered(plan, operand, &plan->summed[plan->n_summed - 1]);
    if (plan->reduces) {
        if (is_scattered(plan, operand, &plan->outputs))
            return TD_TILE_LOOP_OUTPUTS;
        return summed_tiles && plan->outputs.extent == 1 ? TD_TILE_LOOP_SUMMED : TD_TILE_LOOP_NONE;
    }
    if (plan->n_summed > 0)
        return summed_tiles ? TD_TILE_LOOP_SUMMED : TD_TILE_LOOP_NONE;
    return is_scattered(plan, operand, &plan->outer[plan->n_outer - 1]) ? TD_TILE_LOOP_OUTER
                                                                        : TD_TILE_LOOP_NONE;
}

static struct td_sumprod_format format_of(td_dtype dtype)
{
    return (struct td_sumprod_format){ .size = (int64_t)td_dtype_info(dtype)->size,
                                       .native = td_compute_is_native(dtype),
                                       .dtype = dtype };
}

static int64_t total_size_of(td_compute compute)
{
    return (int64_t)td_compute_size(compute == TD_COMPUTE_F32   ? TD_COMPUTE_F64
                                    : compute == TD_COMPUTE_C64 ? TD_COMPUTE_C128
                                                                : compute);
}

/* Copies the loops of extent 2 or more, with strides in bytes. If there are none, writes one loop
 * of extent 1. Returns the number of loops. */
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
            loop->stride[operand] *= plan->format[operand].size;
        if (!plan->has_b)
            loop->stride[TD_B] = 0;
    }
    if (n_loops == 0)
        loops[n_loops++] = (struct td_loop){ .extent = 1 };
    return n_loops;
}

/* Chooses the run and the loop over the outputs of a block, and removes both from `loops`. Swaps A
 * and B if A is a scalar for the run or is shared by all outputs. */
static void choose_run(struct td_sumprod_plan *plan, struct td_loop *loops, int *n_loops)
{
    const int run = cheapest_run(plan, loops, *n_loops);
    plan->reduces = is_summed(&loops[run]) && loops[run].extent > 1;
    plan->run = remove_loop(loops, n_loops, run);
    plan->outputs = plan->run;
    if (!plan->reduces) {
        if (plan->has_b && plan->run.stride[TD_A] == 0)
            swap_operands(plan, loops, *n_loops);
        return;
    }
    const int outputs = best_outer_loop(plan, loops, *n_loops, false);
    plan->outputs =
        outputs < 0 ? (struct td_loop){ .extent = 1 } : remove_loop(loops, n_loops, outputs);
    if (plan->has_b && outputs >= 0 && plan->outputs.stride[TD_A] == 0)
        swap_operands(plan, loops, *n_loops);
}

static void choose_summed(struct td_sumprod_plan *plan, struct td_loop *loops, int *n_loops)
{
    const int last = best_outer_loop(plan, loops, *n_loops, true);
    if (last < 0)
        return;
    const struct td_loop rows = remove_loop(loops, n_loops, last);
    for (int i = 0; i < *n_loops;) {
        if (is_summed(&loops[i]))
            plan->summed[plan->n_summed++] = remove_loop(loops, n_loops, i);
        else
            i++;
    }
    plan->summed[plan->n_summed++] = rows;
}

/* Returns the estimated number of bytes that all iterations together read and write. */
static double bytes_moved(const struct td_sumprod_plan *plan,
                          const struct td_contraction *contraction)
{
    double bytes = 0;
    for (int operand = TD_A; operand <= TD_C; operand++)
        if (plan->run.stride[operand] != 0)
            bytes += (double)plan->format[operand].size;
    for (int i = 0; i < contraction->rank; i++)
        bytes *= (double)contraction->loops[i].extent;
    return bytes;
}

void td_sumprod_plan_make(struct td_sumprod_plan *plan, const struct td_contraction *contraction)
{
    /* Does not clear the loop arrays, which take 4 KB. Only the elements in use are set. */
    memset(plan, 0, offsetof(struct td_sumprod_plan, outer));
    plan->compute = td_compute_of(contraction->dtype[TD_A]);
    plan->has_b = contraction->has_b;
    assert(td_compute_of(contraction->dtype[TD_C]) == plan->compute);
    plan->element_size = (int64_t)td_compute_size(plan->compute);
    plan->total_size = total_size_of(plan->compute);
    for (int operand = TD_A; operand <= TD_C; operand++)
        plan->format[operand] = format_of(contraction->dtype[operand]);
    struct td_loop loops[TD_MAX_LOOPS + 1];
    int n_loops = read_loops(plan, contraction, loops);
    choose_run(plan, loops, &n_loops);
    choose_summed(plan, loops, &n_loops);
    choose_access(plan);
    choose_blocks(plan, loops, n_loops);
    order_blocks(plan, loops, n_loops);
    choose_splits(plan);
    for (int operand = TD_A; operand <= TD_B; operand++)
        plan->tile_loop[operand] = choose_tile_loop(plan, operand);
    plan->bytes = bytes_moved(plan, contraction);
}
