#include "kernels/einsum/gemm/part.h"

#include "kernels/integers.h"

#include <string.h>

/* Moves between a tile and its places in C; numbers of `size` bytes. */
static void move_row(char *c, const int64_t *offset, char *tile, int64_t n, int64_t size, bool to_c)
{
    if (offset[n - 1] - offset[0] == n - 1 && n > 1 && offset[1] - offset[0] == 1) {
        bool contiguous = true;
        for (int64_t i = 2; i < n; i++)
            contiguous &= offset[i] - offset[i - 1] == 1;
        if (contiguous) {
            if (to_c)
                memcpy(c + offset[0] * size, tile, (size_t)(n * size));
            else
                memcpy(tile, c + offset[0] * size, (size_t)(n * size));
            return;
        }
    }
#define MOVE(bytes)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
        if (to_c)                                                                                  \
            memcpy(c + offset[i] * (bytes), tile + i * (bytes), bytes);                            \
        else                                                                                       \
            memcpy(tile + i * (bytes), c + offset[i] * (bytes), bytes);                            \
    }
    switch (size) {
    case 1:
        MOVE(1)
        break;
    case 2:
        MOVE(2)
        break;
    case 4:
        MOVE(4)
        break;
    case 8:
        MOVE(8)
        break;
    default:
        MOVE(16)
    }
#undef MOVE
}

/* A tile by way of the slot, for C of any strides. */
static void scatter_tile(const struct td_gemm_call *g, struct td_gemm_scratch *scratch,
                         const struct td_gemm_part *part, struct td_gemm_tile *tile,
                         td_gemm_tile_fn *fn, int64_t i, int64_t rows, int64_t columns)
{
    const int64_t size = g->p->size[TD_C];
    tile->c = scratch->tile;
    tile->c_row = TD_GEMM_TILE_BYTES / g->p->real_size;
    for (int64_t r = 0; r < rows && tile->add; r++)
        move_row(part->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_BYTES, columns, size, false);
    fn(tile);
    for (int64_t r = 0; r < rows; r++)
        move_row(part->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_BYTES, columns, size, true);
}

void td_gemm_strides_in_place(const struct td_gemm_call *g, struct td_gemm_tile *tile)
{
    const struct td_gemm_product *p = g->p;
    tile->a_row = p->m.step[TD_A] * p->parts;
    tile->a_k = p->parts > 1 ? 1 : p->k.step[TD_A];
    tile->b_k = p->k.step[TD_B];
    tile->c_row = p->m.step[TD_C] * p->parts;
}

/* All rows of the part against one panel of B. */
static void multiply_panel(const struct td_gemm_call *g, void *slot,
                           const struct td_gemm_part *part, int64_t k, int64_t k_n, int64_t rows,
                           int64_t n)
{
    const struct td_gemm_product *p = g->p;
    struct td_gemm_scratch *scratch = td_gemm_slot_scratch(slot);
    const int64_t columns = td_smaller(g->panel, part->n0 + part->n - n);
    const int64_t reals = columns * p->parts, real = p->real_size;
    const bool wide = reals > g->tiles->lanes;
    struct td_gemm_tile tile = {
        .k = td_gemm_packed_rows(p, k_n) * p->parts,
        .columns = (int)reals,
        .add = part->add || k > part->k0,
    };
    td_gemm_strides_in_place(g, &tile);
    if (g->b_in_place) {
        tile.b = part->b + (k * p->k.step[TD_B] + n) * real;
    } else {
        tile.b = td_gemm_packed_panel(g, part->packed, k, k_n, n);
        tile.b_k = (int64_t)g->tiles->lanes * TD_GEMM_VECTORS;
    }
    /* In place, B is in the second cache or not worth a fetch. */
    const int64_t next = g->b_in_place ? 0 : tile.k * tile.b_k * real;
    if (!g->c_in_place && p->native[TD_C])
        td_gemm_offsets(&p->n, TD_C, n, columns, scratch->n_c);
    for (int64_t i = 0; i < part->m; i += rows) {
        const int64_t rows_here = td_smaller(rows, part->m - i);
        td_gemm_tile_fn *fn = g->tiles->tile[rows_here - 1][wide];
        const int64_t share = i / rows % TD_GEMM_NEXT_SHARES;
        tile.next = (const char *)tile.b + next + next / TD_GEMM_NEXT_SHARES * share;
        if (g->a_in_place) {
            tile.a =
                part->a + ((part->m0 + i) * p->m.step[TD_A] + k * p->k.step[TD_A]) * p->size[TD_A];
        } else {
            tile.a = td_gemm_slot_block(slot) + i * td_gemm_packed_rows(p, k_n) * p->parts * real;
            tile.a_row = 1;
            tile.a_k = rows;
        }
        if (!p->native[TD_C]) {
            tile.c_row = TD_GEMM_NARROW_WIDTH;
            tile.c =
                td_gemm_slot_sums(g->p, slot) + (i * TD_GEMM_NARROW_WIDTH + n - part->n0) * real;
            fn(&tile);
        } else if (g->c_in_place) {
            tile.c = part->c + ((part->m0 + i) * p->m.step[TD_C] + n) * p->size[TD_C];
            fn(&tile);
        } else {
            scatter_tile(g, scratch, part, &tile, fn, i, rows_here, columns);
        }
    }
}

void td_gemm_store_row(const struct td_gemm_call *g, struct td_gemm_scratch *scratch, char *c,
                       char *sums, int64_t n0, int64_t n)
{
    const struct td_gemm_dimension *columns = &g->p->n;
    const int64_t size = g->p->size[TD_C];
    if (g->narrow && columns->affine[TD_C]) {
        const int64_t step = columns->step[TD_C];
        g->narrow(c + n0 * step * size, step, sums, n);
        return;
    }
    td_gemm_offsets(columns, TD_C, n0, n, scratch->n_c);
    if (g->narrow)
        g->narrow(scratch->raw, 1, sums, n);
    move_row(c, scratch->n_c, g->narrow ? scratch->raw : sums, n, size, true);
}

static void narrow_part(const struct td_gemm_call *g, void *slot, const struct td_gemm_part *part)
{
    struct td_gemm_scratch *scratch = td_gemm_slot_scratch(slot);
    char *sums = td_gemm_slot_sums(g->p, slot);
    for (int64_t i = 0; i < part->m; i++, sums += TD_GEMM_NARROW_WIDTH * g->p->real_size)
        td_gemm_store_row(g, scratch, part->c + scratch->m_c[i] * g->p->size[TD_C], sums, part->n0,
                          part->n);
}

static void multiply(const struct td_gemm_call *g, void *slot, const struct td_gemm_part *part)
{
    const struct td_gemm_product *p = g->p;
    struct td_gemm_scratch *scratch = td_gemm_slot_scratch(slot);
    const int64_t rows = td_ceil_div(part->m, td_ceil_div(part->m, g->rows));
    if (!g->a_in_place)
        td_gemm_offsets(&p->m, TD_A, part->m0, part->m, scratch->m_a);
    if (!g->c_in_place)
        td_gemm_offsets(&p->m, TD_C, part->m0, part->m, scratch->m_c);
    for (int64_t k = part->k0; k < part->k0 + part->k; k += g->blocking->kc) {
        const int64_t k_n = td_smaller(g->blocking->kc, part->k0 + part->k - k);
        if (!g->a_in_place && !part->a_packed)
            td_gemm_pack_a(g, slot, part->a, part->m, rows, k, k_n);
        for (int64_t n = part->n0; n < part->n0 + part->n; n += g->panel)
            multiply_panel(g, slot, part, k, k_n, rows, n);
    }
    if (!p->native[TD_C])
        narrow_part(g, slot, part);
}

/* The same, in parts as wide as sums beside C may be. */
void td_gemm_multiply(const struct td_gemm_call *g, void *slot, const struct td_gemm_part *part)
{
    if (g->p->native[TD_C]) {
        multiply(g, slot, part);
        return;
    }
    struct td_gemm_part some = *part;
    for (; some.n0 < part->n0 + part->n; some.n0 += TD_GEMM_NARROW_WIDTH) {
        some.n = td_smaller(TD_GEMM_NARROW_WIDTH, part->n0 + part->n - some.n0);
        multiply(g, slot, &some);
        some.a_packed = part->k <= g->blocking->kc;
    }
}
