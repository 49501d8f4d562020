#include "kernels/einsum/sumprod/unit.h"

#include "kernels/integers.h"

#include <string.h>

/* ---- Scratch memory ---------------------------------------------------------------------- */

static int64_t totals_bytes(const struct td_sumprod_plan *plan)
{
    return TD_SUMPROD_UNIT_BYTES / plan->element_size * plan->total_size;
}

int64_t td_sumprod_slot_bytes(const struct td_sumprod_plan *plan)
{
    return 2 * TD_SUMPROD_TILE_BYTES + 2 * TD_SUMPROD_BUFFER_BYTES +
           TD_SUMPROD_FLUSH_ROWS * plan->element_size + TD_SUMPROD_UNIT_BYTES + totals_bytes(plan);
}

struct td_sumprod_scratch td_sumprod_cut_slot(const struct td_sumprod_plan *plan, char *slot)
{
    struct td_sumprod_scratch scratch;
    scratch.run[TD_A] = slot;
    scratch.run[TD_B] = scratch.run[TD_A] + TD_SUMPROD_BUFFER_BYTES;
    scratch.scalars = scratch.run[TD_B] + TD_SUMPROD_BUFFER_BYTES;
    scratch.sums = scratch.scalars + TD_SUMPROD_FLUSH_ROWS * plan->element_size;
    scratch.totals = scratch.sums + TD_SUMPROD_UNIT_BYTES;
    char *tiles = scratch.totals + totals_bytes(plan);
    scratch.tile[TD_A] = (struct td_sumprod_tile){ .data = tiles };
    scratch.tile[TD_B] =
        (struct td_sumprod_tile){ .data = tiles + (ptrdiff_t)TD_SUMPROD_TILE_BYTES };
    return scratch;
}

/* ---- What kernels read ------------------------------------------------------------------- */

/* Rows of dense T, `step` elements apart. */
struct rows {
    const char *data;
    int64_t step;
};

/* The n elements of a scattered run, dense. The next `ahead` runs, this one included, begin one
 * element after the other. */
static const char *get_from_tile(const struct td_sumprod_work *work, struct td_sumprod_tile *tile,
                                 int operand, const char *from, int64_t n, int64_t ahead)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const int64_t size = plan->side[operand].size;
    const uintptr_t place = (uintptr_t)from - (uintptr_t)tile->from;
    if (tile->from && tile->n == n && place < (uintptr_t)(tile->columns * size))
        return tile->data + (int64_t)place * n;
    tile->from = from;
    tile->n = n;
    tile->columns = td_smaller(ahead, TD_SUMPROD_LINE / size);
    work->transpose[operand](tile->data, n * size, from, plan->run.stride[operand], n,
                             tile->columns, false);
    return tile->data;
}

/* Rows that a thread's buffers take at once, of n elements each. A tile gives them one by one. */
static int64_t rows_to_get(const struct td_sumprod_plan *plan, int64_t n)
{
    if (plan->around[TD_A] != TD_AROUND_NOTHING || plan->around[TD_B] != TD_AROUND_NOTHING)
        return 1;
    return td_larger(1, TD_SUMPROD_BUFFER_BYTES / plan->element_size / n);
}

/* `count` rows row_stride bytes apart, of n elements along the run: where they are, or else dense
 * and widened, in the thread's buffers. `ahead` counts the steps left of the loop that plan->around
 * names. */
static struct rows get_rows(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                            int operand, const char *from, int64_t row_stride, int64_t count,
                            int64_t n, int64_t ahead)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const struct td_sumprod_side *side = &plan->side[operand];
    if (plan->direct[operand])
        return (struct rows){ from, row_stride / side->size };
    int64_t stride = plan->run.stride[operand] / side->size;
    if (plan->around[operand] != TD_AROUND_NOTHING && ahead > 1) {
        from = get_from_tile(work, &scratch->tile[operand], operand, from, n, ahead);
        stride = 1;
        if (side->native)
            return (struct rows){ from, 0 };
    }
    char *to = scratch->run[operand];
    if (stride == 1 && row_stride == n * side->size)
        work->widen[operand](to, from, 1, count * n);
    else
        for (int64_t row = 0; row < count; row++)
            work->widen[operand](to + row * n * plan->element_size, from + row * row_stride, stride,
                                 n);
    return (struct rows){ to, n };
}

/* ---- A unit ------------------------------------------------------------------------------ */

/* Outputs [0, outputs) of the unit at a, b: adds everything that is summed to totals. */
static void reduce_unit(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                        const struct td_sumprod_summed *summed, const char *a, const char *b,
                        int64_t outputs)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const struct td_loop *run = &summed->run, *along = &plan->along;
    memset(scratch->totals, 0, (size_t)(outputs * plan->total_size));
    for (int64_t first = 0; first < run->extent; first += plan->run_block) {
        const int64_t n = td_smaller(run->extent - first, plan->run_block);
        const int64_t group = plan->buffered ? rows_to_get(plan, n) : outputs;
        struct td_nest_iter iter;
        td_nest_iter_init(&iter, summed->loops, plan->n_sums, 0);
        do {
            const char *from_a = a + iter.offset[TD_A] + first * run->stride[TD_A];
            const char *from_b = b + iter.offset[TD_B] + first * run->stride[TD_B];
            const int64_t ahead_sums = plan->n_sums > 0 ? summed->loops[plan->n_sums - 1].extent -
                                                              iter.index[plan->n_sums - 1]
                                                        : 1;
            struct rows y = { NULL, 0 };
            const bool shared = plan->has_b && along->stride[TD_B] == 0;
            if (shared) {
                y = get_rows(work, scratch, TD_B, from_b, 0, 1, n, ahead_sums);
                y.step = 0;
            }
            for (int64_t row = 0; row < outputs; row += group) {
                const int64_t count = td_smaller(outputs - row, group);
                const struct rows x = get_rows(
                    work, scratch, TD_A, from_a + row * along->stride[TD_A], along->stride[TD_A],
                    count, n, plan->around[TD_A] == TD_AROUND_ALONG ? outputs - row : ahead_sums);
                if (plan->has_b && !shared)
                    y = get_rows(work, scratch, TD_B, from_b + row * along->stride[TD_B],
                                 along->stride[TD_B], count, n,
                                 plan->around[TD_B] == TD_AROUND_ALONG ? outputs - row
                                                                       : ahead_sums);
                work->kernels->reduce(scratch->totals + row * plan->total_size, x.data, x.step,
                                      y.data, y.step, count, n);
            }
        } while (td_nest_iter_next(&iter));
    }
}

/* Adds `count` rows at a, b to the sums of n outputs. */
static void add_rows(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                     const struct td_loop *row_loop, const char *a, const char *b, int64_t count,
                     int64_t n, int64_t ahead)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const struct rows x = get_rows(work, scratch, TD_A, a, row_loop->stride[TD_A], count, n, ahead);
    if (!plan->has_b) {
        work->kernels->add_rows(scratch->sums, x.data, x.step, count, n);
    } else if (plan->scalar) {
        work->widen[TD_B](scratch->scalars, b, row_loop->stride[TD_B] / plan->side[TD_B].size,
                          count);
        work->kernels->scale_rows(scratch->sums, x.data, x.step, scratch->scalars, count, n);
    } else {
        const struct rows y =
            get_rows(work, scratch, TD_B, b, row_loop->stride[TD_B], count, n, ahead);
        work->kernels->multiply_rows(scratch->sums, x.data, x.step, y.data, y.step, count, n);
    }
}

/* The sums of n outputs over all rows; true when they are in totals, with the sums at zero. */
static bool accumulate_unit(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                            const struct td_sumprod_summed *summed, const char *a, const char *b,
                            int64_t n, bool to_totals)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const struct td_loop *row_loop = &summed->loops[plan->n_sums - 1];
    /* Of short rows no sum has more terms, since many are added side by side. */
    const bool side_by_side = plan->side_by_side && row_loop->extent > 1;
    const int64_t flush_rows = side_by_side
                                   ? td_larger(TD_SUMPROD_FLUSH_ROWS, TD_SUMPROD_REDUCE_BLOCK / n)
                                   : TD_SUMPROD_FLUSH_ROWS;
    const int64_t most = plan->buffered ? rows_to_get(plan, n) : flush_rows;
    int64_t since = 0; /* rows in sums */
    bool flushed = false;
    struct td_nest_iter iter;
    memset(scratch->sums, 0, (size_t)(n * plan->element_size));
    td_nest_iter_init(&iter, summed->loops, plan->n_sums - 1, 0);
    do {
        for (int64_t row = 0; row < row_loop->extent;) {
            const int64_t count =
                td_smaller(td_smaller(row_loop->extent - row, most), flush_rows - since);
            if (count == 0) {
                if (!flushed)
                    memset(scratch->totals, 0, (size_t)(n * plan->total_size));
                work->kernels->flush(scratch->totals, scratch->sums, n);
                flushed = true;
                since = 0;
                continue;
            }
            add_rows(work, scratch, row_loop, a + iter.offset[TD_A] + row * row_loop->stride[TD_A],
                     b + iter.offset[TD_B] + row * row_loop->stride[TD_B], count, n,
                     row_loop->extent - row);
            row += count;
            since += count;
        }
    } while (td_nest_iter_next(&iter));
    if (!flushed && !to_totals)
        return false;
    if (!flushed)
        memset(scratch->totals, 0, (size_t)(n * plan->total_size));
    work->kernels->flush(scratch->totals, scratch->sums, n);
    return true;
}

/* n outputs that are one product, or one element, each; written at once where C allows it. */
static void multiply_unit(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                          const char *a, const char *b, char *c, int64_t n, int64_t ahead)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const struct td_sumprod_side *to = &plan->side[TD_C];
    const int64_t stride = plan->along.stride[TD_C];
    const bool direct = to->native && stride == to->size;
    if (!plan->has_b) {
        if (direct && plan->around[TD_A] == TD_AROUND_NOTHING) {
            work->widen[TD_A](c, a, plan->run.stride[TD_A] / plan->side[TD_A].size, n);
        } else {
            const struct rows x = get_rows(work, scratch, TD_A, a, 0, 1, n, ahead);
            work->narrow(c, stride / to->size, x.data, n);
        }
        return;
    }
    char *product = direct ? c : scratch->sums;
    const struct rows x = get_rows(work, scratch, TD_A, a, 0, 1, n, ahead);
    if (plan->scalar) {
        work->widen[TD_B](scratch->scalars, b, 1, 1);
        work->kernels->scale(product, x.data, scratch->scalars, n);
    } else {
        const struct rows y = get_rows(work, scratch, TD_B, b, 0, 1, n, ahead);
        work->kernels->multiply(product, x.data, y.data, n);
    }
    if (!direct)
        work->narrow(c, stride / to->size, product, n);
}

/* Totals, or sums, to where C keeps them. */
static void store(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                  bool totals, char *c, int64_t n)
{
    if (totals)
        work->kernels->round(scratch->sums, scratch->totals, n);
    work->narrow(c, work->plan.along.stride[TD_C] / work->plan.side[TD_C].size, scratch->sums, n);
}

static int64_t outputs_at(const struct td_sumprod_plan *plan, const struct td_nest_iter *iter)
{
    return td_smaller(plan->block, plan->along.extent - iter->index[plan->along_at] * plan->block);
}

void td_sumprod_unit(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                     const struct td_nest_iter *iter, const struct td_sumprod_summed *summed,
                     const int64_t part_offset[2], char *partial)
{
    const struct td_sumprod_plan *plan = &work->plan;
    const int64_t n = outputs_at(plan, iter);
    const char *a = work->data[TD_A] + iter->offset[TD_A] + part_offset[TD_A];
    const char *b = work->data[TD_B] + iter->offset[TD_B] + part_offset[TD_B];
    char *c = work->c + iter->offset[TD_C];
    bool totals = true;
    if (plan->reduces) {
        reduce_unit(work, scratch, summed, a, b, n);
    } else if (plan->n_sums > 0) {
        totals = accumulate_unit(work, scratch, summed, a, b, n, partial != NULL);
    } else {
        const int last = plan->n_unit_loops - 1;
        multiply_unit(work, scratch, a, b, c, n, plan->unit_loops[last].extent - iter->index[last]);
        return;
    }
    if (partial)
        memcpy(partial, scratch->totals, (size_t)(n * plan->total_size));
    else
        store(work, scratch, totals, c, n);
}

void td_sumprod_join_parts(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                           const struct td_nest_iter *iter, const char *partial, int64_t part_bytes)
{
    const int64_t n = outputs_at(&work->plan, iter);
    memcpy(scratch->totals, partial, (size_t)(n * work->plan.total_size));
    for (int64_t part = 1; part < work->plan.parts; part++)
        work->kernels->add_totals(scratch->totals, partial + part * part_bytes, n);
    store(work, scratch, true, work->c + iter->offset[TD_C], n);
}
