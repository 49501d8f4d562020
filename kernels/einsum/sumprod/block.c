#include "kernels/einsum/sumprod/block.h"

#include "kernels/integers.h"

#include <string.h>

/* ---- Scratch ----------------------------------------------------------------------------- */

static int64_t scratch_totals_bytes(const struct td_sumprod_plan *plan)
{
    return TD_SUMPROD_BLOCK_BYTES / plan->element_size * plan->total_size;
}

int64_t td_sumprod_scratch_bytes(const struct td_sumprod_plan *plan)
{
    return 2 * TD_SUMPROD_TILE_BYTES + 2 * TD_SUMPROD_BUFFER_BYTES +
           TD_SUMPROD_FLUSH_ROWS * plan->element_size + TD_SUMPROD_BLOCK_BYTES +
           scratch_totals_bytes(plan);
}

struct td_sumprod_scratch td_sumprod_scratch_at(const struct td_sumprod_plan *plan, char *memory)
{
    struct td_sumprod_scratch scratch;
    scratch.run[TD_A] = memory;
    scratch.run[TD_B] = scratch.run[TD_A] + TD_SUMPROD_BUFFER_BYTES;
    scratch.scalars = scratch.run[TD_B] + TD_SUMPROD_BUFFER_BYTES;
    scratch.sums = scratch.scalars + TD_SUMPROD_FLUSH_ROWS * plan->element_size;
    scratch.totals = scratch.sums + TD_SUMPROD_BLOCK_BYTES;
    char *tiles = scratch.totals + scratch_totals_bytes(plan);
    scratch.tile[TD_A] = (struct td_sumprod_tile){ .data = tiles };
    scratch.tile[TD_B] =
        (struct td_sumprod_tile){ .data = tiles + (ptrdiff_t)TD_SUMPROD_TILE_BYTES };
    return scratch;
}

/* ---- Reading operands -------------------------------------------------------------------- */

/* Contiguous rows of T, `step` elements apart. */
struct rows {
    const char *data;
    int64_t step;
};

/* Returns the n elements of a scattered run as a contiguous run. `remaining` is the number of runs
 * left, including this run, that start at consecutive elements. Fills the tile by transposing as
 * many of these runs as it holds. */
static const char *load_from_tile(const struct td_sumprod_context *ctx,
                                  struct td_sumprod_tile *tile, int operand, const char *from,
                                  int64_t n, int64_t remaining)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const int64_t size = plan->format[operand].size;
    const uintptr_t distance = (uintptr_t)from - (uintptr_t)tile->from;
    if (tile->from && tile->n == n && distance < (uintptr_t)(tile->columns * size))
        return tile->data + (int64_t)distance * n;
    tile->from = from;
    tile->n = n;
    tile->columns = td_smaller(remaining, TD_SUMPROD_CACHE_LINE / size);
    ctx->transpose[operand](tile->data, n * size, from, plan->run.stride[operand], n, tile->columns,
                            false);
    return tile->data;
}

/* Returns the number of rows of n elements that fit in the buffers. Returns 1 if there is a tile,
 * because the runs of a tile are loaded one by one. */
static int64_t rows_per_load(const struct td_sumprod_plan *plan, int64_t n)
{
    if (plan->tile_loop[TD_A] != TD_TILE_LOOP_NONE || plan->tile_loop[TD_B] != TD_TILE_LOOP_NONE)
        return 1;
    return td_larger(1, TD_SUMPROD_BUFFER_BYTES / plan->element_size / n);
}

/* Loads `count` rows of n elements along the run, which are row_stride bytes apart. Uses the rows
 * in place, or makes them contiguous and widens them in scratch buffers. `remaining` is the number
 * of remaining iterations of the loop plan->tile_loop. */
static struct rows load_rows(const struct td_sumprod_context *ctx,
                             struct td_sumprod_scratch *scratch, int operand, const char *from,
                             int64_t row_stride, int64_t count, int64_t n, int64_t remaining)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const struct td_sumprod_format *format = &plan->format[operand];
    if (plan->direct[operand])
        return (struct rows){ from, row_stride / format->size };
    int64_t stride = plan->run.stride[operand] / format->size;
    if (plan->tile_loop[operand] != TD_TILE_LOOP_NONE && remaining > 1) {
        from = load_from_tile(ctx, &scratch->tile[operand], operand, from, n, remaining);
        stride = 1;
        if (format->native)
            return (struct rows){ from, 0 };
    }
    char *to = scratch->run[operand];
    if (stride == 1 && row_stride == n * format->size)
        ctx->widen[operand](to, from, 1, count * n);
    else
        for (int64_t row = 0; row < count; row++)
            ctx->widen[operand](to + row * n * plan->element_size, from + row * row_stride, stride,
                                n);
    return (struct rows){ to, n };
}

/* ---- A block ----------------------------------------------------------------------------- */

/* Sums long contiguous runs of A, one for each of a few outputs, into the totals. Passes parts of a
 * run to the kernel as rows, because it reads several long rows together, which is faster than
 * reading one. */
static void reduce_long_runs(const struct td_sumprod_context *ctx,
                             struct td_sumprod_scratch *scratch, const struct td_loop *run,
                             const char *a, int64_t outputs)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const int64_t n = plan->run_length, part_bytes = n * plan->element_size;
    const int64_t parts = run->extent / n, rest = run->extent % n;
    char *totals = scratch->totals + TD_SUMPROD_ROWS_TOGETHER * plan->total_size;
    memset(scratch->totals, 0, (size_t)(outputs * plan->total_size));
    for (int64_t output = 0; output < outputs; output++) {
        const char *from = a + output * plan->outputs.stride[TD_A];
        memset(totals, 0, (size_t)(TD_SUMPROD_ROWS_TOGETHER * plan->total_size));
        for (int64_t first = 0; first < parts; first += TD_SUMPROD_ROWS_TOGETHER)
            ctx->kernels->reduce(totals, from + first * part_bytes, n, NULL, 0,
                                 td_smaller(parts - first, TD_SUMPROD_ROWS_TOGETHER), n);
        ctx->kernels->reduce(totals, from + parts * part_bytes, 0, NULL, 0, 1, rest);
        for (int row = 0; row < TD_SUMPROD_ROWS_TOGETHER; row++)
            ctx->kernels->add_totals(scratch->totals + output * plan->total_size,
                                     totals + row * plan->total_size, 1);
    }
}

/* Sums the terms of outputs [0, outputs) of the block at a, b into the totals. */
static void reduce_block(const struct td_sumprod_context *ctx, struct td_sumprod_scratch *scratch,
                         const struct td_sumprod_reduction *reduction, const char *a, const char *b,
                         int64_t outputs)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const struct td_loop *run = &reduction->run, *out = &plan->outputs;
    if (!plan->has_b && plan->direct[TD_A] && plan->n_summed == 0 &&
        run->extent > plan->run_length && outputs < TD_SUMPROD_ROWS_TOGETHER) {
        reduce_long_runs(ctx, scratch, run, a, outputs);
        return;
    }
    memset(scratch->totals, 0, (size_t)(outputs * plan->total_size));
    for (int64_t first = 0; first < run->extent; first += plan->run_length) {
        const int64_t n = td_smaller(run->extent - first, plan->run_length);
        const int64_t group = plan->buffered ? rows_per_load(plan, n) : outputs;
        struct td_nest_iter iter;
        td_nest_iter_init(&iter, reduction->loops, plan->n_summed, 0);
        do {
            const char *from_a = a + iter.offset[TD_A] + first * run->stride[TD_A];
            const char *from_b = b + iter.offset[TD_B] + first * run->stride[TD_B];
            const int64_t remaining_summed =
                plan->n_summed > 0
                    ? reduction->loops[plan->n_summed - 1].extent - iter.index[plan->n_summed - 1]
                    : 1;
            struct rows y = { NULL, 0 };
            const bool shared_b = plan->has_b && out->stride[TD_B] == 0;
            if (shared_b) {
                y = load_rows(ctx, scratch, TD_B, from_b, 0, 1, n, remaining_summed);
                y.step = 0;
            }
            for (int64_t row = 0; row < outputs; row += group) {
                const int64_t count = td_smaller(outputs - row, group);
                const struct rows x =
                    load_rows(ctx, scratch, TD_A, from_a + row * out->stride[TD_A],
                              out->stride[TD_A], count, n,
                              plan->tile_loop[TD_A] == TD_TILE_LOOP_OUTPUTS ? outputs - row
                                                                            : remaining_summed);
                if (plan->has_b && !shared_b)
                    y = load_rows(ctx, scratch, TD_B, from_b + row * out->stride[TD_B],
                                  out->stride[TD_B], count, n,
                                  plan->tile_loop[TD_B] == TD_TILE_LOOP_OUTPUTS ? outputs - row
                                                                                : remaining_summed);
                ctx->kernels->reduce(scratch->totals + row * plan->total_size, x.data, x.step,
                                     y.data, y.step, count, n);
            }
        } while (td_nest_iter_next(&iter));
    }
}

/* Adds `count` rows at a, b to the sums of n outputs. */
static void add_rows(const struct td_sumprod_context *ctx, struct td_sumprod_scratch *scratch,
                     const struct td_loop *row_loop, const char *a, const char *b, int64_t count,
                     int64_t n, int64_t remaining)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const struct rows x =
        load_rows(ctx, scratch, TD_A, a, row_loop->stride[TD_A], count, n, remaining);
    if (!plan->has_b) {
        ctx->kernels->add_rows(scratch->sums, x.data, x.step, count, n);
    } else if (plan->scalar) {
        ctx->widen[TD_B](scratch->scalars, b, row_loop->stride[TD_B] / plan->format[TD_B].size,
                         count);
        ctx->kernels->scale_rows(scratch->sums, x.data, x.step, scratch->scalars, count, n);
    } else {
        const struct rows y =
            load_rows(ctx, scratch, TD_B, b, row_loop->stride[TD_B], count, n, remaining);
        ctx->kernels->multiply_rows(scratch->sums, x.data, x.step, y.data, y.step, count, n);
    }
}

/* Sums n outputs over all rows. Returns true if it leaves the result in the totals and sets the
 * sums to 0, or false if it leaves the result in the sums. */
static bool accumulate_block(const struct td_sumprod_context *ctx,
                             struct td_sumprod_scratch *scratch,
                             const struct td_sumprod_reduction *reduction, const char *a,
                             const char *b, int64_t n, bool to_totals)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const struct td_loop *row_loop = &reduction->loops[plan->n_summed - 1];
    /* Adds many short rows as one row, so a sum has no more terms than with long rows. */
    const bool folds = plan->folds_rows && row_loop->extent > 1;
    const int64_t flush_rows = folds
                                   ? td_larger(TD_SUMPROD_FLUSH_ROWS, TD_SUMPROD_REDUCE_LENGTH / n)
                                   : TD_SUMPROD_FLUSH_ROWS;
    const int64_t max_rows = plan->buffered ? rows_per_load(plan, n) : flush_rows;
    int64_t rows_in_sums = 0;
    bool flushed = false;
    struct td_nest_iter iter;
    memset(scratch->sums, 0, (size_t)(n * plan->element_size));
    td_nest_iter_init(&iter, reduction->loops, plan->n_summed - 1, 0);
    do {
        for (int64_t row = 0; row < row_loop->extent;) {
            const int64_t count =
                td_smaller(td_smaller(row_loop->extent - row, max_rows), flush_rows - rows_in_sums);
            if (count == 0) {
                if (!flushed)
                    memset(scratch->totals, 0, (size_t)(n * plan->total_size));
                ctx->kernels->flush(scratch->totals, scratch->sums, n);
                flushed = true;
                rows_in_sums = 0;
                continue;
            }
            add_rows(ctx, scratch, row_loop, a + iter.offset[TD_A] + row * row_loop->stride[TD_A],
                     b + iter.offset[TD_B] + row * row_loop->stride[TD_B], count, n,
                     row_loop->extent - row);
            row += count;
            rows_in_sums += count;
        }
    } while (td_nest_iter_next(&iter));
    if (!flushed && !to_totals)
        return false;
    if (!flushed)
        memset(scratch->totals, 0, (size_t)(n * plan->total_size));
    ctx->kernels->flush(scratch->totals, scratch->sums, n);
    return true;
}

/* Computes n outputs, each of which is one product or one element. Writes directly to C if C is
 * contiguous and native. */
static void multiply_block(const struct td_sumprod_context *ctx, struct td_sumprod_scratch *scratch,
                           const char *a, const char *b, char *c, int64_t n, int64_t remaining)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const struct td_sumprod_format *format = &plan->format[TD_C];
    const int64_t stride = plan->outputs.stride[TD_C];
    const bool direct = format->native && stride == format->size;
    if (!plan->has_b) {
        if (direct && plan->tile_loop[TD_A] == TD_TILE_LOOP_NONE) {
            ctx->widen[TD_A](c, a, plan->run.stride[TD_A] / plan->format[TD_A].size, n);
        } else {
            const struct rows x = load_rows(ctx, scratch, TD_A, a, 0, 1, n, remaining);
            ctx->narrow(c, stride / format->size, x.data, n);
        }
        return;
    }
    char *product = direct ? c : scratch->sums;
    const struct rows x = load_rows(ctx, scratch, TD_A, a, 0, 1, n, remaining);
    if (plan->scalar) {
        ctx->widen[TD_B](scratch->scalars, b, 1, 1);
        ctx->kernels->scale(product, x.data, scratch->scalars, n);
    } else {
        const struct rows y = load_rows(ctx, scratch, TD_B, b, 0, 1, n, remaining);
        ctx->kernels->multiply(product, x.data, y.data, n);
    }
    if (!direct)
        ctx->narrow(c, stride / format->size, product, n);
}

/* Writes the totals, or the sums, to C. */
static void store(const struct td_sumprod_context *ctx, struct td_sumprod_scratch *scratch,
                  bool totals, char *c, int64_t n)
{
    if (totals)
        ctx->kernels->round(scratch->sums, scratch->totals, n);
    ctx->narrow(c, ctx->plan.outputs.stride[TD_C] / ctx->plan.format[TD_C].size, scratch->sums, n);
}

static int64_t outputs_of(const struct td_sumprod_plan *plan, const struct td_nest_iter *iter)
{
    return td_smaller(plan->block_length,
                      plan->outputs.extent - iter->index[plan->outputs_loop] * plan->block_length);
}

void td_sumprod_compute_block(const struct td_sumprod_context *ctx,
                              struct td_sumprod_scratch *scratch, const struct td_nest_iter *iter,
                              const struct td_sumprod_reduction *reduction,
                              const int64_t split_offset[2], char *partial)
{
    const struct td_sumprod_plan *plan = &ctx->plan;
    const int64_t n = outputs_of(plan, iter);
    const char *a = ctx->data[TD_A] + iter->offset[TD_A] + split_offset[TD_A];
    const char *b = ctx->data[TD_B] + iter->offset[TD_B] + split_offset[TD_B];
    char *c = ctx->c + iter->offset[TD_C];
    bool totals = true;
    if (plan->reduces) {
        reduce_block(ctx, scratch, reduction, a, b, n);
    } else if (plan->n_summed > 0) {
        totals = accumulate_block(ctx, scratch, reduction, a, b, n, partial != NULL);
    } else {
        const int last = plan->n_outer - 1;
        multiply_block(ctx, scratch, a, b, c, n, plan->outer[last].extent - iter->index[last]);
        return;
    }
    if (partial)
        memcpy(partial, scratch->totals, (size_t)(n * plan->total_size));
    else
        store(ctx, scratch, totals, c, n);
}

void td_sumprod_add_partials(const struct td_sumprod_context *ctx,
                             struct td_sumprod_scratch *scratch, const struct td_nest_iter *iter,
                             const char *partial, int64_t split_bytes)
{
    const int64_t n = outputs_of(&ctx->plan, iter);
    memcpy(scratch->totals, partial, (size_t)(n * ctx->plan.total_size));
    for (int64_t split = 1; split < ctx->plan.n_splits; split++)
        ctx->kernels->add_totals(scratch->totals, partial + split * split_bytes, n);
    store(ctx, scratch, true, ctx->c + iter->offset[TD_C], n);
}
