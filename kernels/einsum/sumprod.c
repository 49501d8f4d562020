#include "kernels/einsum/sumprod.h"

#include "kernels/einsum/convert.h"
#include "kernels/einsum/permute_isa.h"
#include "kernels/einsum/sumprod_isa.h"
#include "kernels/einsum/workspace.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

/* Every nest is done in one of two ways, after which loop is innermost, the run:
 *
 *     reduce      The run is summed. A unit is up to GROUP outputs along one loop, kept as totals
 *                 while everything that is summed passes by: dot products, sums of rows, matrix
 *                 times vector.
 *     accumulate  The run is one of C's. A unit is a block of outputs along it, kept as sums in the
 *                 first cache while rows of A (times numbers, times rows of B) are added to it:
 *                 sums over rows, vector times matrix; and, with nothing summed, elementwise and
 *                 outer products and conversions.
 *
 * Kernels read dense runs of the compute type. What is stored otherwise, or lies scattered, is
 * widened into a buffer first, run by run. */

/* Bytes of sums in the compute type that a unit keeps: half a first cache. */
#define UNIT_BYTES (16 << 10)

/* Bytes of a run that goes through a buffer at once. */
#define BUFFER_BYTES (8 << 10)

/* Elements of a run that is scattered, where the next run finds its elements beside those of this
 * one: so few that the first cache and its page table hold their lines. As many runs as fill the
 * lines are transposed into a tile at once. */
#define SCATTERED_BLOCK 128
#define LINE            64
#define TILE_BYTES      (LINE * SCATTERED_BLOCK)

/* Elements that are summed in the compute type before their sum is added in double. */
#define REDUCE_BLOCK 4096
/* Rows that are added in the compute type, likewise. */
#define FLUSH_ROWS   64

/* Outputs of a unit that reduces; more where several summed loops go around them, so that a good
 * piece of memory is read before the next step of the outer one jumps ahead, and most where the
 * outputs are its inner loop: often that is all of them, and nothing is jumped over. */
#define GROUP         16
#define LARGE_GROUP   64
#define LARGEST_GROUP 512

/* Bytes read or written by a range: 50 to 100 us of memory's time. Less than ALONE_BYTES in all is
 * not worth waking a thread, which takes 30. */
#define RANGE_BYTES (1 << 20)
#define ALONE_BYTES (2 * RANGE_BYTES)

/* With fewer units than this the summed range is cut into parts, so that there is work for many
 * threads; a part has PART_STEPS steps or more. A unit of more than UNIT_STEPS is cut in any case:
 * no range may keep a thread from looking at the deadline for long. */
#define FEW_UNITS       32
#define MANY_PARTS      64
#define PART_STEPS      (512 << 10)
#define UNIT_STEPS      (8 << 20)
#define SCATTERED_STEPS (2 << 20)

/* An operand, and how it becomes runs of the compute type. */
struct side {
    int64_t size; /* bytes per element */
    bool native;  /* stored as it is computed in */
    td_dtype dtype;
};

/* The loop around the run that goes through the lines of a scattered operand. */
enum around {
    NOTHING_AROUND,
    ALONG_AROUND, /* reducing: the outputs of a unit */
    SUMS_AROUND,  /* the last of the summed loops */
    UNITS_AROUND  /* the last of the loops over units */
};

/* Strides of loops are in bytes here. */
struct plan {
    td_compute compute;
    int64_t element_size, total_size; /* of T and W */
    struct side side[3];
    bool has_b, swapped; /* swapped: A of the plan is the contraction's B */
    bool reduces;
    struct td_loop run;   /* the innermost loop */
    struct td_loop along; /* the outputs of a unit; the run itself where it accumulates */
    int64_t block;        /* of them in a unit */
    bool scattered;       /* an operand is, and lies in lines that other runs share */
    int64_t run_block;    /* elements of the run at a time, where it reduces */
    struct td_loop unit_loops[TD_MAX_LOOPS + 1]; /* over units, blocks of `along` being one loop */
    int n_unit_loops, along_at;
    struct td_loop
        sums[TD_MAX_LOOPS + 1]; /* the other summed loops; the last is that of the rows */
    int n_sums;
    int64_t units, parts;
    int split; /* the summed loop that is cut into parts: in sums, or n_sums for the run */
    enum around around[2];
    int64_t step_bytes; /* moved by one step of the run, about */
};

/* ---- Planning ---------------------------------------------------------------------------- */

static bool is_summed(const struct td_loop *loop)
{
    return loop->stride[TD_C] == 0;
}

/* What an element of an operand costs in a run along the loop, where a load is 1. */
static double access_cost(const struct side *side, int64_t stride)
{
    if (stride == 0)
        return 0;
    if (stride != side->size)
        return 6;
    return side->native ? 1 : 2;
}

/* Do the runs along a loop lie one after the other in the operand, as steps of the other loop? Or
 * is it one run for all steps? */
static bool touches(const struct plan *plan, int operand, const struct td_loop *run,
                    const struct td_loop *rows)
{
    const int64_t size = plan->side[operand].size;
    return run->stride[operand] == size && rows->stride[operand] == run->extent * size;
}

/* Steps of the loop that the kernels put together with those of the run, so short that beginning it
 * would take the time. */
static int64_t rows_at_once(const struct plan *plan, const struct td_loop *run,
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
static double run_cost(const struct plan *plan, const struct td_loop *loops, int n_loops,
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

static int cheapest_run(const struct plan *plan, const struct td_loop *loops, int n_loops)
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
static bool is_scattered(const struct plan *plan, int operand, const struct td_loop *around)
{
    const int64_t size = plan->side[operand].size;
    return td_magnitude(plan->run.stride[operand]) > size &&
           td_magnitude(around->stride[operand]) == size;
}

#define REUSES_LINES 4

/* How well a loop goes around the run: the cache lines that a scattered operand has brought are
 * used again where this loop moves it by one element, a shared operand is used again as it is. */
static int reuse(const struct plan *plan, const struct td_loop *loop)
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
static int best_around(const struct plan *plan, const struct td_loop *loops, int n_loops,
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

static void swap_operands(struct plan *plan, struct td_loop *loops, int n_loops)
{
    const struct side side = plan->side[TD_A];
    plan->side[TD_A] = plan->side[TD_B];
    plan->side[TD_B] = side;
    swap_strides(loops, n_loops);
    swap_strides(&plan->run, 1);
    swap_strides(&plan->along, 1);
    plan->swapped = true;
}

/* Does the plan read the operand where it is, or through a buffer? */
static bool is_direct(const struct plan *plan, int operand)
{
    return plan->side[operand].native && plan->run.stride[operand] == plan->side[operand].size;
}

/* Is it a number for the whole run? Only the second operand is: the first is made a run of it. */
static bool is_scalar(const struct plan *plan)
{
    return plan->has_b && !plan->reduces && plan->run.stride[TD_B] == 0;
}

static bool has_buffers(const struct plan *plan)
{
    return !is_direct(plan, TD_A) || (plan->has_b && !is_scalar(plan) && !is_direct(plan, TD_B));
}

/* Outputs of a unit that is not the last. */
static int64_t capacity(const struct plan *plan)
{
    return td_smaller(plan->along.extent, plan->block);
}

static int64_t blocks_of(const struct plan *plan)
{
    return (plan->along.extent - 1) / plan->block + 1;
}

/* Units in the order of C, but for a loop that should go around the run at once. */
static void lay_out_units(struct plan *plan, struct td_loop *loops, int n_loops)
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

static int64_t extent_of_sum(const struct plan *plan, int which)
{
    return which == plan->n_sums ? plan->run.extent : plan->sums[which].extent;
}

/* Outputs of a unit that reduces, with at most so many elements of a run at a time. */
static int64_t reducing_block(const struct plan *plan, int64_t run_block)
{
    int64_t block = GROUP;
    if (plan->n_sums > 0) {
        const int64_t around = td_magnitude(plan->sums[plan->n_sums - 1].stride[TD_A]);
        block = plan->scattered || td_magnitude(plan->along.stride[TD_A]) > around ? LARGE_GROUP
                                                                                   : LARGEST_GROUP;
    } else if (!plan->scattered && has_buffers(plan) && plan->run.extent > run_block) {
        /* A piece of each output after the other would jump from row to row. 4000 x 4000 of
         * float16: 7.3 GB/s so, 9.5 one by one, although what the outputs share is widened
         * again. */
        block = 1;
    }
    if (plan->scattered)
        return block;
    /* Short runs: as much memory as a long one has. */
    return td_larger(block, UNIT_BYTES / plan->element_size / plan->run.extent);
}

/* n_loops loops are left for the units. */
static void choose_blocks(struct plan *plan, const struct td_loop *loops, int n_loops)
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
    const int64_t most = scattered           ? SCATTERED_BLOCK
                         : has_buffers(plan) ? BUFFER_BYTES / plan->element_size
                         : plan->reduces     ? REDUCE_BLOCK
                                             : UNIT_BYTES / plan->element_size;
    if (plan->reduces) {
        plan->run_block = most;
        plan->block = reducing_block(plan, most);
    } else {
        plan->block = most;
    }
}

/* The outermost summed loop that has as many steps as there are to be parts, so that a part reads
 * long stretches; where none has, the longest. */
static int loop_to_split(const struct plan *plan)
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

static void cut_parts(struct plan *plan)
{
    plan->parts = 1;
    if (plan->n_sums == 0 && !plan->reduces)
        return;
    int64_t steps = plan->reduces ? plan->run.extent : 1;
    for (int i = 0; i < plan->n_sums; i++)
        steps *= plan->sums[i].extent;
    /* Saturates where it matters not: a unit of 2^63 steps is never done. */
    const int64_t outputs = capacity(plan);
    const int64_t unit_steps = steps > INT64_MAX / outputs ? INT64_MAX : steps * outputs;
    if (plan->units < FEW_UNITS)
        plan->parts = td_smaller(unit_steps / PART_STEPS, MANY_PARTS / plan->units);
    const int64_t most_steps = plan->scattered ? SCATTERED_STEPS : UNIT_STEPS;
    plan->parts = td_larger(plan->parts, td_larger(1, unit_steps / most_steps));
    plan->split = loop_to_split(plan);
    plan->parts = td_smaller(plan->parts, extent_of_sum(plan, plan->split));
}

/* Only where nothing else comes between one run and the next. */
static enum around around_of(const struct plan *plan, int operand)
{
    const bool sums_around =
        plan->n_sums > 0 && is_scattered(plan, operand, &plan->sums[plan->n_sums - 1]);
    if (plan->reduces) {
        if (is_scattered(plan, operand, &plan->along))
            return ALONG_AROUND;
        return sums_around && plan->along.extent == 1 ? SUMS_AROUND : NOTHING_AROUND;
    }
    if (plan->n_sums > 0)
        return sums_around ? SUMS_AROUND : NOTHING_AROUND;
    return is_scattered(plan, operand, &plan->unit_loops[plan->n_unit_loops - 1]) ? UNITS_AROUND
                                                                                  : NOTHING_AROUND;
}

static struct side side_of(td_dtype dtype)
{
    return (struct side){ .size = (int64_t)td_dtype_info(dtype)->size,
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
static int read_loops(struct plan *plan, const struct td_contraction *contraction,
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
static void take_run(struct plan *plan, struct td_loop *loops, int *n_loops)
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

static void take_sums(struct plan *plan, struct td_loop *loops, int *n_loops)
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

/* From the contraction alone: the workspace and the bits of the result follow from it. */
static void make_plan(struct plan *plan, const struct td_contraction *contraction)
{
    *plan = (struct plan){ .compute = td_compute_of(contraction->dtype[TD_A]),
                           .has_b = contraction->has_b };
    assert(td_compute_of(contraction->dtype[TD_C]) == plan->compute);
    plan->element_size = (int64_t)td_compute_size(plan->compute);
    plan->total_size = total_size_of(plan->compute);
    for (int operand = TD_A; operand <= TD_C; operand++)
        plan->side[operand] = side_of(contraction->dtype[operand]);
    struct td_loop loops[TD_MAX_LOOPS + 1];
    int n_loops = read_loops(plan, contraction, loops);
    take_run(plan, loops, &n_loops);
    take_sums(plan, loops, &n_loops);
    choose_blocks(plan, loops, n_loops);
    lay_out_units(plan, loops, n_loops);
    cut_parts(plan);
    for (int operand = TD_A; operand <= TD_B; operand++)
        plan->around[operand] = around_of(plan, operand);
    for (int operand = TD_A; operand <= TD_C; operand++)
        if (plan->run.stride[operand] != 0)
            plan->step_bytes += plan->side[operand].size;
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Runs of a scattered operand, each dense, as they are stored. */
struct tile {
    char *data;       /* [columns][n], TILE_BYTES */
    const char *from; /* the first run's first element; NULL: nothing yet */
    int64_t columns, n;
};

/* A thread's slot, cut up. */
struct scratch {
    struct tile tile[2]; /* of A and of B */
    char *run[2];        /* of A and of B: BUFFER_BYTES */
    char *scalars;       /* FLUSH_ROWS */
    char *sums;          /* UNIT_BYTES */
    char *totals;        /* as many */
};

static int64_t totals_bytes(const struct plan *plan)
{
    return UNIT_BYTES / plan->element_size * plan->total_size;
}

static struct scratch cut_slot(const struct plan *plan, char *slot)
{
    struct scratch scratch;
    scratch.run[TD_A] = slot;
    scratch.run[TD_B] = scratch.run[TD_A] + BUFFER_BYTES;
    scratch.scalars = scratch.run[TD_B] + BUFFER_BYTES;
    scratch.sums = scratch.scalars + FLUSH_ROWS * plan->element_size;
    scratch.totals = scratch.sums + UNIT_BYTES;
    char *tiles = scratch.totals + totals_bytes(plan);
    scratch.tile[TD_A] = (struct tile){ .data = tiles };
    scratch.tile[TD_B] = (struct tile){ .data = tiles + (ptrdiff_t)TILE_BYTES };
    return scratch;
}

/* By all steps together, about. */
static double bytes_moved(const struct plan *plan, const struct td_contraction *contraction)
{
    double steps = 1;
    for (int i = 0; i < contraction->rank; i++)
        steps *= (double)contraction->loops[i].extent;
    return steps * (double)plan->step_bytes;
}

struct td_workspace_need td_sumprod_workspace(const struct td_contraction *contraction)
{
    struct plan plan;
    make_plan(&plan, contraction);
    struct td_workspace_need need = {
        .per_thread = (uint64_t)(2 * TILE_BYTES + 2 * BUFFER_BYTES +
                                 FLUSH_ROWS * plan.element_size + UNIT_BYTES + totals_bytes(&plan)),
        .alone = plan.parts == 1 && bytes_moved(&plan, contraction) < ALONE_BYTES,
    };
    if (plan.parts > 1)
        need.shared = (uint64_t)plan.parts * (uint64_t)plan.units *
                      (uint64_t)(capacity(&plan) * plan.total_size);
    return need;
}

/* ---- Walking ----------------------------------------------------------------------------- */

/* A place in a nest of loops, the last moving fastest. */
struct walk {
    const struct td_loop *loops;
    int n_loops;
    int64_t position[TD_MAX_LOOPS + 1];
    int64_t offset[3];
};

static void walk_to(struct walk *walk, const struct td_loop *loops, int n_loops, int64_t index)
{
    walk->loops = loops;
    walk->n_loops = n_loops;
    memset(walk->offset, 0, sizeof(walk->offset));
    for (int i = n_loops - 1; i >= 0; i--) {
        walk->position[i] = index == 0 ? 0 : index % loops[i].extent;
        index = index == 0 ? 0 : index / loops[i].extent;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += walk->position[i] * loops[i].stride[operand];
    }
}

/* False when that was the last place; then it is at the first again. */
static bool walk_on(struct walk *walk)
{
    for (int i = walk->n_loops - 1; i >= 0; i--) {
        const struct td_loop *loop = &walk->loops[i];
        const bool wraps = ++walk->position[i] == loop->extent;
        const int64_t steps = wraps ? 1 - loop->extent : 1;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += steps * loop->stride[operand];
        if (!wraps)
            return true;
        walk->position[i] = 0;
    }
    return false;
}

/* ---- A unit ------------------------------------------------------------------------------ */

/* One run of td_sumprod_run. */
struct job {
    struct plan plan;
    const struct td_sumprod_kernels *kernels;
    td_widen_fn *widen[2];
    td_transpose_fn *transpose[2];
    td_narrow_fn *narrow;
    const char *data[2];
    char *c;
    char *partial; /* totals [part][unit][capacity]; NULL for one part */
    struct td_workspace *workspace;
};

/* The summed loops of a unit, or of a part of it. */
struct summed {
    const struct td_loop *loops;
    struct td_loop run;
};

/* What a kernel reads: rows of dense T, `step` elements apart. */
struct rows {
    const char *data;
    int64_t step;
};

/* The n elements of a scattered run, dense. The next `ahead` runs, this one included, begin one
 * element after the other. */
static const char *get_from_tile(const struct job *job, struct tile *tile, int operand,
                                 const char *from, int64_t n, int64_t ahead)
{
    const struct plan *plan = &job->plan;
    const int64_t size = plan->side[operand].size;
    const uintptr_t place = (uintptr_t)from - (uintptr_t)tile->from;
    if (tile->from && tile->n == n && place < (uintptr_t)(tile->columns * size))
        return tile->data + (int64_t)place * n;
    tile->from = from;
    tile->n = n;
    tile->columns = td_smaller(ahead, LINE / size);
    job->transpose[operand](tile->data, n * size, from, plan->run.stride[operand], n, tile->columns,
                            false);
    return tile->data;
}

/* Rows that a thread's buffers take at once, of n elements each. A tile gives them one by one. */
static int64_t rows_to_get(const struct plan *plan, int64_t n)
{
    if (plan->around[TD_A] != NOTHING_AROUND || plan->around[TD_B] != NOTHING_AROUND)
        return 1;
    return td_larger(1, BUFFER_BYTES / plan->element_size / n);
}

/* `count` rows row_stride bytes apart, of n elements along the run: where they are, or else dense
 * and widened, in the thread's buffers. `ahead` counts the steps left of the loop that plan->around
 * names. */
static struct rows get_rows(const struct job *job, struct scratch *scratch, int operand,
                            const char *from, int64_t row_stride, int64_t count, int64_t n,
                            int64_t ahead)
{
    const struct plan *plan = &job->plan;
    const struct side *side = &plan->side[operand];
    if (is_direct(plan, operand))
        return (struct rows){ from, row_stride / side->size };
    int64_t stride = plan->run.stride[operand] / side->size;
    if (plan->around[operand] != NOTHING_AROUND && ahead > 1) {
        from = get_from_tile(job, &scratch->tile[operand], operand, from, n, ahead);
        stride = 1;
        if (side->native)
            return (struct rows){ from, 0 };
    }
    char *to = scratch->run[operand];
    if (stride == 1 && row_stride == n * side->size)
        job->widen[operand](to, from, 1, count * n);
    else
        for (int64_t row = 0; row < count; row++)
            job->widen[operand](to + row * n * plan->element_size, from + row * row_stride, stride,
                                n);
    return (struct rows){ to, n };
}

/* Outputs [0, outputs) of the unit at a, b: adds everything that is summed to totals. */
static void reduce_unit(const struct job *job, struct scratch *scratch, const struct summed *summed,
                        const char *a, const char *b, int64_t outputs)
{
    const struct plan *plan = &job->plan;
    const struct td_loop *run = &summed->run, *along = &plan->along;
    memset(scratch->totals, 0, (size_t)(outputs * plan->total_size));
    for (int64_t first = 0; first < run->extent; first += plan->run_block) {
        const int64_t n = td_smaller(run->extent - first, plan->run_block);
        const int64_t group = has_buffers(plan) ? rows_to_get(plan, n) : outputs;
        struct walk walk;
        walk_to(&walk, summed->loops, plan->n_sums, 0);
        do {
            const char *from_a = a + walk.offset[TD_A] + first * run->stride[TD_A];
            const char *from_b = b + walk.offset[TD_B] + first * run->stride[TD_B];
            const int64_t ahead_sums = plan->n_sums > 0 ? summed->loops[plan->n_sums - 1].extent -
                                                              walk.position[plan->n_sums - 1]
                                                        : 1;
            struct rows y = { NULL, 0 };
            const bool shared = plan->has_b && along->stride[TD_B] == 0;
            if (shared) {
                y = get_rows(job, scratch, TD_B, from_b, 0, 1, n, ahead_sums);
                y.step = 0;
            }
            for (int64_t row = 0; row < outputs; row += group) {
                const int64_t count = td_smaller(outputs - row, group);
                const struct rows x = get_rows(
                    job, scratch, TD_A, from_a + row * along->stride[TD_A], along->stride[TD_A],
                    count, n, plan->around[TD_A] == ALONG_AROUND ? outputs - row : ahead_sums);
                if (plan->has_b && !shared)
                    y = get_rows(job, scratch, TD_B, from_b + row * along->stride[TD_B],
                                 along->stride[TD_B], count, n,
                                 plan->around[TD_B] == ALONG_AROUND ? outputs - row : ahead_sums);
                job->kernels->reduce(scratch->totals + row * plan->total_size, x.data, x.step,
                                     y.data, y.step, count, n);
            }
        } while (walk_on(&walk));
    }
}

/* Adds `count` rows at a, b to the sums of n outputs. */
static void add_rows(const struct job *job, struct scratch *scratch, const struct td_loop *row_loop,
                     const char *a, const char *b, int64_t count, int64_t n, int64_t ahead)
{
    const struct plan *plan = &job->plan;
    const struct rows x = get_rows(job, scratch, TD_A, a, row_loop->stride[TD_A], count, n, ahead);
    if (!plan->has_b) {
        job->kernels->add_rows(scratch->sums, x.data, x.step, count, n);
    } else if (is_scalar(plan)) {
        job->widen[TD_B](scratch->scalars, b, row_loop->stride[TD_B] / plan->side[TD_B].size,
                         count);
        job->kernels->scale_rows(scratch->sums, x.data, x.step, scratch->scalars, count, n);
    } else {
        const struct rows y =
            get_rows(job, scratch, TD_B, b, row_loop->stride[TD_B], count, n, ahead);
        job->kernels->multiply_rows(scratch->sums, x.data, x.step, y.data, y.step, count, n);
    }
}

/* The sums of n outputs over all rows; true when they are in totals, with the sums at zero. */
static bool accumulate_unit(const struct job *job, struct scratch *scratch,
                            const struct summed *summed, const char *a, const char *b, int64_t n,
                            bool to_totals)
{
    const struct plan *plan = &job->plan;
    const struct td_loop *row_loop = &summed->loops[plan->n_sums - 1];
    /* Of short rows no sum has more terms, since many are added side by side. */
    const bool side_by_side = rows_at_once(plan, &plan->run, row_loop) > 1;
    const int64_t flush_rows = side_by_side ? td_larger(FLUSH_ROWS, REDUCE_BLOCK / n) : FLUSH_ROWS;
    const int64_t most = has_buffers(plan) ? rows_to_get(plan, n) : flush_rows;
    int64_t since = 0; /* rows in sums */
    bool flushed = false;
    struct walk walk;
    memset(scratch->sums, 0, (size_t)(n * plan->element_size));
    walk_to(&walk, summed->loops, plan->n_sums - 1, 0);
    do {
        for (int64_t row = 0; row < row_loop->extent;) {
            const int64_t count =
                td_smaller(td_smaller(row_loop->extent - row, most), flush_rows - since);
            if (count == 0) {
                if (!flushed)
                    memset(scratch->totals, 0, (size_t)(n * plan->total_size));
                job->kernels->flush(scratch->totals, scratch->sums, n);
                flushed = true;
                since = 0;
                continue;
            }
            add_rows(job, scratch, row_loop, a + walk.offset[TD_A] + row * row_loop->stride[TD_A],
                     b + walk.offset[TD_B] + row * row_loop->stride[TD_B], count, n,
                     row_loop->extent - row);
            row += count;
            since += count;
        }
    } while (walk_on(&walk));
    if (!flushed && !to_totals)
        return false;
    if (!flushed)
        memset(scratch->totals, 0, (size_t)(n * plan->total_size));
    job->kernels->flush(scratch->totals, scratch->sums, n);
    return true;
}

/* n outputs that are one product, or one element, each; written at once where C allows it. */
static void multiply_unit(const struct job *job, struct scratch *scratch, const char *a,
                          const char *b, char *c, int64_t n, int64_t ahead)
{
    const struct plan *plan = &job->plan;
    const struct side *to = &plan->side[TD_C];
    const int64_t stride = plan->along.stride[TD_C];
    const bool direct = to->native && stride == to->size;
    if (!plan->has_b) {
        if (direct && plan->around[TD_A] == NOTHING_AROUND) {
            job->widen[TD_A](c, a, plan->run.stride[TD_A] / plan->side[TD_A].size, n);
        } else {
            const struct rows x = get_rows(job, scratch, TD_A, a, 0, 1, n, ahead);
            job->narrow(c, stride / to->size, x.data, n);
        }
        return;
    }
    char *product = direct ? c : scratch->sums;
    const struct rows x = get_rows(job, scratch, TD_A, a, 0, 1, n, ahead);
    if (is_scalar(plan)) {
        job->widen[TD_B](scratch->scalars, b, 1, 1);
        job->kernels->scale(product, x.data, scratch->scalars, n);
    } else {
        const struct rows y = get_rows(job, scratch, TD_B, b, 0, 1, n, ahead);
        job->kernels->multiply(product, x.data, y.data, n);
    }
    if (!direct)
        job->narrow(c, stride / to->size, product, n);
}

/* Totals, or sums, to where C keeps them. */
static void store(const struct job *job, struct scratch *scratch, bool totals, char *c, int64_t n)
{
    if (totals)
        job->kernels->round(scratch->sums, scratch->totals, n);
    job->narrow(c, job->plan.along.stride[TD_C] / job->plan.side[TD_C].size, scratch->sums, n);
}

static int64_t outputs_at(const struct plan *plan, const struct walk *walk)
{
    return td_smaller(plan->block,
                      plan->along.extent - walk->position[plan->along_at] * plan->block);
}

static char *partial_of(const struct job *job, int64_t part, int64_t unit)
{
    const struct plan *plan = &job->plan;
    return job->partial + (part * plan->units + unit) * capacity(plan) * plan->total_size;
}

static void run_unit(const struct job *job, struct scratch *scratch, const struct walk *walk,
                     const struct summed *summed, const int64_t part_offset[2], char *partial)
{
    const struct plan *plan = &job->plan;
    const int64_t n = outputs_at(plan, walk);
    const char *a = job->data[TD_A] + walk->offset[TD_A] + part_offset[TD_A];
    const char *b = job->data[TD_B] + walk->offset[TD_B] + part_offset[TD_B];
    char *c = job->c + walk->offset[TD_C];
    bool totals = true;
    if (plan->reduces) {
        reduce_unit(job, scratch, summed, a, b, n);
    } else if (plan->n_sums > 0) {
        totals = accumulate_unit(job, scratch, summed, a, b, n, partial != NULL);
    } else {
        const int last = plan->n_unit_loops - 1;
        multiply_unit(job, scratch, a, b, c, n,
                      plan->unit_loops[last].extent - walk->position[last]);
        return;
    }
    if (partial)
        memcpy(partial, scratch->totals, (size_t)(n * plan->total_size));
    else
        store(job, scratch, totals, c, n);
}

/* ---- All units --------------------------------------------------------------------------- */

static void run_units(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct plan *plan = &job->plan;
    const int slot = td_workspace_claim(job->workspace);
    struct scratch scratch = cut_slot(plan, td_workspace_slot(job->workspace, slot));
    const struct summed summed = { plan->sums, plan->run };
    const int64_t nowhere[2] = { 0 };
    struct walk walk;
    walk_to(&walk, plan->unit_loops, plan->n_unit_loops, begin);
    for (int64_t unit = begin; unit < end; unit++) {
        run_unit(job, &scratch, &walk, &summed, nowhere, NULL);
        walk_on(&walk);
    }
    td_workspace_release(job->workspace, slot);
}

/* Item i is part i % parts of unit i / parts. */
static void run_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct plan *plan = &job->plan;
    const int slot = td_workspace_claim(job->workspace);
    struct scratch scratch = cut_slot(plan, td_workspace_slot(job->workspace, slot));
    struct td_loop sums[TD_MAX_LOOPS + 1];
    memcpy(sums, plan->sums, sizeof(sums));
    struct summed summed = { sums, plan->run };
    struct td_loop *cut = plan->split == plan->n_sums ? &summed.run : &sums[plan->split];
    const int64_t extent = cut->extent, each = extent / plan->parts, more = extent % plan->parts;
    struct walk walk;
    for (int64_t item = begin; item < end; item++) {
        const int64_t unit = item / plan->parts, part = item % plan->parts;
        /* The first `more` parts have one step more. */
        const int64_t first = part * each + td_smaller(part, more);
        cut->extent = each + (part < more);
        walk_to(&walk, plan->unit_loops, plan->n_unit_loops, unit);
        run_unit(job, &scratch, &walk, &summed,
                 (int64_t[2]){ first * cut->stride[TD_A], first * cut->stride[TD_B] },
                 partial_of(job, part, unit));
    }
    td_workspace_release(job->workspace, slot);
}

/* Adds the parts of units, in their order. */
static void add_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const struct plan *plan = &job->plan;
    const int slot = td_workspace_claim(job->workspace);
    struct scratch scratch = cut_slot(plan, td_workspace_slot(job->workspace, slot));
    struct walk walk;
    walk_to(&walk, plan->unit_loops, plan->n_unit_loops, begin);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t n = outputs_at(plan, &walk);
        memcpy(scratch.totals, partial_of(job, 0, unit), (size_t)(n * plan->total_size));
        for (int64_t part = 1; part < plan->parts; part++)
            job->kernels->add_totals(scratch.totals, partial_of(job, part, unit), n);
        store(job, &scratch, true, job->c + walk.offset[TD_C], n);
        walk_on(&walk);
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
    const struct plan *plan = &job.plan;
    make_plan(&job.plan, contraction);
    const td_isa isa = td_isa_resolve(exec->isa);
    job.kernels = kernels_of(plan->compute, isa);
    job.widen[TD_A] = td_widen(plan->side[TD_A].dtype, isa);
    job.widen[TD_B] = td_widen(plan->side[TD_B].dtype, isa);
    const struct td_transpositions *transpositions = td_transpositions(isa);
    for (int operand = TD_A; operand <= TD_B; operand++)
        job.transpose[operand] =
            transpositions
                ->by_log2_width[__builtin_ctzll((unsigned long long)plan->side[operand].size)];
    job.narrow = td_narrow(plan->side[TD_C].dtype, isa);
    job.data[TD_A] = plan->swapped ? b : a;
    job.data[TD_B] = plan->swapped ? a : b;
    if (!plan->has_b)
        job.data[TD_B] = job.data[TD_A]; /* never read, but moved along */
    job.c = c;
    job.partial = plan->parts > 1 ? workspace->shared : NULL;
    job.workspace = workspace;

    const double bytes = bytes_moved(plan, contraction);
    if (plan->parts == 1)
        return td_exec_for(exec, plan->units, grain_of(plan->units, bytes), run_units, &job, err);
    const int64_t items = plan->units * plan->parts;
    td_status status = td_exec_for(exec, items, grain_of(items, bytes), run_parts, &job, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(
        exec, plan->units,
        grain_of(plan->units, (double)items * (double)(capacity(plan) * plan->total_size)),
        add_parts, &job, err);
}
