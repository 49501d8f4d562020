#include "kernels/einsum/gemm/pack.h"
#include "kernels/einsum/gemm/part.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

static void multiply_item(const struct td_gemm_call *g, void *slot, const struct td_gemm_item *item)
{
    const struct td_gemm_product *p = g->p;
    const struct td_gemm_packed_b packed = { td_gemm_slot_b(g->p, slot), 0, 0,
                                             td_ceil_div(p->n.size, g->panel) };
    if (!g->b_in_place)
        for (int64_t k = 0; k < p->k.size; k += g->blocking->kc)
            td_gemm_pack_b(g, td_gemm_slot_scratch(slot), item->b, &packed, k,
                           td_smaller(g->blocking->kc, p->k.size - k), 0, p->n.size);
    struct td_gemm_part part = {
        .a = item->a, .b = item->b, .c = item->c, .n = p->n.size, .k = p->k.size, .packed = &packed
    };
    for (; part.m0 < p->m.size; part.m0 += g->most_rows) {
        part.m = td_smaller(g->most_rows, p->m.size - part.m0);
        td_gemm_multiply(g, slot, &part);
    }
}

/* Where nothing is packed or scattered, an item is nothing but its tiles: 4 x 4 x 4 takes about 15
 * ns, and the same through multiply_item twice that. */
static void item_in_place_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gemm_call *g = context;
    const struct td_gemm_product *p = g->p;
    const int64_t m = p->m.size, n = p->n.size, rows = td_ceil_div(m, td_ceil_div(m, g->rows));
    const int64_t a_step = rows * p->m.step[TD_A] * p->size[TD_A],
                  c_step = rows * p->m.step[TD_C] * p->size[TD_C];
    struct td_gemm_tile tile = { .k = p->k.size * p->parts };
    td_gemm_strides_in_place(g, &tile);
    struct td_gemm_walk walk;
    td_gemm_walk_begin(&walk, &p->batch, begin);
    for (int64_t i = begin; i < end; i++, td_gemm_walk_on(&walk)) {
        const struct td_gemm_item item = td_gemm_walk_item(g, &walk);
        for (int64_t column = 0; column < n; column += g->panel) {
            const int64_t reals = td_smaller(g->panel, n - column) * p->parts;
            tile.columns = (int)reals;
            tile.a = item.a;
            tile.b = item.b + column * p->size[TD_B];
            tile.next = tile.b;
            tile.c = item.c + column * p->size[TD_C];
            for (int64_t left = m; left > 0; left -= rows) {
                g->tiles->tile[td_smaller(rows, left) - 1][reals > g->tiles->lanes](&tile);
                tile.a = (const char *)tile.a + a_step;
                tile.c = (char *)tile.c + c_step;
            }
        }
    }
}

static void item_range(void *context, int64_t begin, int64_t end)
{
    const struct td_gemm_call *g = context;
    const int number = td_workspace_acquire(g->workspace);
    void *slot = td_workspace_scratch(g->workspace, number);
    struct td_gemm_walk walk;
    td_gemm_walk_begin(&walk, &g->p->batch, begin);
    for (int64_t i = begin; i < end; i++, td_gemm_walk_on(&walk)) {
        const struct td_gemm_item item = td_gemm_walk_item(g, &walk);
        multiply_item(g, slot, &item);
    }
    td_workspace_release(g->workspace, number);
}

td_status td_gemm_run_items(struct td_gemm_call *g, struct td_exec *exec, struct td_error *err)
{
    const struct td_gemm_product *p = g->p;
    const bool in_place =
        g->a_in_place && g->b_in_place && g->c_in_place && p->k.size <= g->blocking->kc;
    return td_exec_for(exec, p->batch.size, td_gemm_grain(p->batch.size, p->item_ns),
                       in_place ? item_in_place_range : item_range, g, err);
}
