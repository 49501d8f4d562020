#include "kernels/einsum/gemm/pack.h"
#include "kernels/einsum/gemm/part.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* Fewer columns than this, and reading a row of A costs about as much as multiplying it. */
#define FEW_COLUMNS 256
/* Panels of B that one range packs. */
#define PACK_PANELS 4

/* What is being computed: `items` of the batch, columns [n0, n0 + n), over k in [k0, k0 + k). */
struct chunk {
    const struct td_gemm_call *g;
    int64_t first_item, items, n0, n, k0, k;
    int64_t m_block, n_range; /* rows and columns of a task */
};

static struct td_gemm_packed_b shared_b(const struct chunk *chunk, int64_t i)
{
    const struct td_gemm_call *g = chunk->g;
    const int64_t panels = td_ceil_div(chunk->n, g->panel);
    return (struct td_gemm_packed_b){ g->workspace->shared +
                                          i * td_gemm_panel_row_bytes(g) *
                                              td_gemm_packed_rows(g->p, chunk->k) * panels,
                                      chunk->k0, chunk->n0, panels };
}

static void pack_range(void *context, int64_t begin, int64_t end)
{
    const struct chunk *chunk = context;
    const struct td_gemm_call *g = chunk->g;
    const int64_t width = g->panel * PACK_PANELS;
    const int64_t groups = td_ceil_div(chunk->n, width),
                  blocks = td_ceil_div(chunk->k, g->blocking->kc);
    const int number = td_workspace_acquire(g->workspace);
    struct td_gemm_scratch *scratch =
        td_gemm_slot_scratch(td_workspace_scratch(g->workspace, number));
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = chunk->n0 + i % groups * width;
        const int64_t k = chunk->k0 + i / groups % blocks * g->blocking->kc;
        const int64_t which = i / groups / blocks;
        const struct td_gemm_packed_b packed = shared_b(chunk, which);
        td_gemm_pack_b(g, scratch, td_gemm_item_at(g, chunk->first_item + which).b, &packed, k,
                       td_smaller(g->blocking->kc, chunk->k0 + chunk->k - k), n,
                       td_smaller(n + width, chunk->n0 + chunk->n));
    }
    td_workspace_release(g->workspace, number);
}

static void multiply_range(void *context, int64_t begin, int64_t end)
{
    const struct chunk *chunk = context;
    const struct td_gemm_call *g = chunk->g;
    const int64_t strips = td_ceil_div(g->p->m.size, chunk->m_block),
                  chunks = td_ceil_div(chunk->n, chunk->n_range);
    const int number = td_workspace_acquire(g->workspace);
    void *slot = td_workspace_scratch(g->workspace, number);
    for (int64_t i = begin; i < end; i++) {
        const int64_t which = i / chunks / strips;
        const struct td_gemm_item item = td_gemm_item_at(g, chunk->first_item + which);
        const struct td_gemm_packed_b packed = shared_b(chunk, which);
        struct td_gemm_part part = {
            .a = item.a,
            .b = item.b,
            .c = item.c,
            .m0 = i / chunks % strips * chunk->m_block,
            .n0 = chunk->n0 + i % chunks * chunk->n_range,
            .k0 = chunk->k0,
            .k = chunk->k,
            .add = chunk->k0 > 0,
            .packed = &packed,
        };
        part.m = td_smaller(chunk->m_block, g->p->m.size - part.m0);
        part.n = td_smaller(chunk->n_range, chunk->n0 + chunk->n - part.n0);
        td_gemm_multiply(g, slot, &part);
    }
    td_workspace_release(g->workspace, number);
}

/* Rows and columns that one task takes: B is packed once for all, but A by every task for itself,
 * so tasks are as wide as the number of them, and the longest that one may take, allow. */
static void cut_tasks(struct chunk *chunk, int width)
{
    const struct td_gemm_call *g = chunk->g;
    const struct td_gemm_product *p = g->p;
    const int64_t m = p->m.size;
    int64_t strips = td_ceil_div(m, g->most_rows);
    /* Tiles of fewer rows are slower, but every chunk of columns packs A again: a few columns do not
     * pay for that. */
    const int64_t least_rows = (chunk->n < FEW_COLUMNS ? 2LL : 4LL) * g->rows;
    if (chunk->items * strips < 8LL * width && m / td_round_up(strips, width) >= least_rows)
        strips = td_round_up(strips, width);
    /* The rates are those of long vectors: SSE2 takes about ten times as long. */
    const double longest_ns =
        TD_GEMM_LONGEST_NS * (double)(g->tiles->lanes * p->real_size) / (TD_GEMM_TILE_BYTES / 2.0);
    /* Where k is so long that not even one panel is done in time. */
    const double column_ns = p->item_ns / (double)p->n.size / (double)p->k.size * (double)chunk->k;
    const double panel_ns = column_ns * (double)td_smaller(chunk->n, g->panel);
    if (panel_ns > longest_ns * (double)strips)
        strips = td_smaller(m, (int64_t)(panel_ns / longest_ns) + 1);
    chunk->m_block = td_ceil_div(m, strips);
    const double row_ns = column_ns / (double)strips;
    int64_t chunks = td_ceil_div(4LL * width, chunk->items * strips);
    if (chunk->items * strips >= 2LL * width)
        chunks = 1;
    int64_t columns =
        td_larger(td_ceil_div(chunk->n, chunks), (int64_t)(TD_GEMM_RANGE_NS / row_ns));
    columns = td_smaller(columns, td_larger(1, (int64_t)(longest_ns / row_ns)));
    chunk->n_range = td_smaller(chunk->n, td_round_up(columns, g->panel));
}

static td_status run_chunk(struct chunk *chunk, struct td_exec *exec, struct td_error *err)
{
    const struct td_gemm_call *g = chunk->g;
    const struct td_gemm_product *p = g->p;
    if (!g->b_in_place) {
        const int64_t count = chunk->items * td_ceil_div(chunk->n, g->panel * PACK_PANELS) *
                              td_ceil_div(chunk->k, g->blocking->kc);
        /* A number in about a nanosecond. */
        const double each_ns =
            (double)chunk->items * (double)chunk->n * (double)chunk->k / (double)count;
        td_status status =
            td_exec_for(exec, count, td_gemm_grain(count, each_ns), pack_range, chunk, err);
        if (status != TD_OK)
            return status;
    }
    cut_tasks(chunk, exec->width);
    const int64_t count = chunk->items * td_ceil_div(p->m.size, chunk->m_block) *
                          td_ceil_div(chunk->n, chunk->n_range);
    const double each_ns = p->item_ns * (double)chunk->items / (double)count * (double)chunk->n /
                           (double)p->n.size * (double)chunk->k / (double)p->k.size;
    return td_exec_for(exec, count, td_gemm_grain(count, each_ns), multiply_range, chunk, err);
}

td_status td_gemm_run_shared(const struct td_gemm_call *g, struct td_exec *exec,
                             struct td_error *err)
{
    const struct td_gemm_product *p = g->p;
    const struct td_gemm_blocking *blocking = g->blocking;
    struct chunk chunk = { .g = g };
    for (int64_t i = 0; i < p->batch.size; i += blocking->items) {
        chunk.first_item = i;
        chunk.items = td_smaller(blocking->items, p->batch.size - i);
        for (int64_t n = 0; n < p->n.size; n += blocking->n_chunk) {
            chunk.n0 = n;
            chunk.n = td_smaller(blocking->n_chunk, p->n.size - n);
            for (int64_t k = 0; k < p->k.size; k += blocking->k_chunk) {
                chunk.k0 = k;
                chunk.k = td_smaller(blocking->k_chunk, p->k.size - k);
                td_status status = run_chunk(&chunk, exec, err);
                if (status != TD_OK)
                    return status;
            }
        }
    }
    return TD_OK;
}
