#include "kernels/einsum/gemm/macrokernel.h"

#include "kernels/integers.h"

#include <string.h>

/* Copies n elements of `size` bytes between a row of a tile and the given offsets of C. */
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

/* Computes a tile in scratch memory and scatters it to C, whose strides are arbitrary. */
static void scatter_tile(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                         const struct td_gemm_block *block, struct td_gemm_tile *tile,
                         td_gemm_microkernel_fn *microkernel, int64_t i, int64_t rows,
                         int64_t columns)
{
    const int64_t size = g->p->size[TD_C];
    tile->c = scratch->tile;
    tile->c_row = TD_GEMM_TILE_ROW_BYTES / g->p->real_size;
    for (int64_t r = 0; r < rows && tile->accumulate; r++)
        move_row(block->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_ROW_BYTES, columns, size, false);
    microkernel(tile);
    for (int64_t r = 0; r < rows; r++)
        move_row(block->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_ROW_BYTES, columns, size, true);
}

void td_gemm_set_in_place_strides(const struct td_gemm_context *g, struct td_gemm_tile *tile)
{
    const struct td_gemm_product *p = g->p;
    tile->a_row = p->m.step[TD_A] * p->components;
    tile->a_k = p->components > 1 ? 1 : p->k.step[TD_A];
    tile->b_k = p->k.step[TD_B];
    tile->c_row = p->m.step[TD_C] * p->components;
}

/* Multiplies all rows of the block by one panel of B. */
static void multiply_panel(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                           const struct td_gemm_block *block, int64_t k, int64_t k_n, int64_t rows,
                           int64_t n)
{
    const struct td_gemm_product *p = g->p;
    const int64_t columns = td_smaller(g->nr, block->n0 + block->n - n);
    const int64_t reals = columns * p->components, real = p->real_size;
    const bool wide = reals > g->microkernels->lanes;
    struct td_gemm_tile tile = {
        .k = td_gemm_packed_rows(p, k_n) * p->components,
        .columns = (int)reals,
        .accumulate = block->accumulate || k > block->k0,
    };
    td_gemm_set_in_place_strides(g, &tile);
    if (g->b_in_place) {
        tile.b = block->b + (k * p->k.step[TD_B] + n) * real;
    } else {
        tile.b = td_gemm_packed_panel(g, block->packed, k, k_n, n);
        tile.b_k = (int64_t)g->microkernels->lanes * TD_GEMM_TILE_VECTORS;
    }
    /* A B that is read in place is either in the L2 cache or not worth prefetching. */
    const int64_t panel_bytes = g->b_in_place ? 0 : tile.k * tile.b_k * real;
    if (!g->c_in_place && p->native[TD_C])
        td_gemm_fill_offsets(&p->n, TD_C, n, columns, scratch->n_c);
    for (int64_t i = 0; i < block->m; i += rows) {
        const int64_t tile_rows = td_smaller(rows, block->m - i);
        td_gemm_microkernel_fn *microkernel = g->microkernels->by_size[tile_rows - 1][wide];
        const int64_t slice = i / rows % TD_GEMM_PREFETCH_SLICES;
        tile.next_b =
            (const char *)tile.b + panel_bytes + panel_bytes / TD_GEMM_PREFETCH_SLICES * slice;
        if (g->a_in_place) {
            tile.a = block->a +
                     ((block->m0 + i) * p->m.step[TD_A] + k * p->k.step[TD_A]) * p->size[TD_A];
        } else {
            tile.a =
                td_gemm_packed_a(scratch) + i * td_gemm_packed_rows(p, k_n) * p->components * real;
            tile.a_row = 1;
            tile.a_k = rows;
        }
        if (!p->native[TD_C]) {
            tile.c_row = TD_GEMM_SUMS_COLUMNS;
            tile.c =
                td_gemm_sums(g->p, scratch) + (i * TD_GEMM_SUMS_COLUMNS + n - block->n0) * real;
            microkernel(&tile);
        } else if (g->c_in_place) {
            tile.c = block->c + ((block->m0 + i) * p->m.step[TD_C] + n) * p->size[TD_C];
            microkernel(&tile);
        } else {
            scatter_tile(g, scratch, block, &tile, microkernel, i, tile_rows, columns);
        }
    }
}

void td_gemm_store_row(const struct td_gemm_context *g, struct td_gemm_scratch *scratch, char *c,
                       char *sums, int64_t n0, int64_t n)
{
    const struct td_gemm_dimension *columns = &g->p->n;
    const int64_t size = g->p->size[TD_C];
    if (g->narrow && columns->affine[TD_C]) {
        const int64_t step = columns->step[TD_C];
        g->narrow(c + n0 * step * size, step, sums, n);
        return;
    }
    td_gemm_fill_offsets(columns, TD_C, n0, n, scratch->n_c);
    if (g->narrow)
        g->narrow(scratch->raw, 1, sums, n);
    move_row(c, scratch->n_c, g->narrow ? scratch->raw : sums, n, size, true);
}

static void store_sums(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                       const struct td_gemm_block *block)
{
    char *sums = td_gemm_sums(g->p, scratch);
    for (int64_t i = 0; i < block->m; i++, sums += TD_GEMM_SUMS_COLUMNS * g->p->real_size)
        td_gemm_store_row(g, scratch, block->c + scratch->m_c[i] * g->p->size[TD_C], sums,
                          block->n0, block->n);
}

static void multiply_block(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                           const struct td_gemm_block *block)
{
    const struct td_gemm_product *p = g->p;
    const int64_t rows = td_ceil_div(block->m, td_ceil_div(block->m, g->mr));
    if (!g->a_in_place)
        td_gemm_fill_offsets(&p->m, TD_A, block->m0, block->m, scratch->m_a);
    if (!g->c_in_place)
        td_gemm_fill_offsets(&p->m, TD_C, block->m0, block->m, scratch->m_c);
    for (int64_t k = block->k0; k < block->k0 + block->k; k += g->blocking->kc) {
        const int64_t k_n = td_smaller(g->blocking->kc, block->k0 + block->k - k);
        if (!g->a_in_place && !block->a_packed)
            td_gemm_pack_a(g, scratch, block->a, block->m, rows, k, k_n);
        for (int64_t n = block->n0; n < block->n0 + block->n; n += g->nr)
            multiply_panel(g, scratch, block, k, k_n, rows, n);
    }
    if (!p->native[TD_C])
        store_sums(g, scratch, block);
}

void td_gemm_macrokernel(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                         const struct td_gemm_block *block)
{
    if (g->p->native[TD_C]) {
        multiply_block(g, scratch, block);
        return;
    }
    /* Processes the columns in groups whose sums fit in scratch memory. */
    struct td_gemm_block group = *block;
    for (; group.n0 < block->n0 + block->n; group.n0 += TD_GEMM_SUMS_COLUMNS) {
        group.n = td_smaller(TD_GEMM_SUMS_COLUMNS, block->n0 + block->n - group.n0);
        multiply_block(g, scratch, &group);
        group.a_packed = block->k <= g->blocking->kc;
    }
}
