#include "kernels/einsum/gemm/macrokernel.h"
#include "kernels/einsum/gemm/pack.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* With fewer than FEW_COLUMNS columns, reading a row of A costs about as much as multiplying it. */
#define FEW_COLUMNS 256
/* Number of panels of B that one item of the packing loop packs. */
#define PACK_PANELS 4

/* A pass over `products` products of the batch: columns [n0, n0 + n), and k in [k0, k0 + k). */
struct pass {
    const struct td_gemm_context *g;
    int64_t first_product, products, n0, n, k0, k;
    /* Number of rows and columns of the block of C that one thread computes. */
    int64_t block_m, block_n;
};

static struct td_gemm_packed_b packed_b(const struct pass *pass, int64_t i)
{
    const struct td_gemm_context *g = pass->g;
    const int64_t panels = td_ceil_div(pass->n, g->nr);
    return (struct td_gemm_packed_b){ g->workspace->shared +
                                          i * td_gemm_panel_row_bytes(g) *
                                              td_gemm_packed_rows(g->p, pass->k) * panels,
                                      pass->k0, pass->n0, panels };
}

static void pack_range(void *context, int64_t begin, int64_t end)
{
    const struct pass *pass = context;
    const struct td_gemm_context *g = pass->g;
    const int64_t width = g->nr * PACK_PANELS;
    const int64_t panel_groups = td_ceil_div(pass->n, width),
                  k_blocks = td_ceil_div(pass->k, g->blocking->kc);
    const int thread = td_workspace_acquire(g->workspace);
    struct td_gemm_scratch *scratch = td_workspace_scratch(g->workspace, thread);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = pass->n0 + i % panel_groups * width;
        const int64_t k = pass->k0 + i / panel_groups % k_blocks * g->blocking->kc;
        const int64_t product = i / panel_groups / k_blocks;
        const struct td_gemm_packed_b packed = packed_b(pass, product);
        td_gemm_pack_b(g, scratch, td_gemm_operands_at(g, pass->first_product + product).b, &packed,
                       k, td_smaller(g->blocking->kc, pass->k0 + pass->k - k), n,
                       td_smaller(n + width, pass->n0 + pass->n));
    }
    td_workspace_release(g->workspace, thread);
}

static void multiply_range(void *context, int64_t begin, int64_t end)
{
    const struct pass *pass = context;
    const struct td_gemm_context *g = pass->g;
    const int64_t row_blocks = td_ceil_div(g->p->m.size, pass->block_m),
                  column_blocks = td_ceil_div(pass->n, pass->block_n);
    const int thread = td_workspace_acquire(g->workspace);
    struct td_gemm_scratch *scratch = td_workspace_scratch(g->workspace, thread);
    for (int64_t i = begin; i < end; i++) {
        const int64_t product = i / column_blocks / row_blocks;
        const struct td_gemm_operands operands =
            td_gemm_operands_at(g, pass->first_product + product);
        const struct td_gemm_packed_b packed = packed_b(pass, product);
        struct td_gemm_block block = {
            .a = operands.a,
            .b = operands.b,
            .c = operands.c,
            .m0 = i / column_blocks % row_blocks * pass->block_m,
            .n0 = pass->n0 + i % column_blocks * pass->block_n,
            .k0 = pass->k0,
            .k = pass->k,
            .accumulate = pass->k0 > 0,
            .packed = &packed,
        };
        block.m = td_smaller(pass->block_m, g->p->m.size - block.m0);
        block.n = td_smaller(pass->block_n, pass->n0 + pass->n - block.n0);
        td_gemm_macrokernel(g, scratch, &block);
    }
    td_workspace_release(g->workspace, thread);
}

/* Chooses the size of a block of C. B is packed once for all threads, but A is packed once for each
 * block. Blocks are therefore as wide as possible without exceeding the maximum time of a range or
 * leaving too few blocks for the threads. */
static void choose_blocks(struct pass *pass, int width)
{
    const struct td_gemm_context *g = pass->g;
    const struct td_gemm_product *p = g->p;
    const int64_t m = p->m.size;
    int64_t row_blocks = td_ceil_div(m, g->mc);
    /* Tiles with fewer rows are slower. However, each block of columns packs A again, which is not
     * worthwhile for only a few columns. */
    const int64_t min_rows = (pass->n < FEW_COLUMNS ? 2LL : 4LL) * g->mr;
    if (pass->products * row_blocks < 8LL * width && m / td_round_up(row_blocks, width) >= min_rows)
        row_blocks = td_round_up(row_blocks, width);
    /* The estimates assume long vectors. SSE2 takes about ten times as long, so the limit is lower
     * for short vectors. */
    const double max_ns = TD_GEMM_MAX_RANGE_NS * (double)(g->microkernels->lanes * p->real_size) /
                          (TD_GEMM_TILE_ROW_BYTES / 2.0);
    /* If one panel takes longer than max_ns because k is long, blocks have fewer rows. */
    const double column_ns =
        p->product_ns / (double)p->n.size / (double)p->k.size * (double)pass->k;
    const double panel_ns = column_ns * (double)td_smaller(pass->n, g->nr);
    if (panel_ns > max_ns * (double)row_blocks)
        row_blocks = td_smaller(m, (int64_t)(panel_ns / max_ns) + 1);
    pass->block_m = td_ceil_div(m, row_blocks);
    const double row_ns = column_ns / (double)row_blocks;
    int64_t column_blocks = td_ceil_div(4LL * width, pass->products * row_blocks);
    if (pass->products * row_blocks >= 2LL * width)
        column_blocks = 1;
    int64_t columns =
        td_larger(td_ceil_div(pass->n, column_blocks), (int64_t)(TD_GEMM_RANGE_NS / row_ns));
    columns = td_smaller(columns, td_larger(1, (int64_t)(max_ns / row_ns)));
    pass->block_n = td_smaller(pass->n, td_round_up(columns, g->nr));
}

static td_status run_pass(struct pass *pass, struct td_exec *exec, struct td_error *err)
{
    const struct td_gemm_context *g = pass->g;
    const struct td_gemm_product *p = g->p;
    if (!g->b_in_place) {
        const int64_t count = pass->products * td_ceil_div(pass->n, g->nr * PACK_PANELS) *
                              td_ceil_div(pass->k, g->blocking->kc);
        /* Packing takes about a nanosecond per element. */
        const double each_ns =
            (double)pass->products * (double)pass->n * (double)pass->k / (double)count;
        td_status status =
            td_exec_for(exec, count, td_gemm_grain(count, each_ns), pack_range, pass, err);
        if (status != TD_OK)
            return status;
    }
    choose_blocks(pass, exec->width);
    const int64_t count = pass->products * td_ceil_div(p->m.size, pass->block_m) *
                          td_ceil_div(pass->n, pass->block_n);
    const double each_ns = p->product_ns * (double)pass->products / (double)count *
                           (double)pass->n / (double)p->n.size * (double)pass->k /
                           (double)p->k.size;
    return td_exec_for(exec, count, td_gemm_grain(count, each_ns), multiply_range, pass, err);
}

td_status td_gemm_run_cooperative(const struct td_gemm_context *g, struct td_exec *exec,
                                  struct td_error *err)
{
    const struct td_gemm_product *p = g->p;
    const struct td_gemm_blocking *blocking = g->blocking;
    struct pass pass = { .g = g };
    for (int64_t i = 0; i < p->batch.size; i += blocking->batch_block) {
        pass.first_product = i;
        pass.products = td_smaller(blocking->batch_block, p->batch.size - i);
        for (int64_t n = 0; n < p->n.size; n += blocking->nc) {
            pass.n0 = n;
            pass.n = td_smaller(blocking->nc, p->n.size - n);
            for (int64_t k = 0; k < p->k.size; k += blocking->k_packed) {
                pass.k0 = k;
                pass.k = td_smaller(blocking->k_packed, p->k.size - k);
                td_status status = run_pass(&pass, exec, err);
                if (status != TD_OK)
                    return status;
            }
        }
    }
    return TD_OK;
}
