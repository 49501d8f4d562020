#include "kernels/einsum/gemm/pack.h"

#include "kernels/integers.h"

static void fill_k_offsets(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                           int operand, int64_t k0, int64_t k)
{
    td_gemm_fill_offsets(&g->p->k, operand, k0, k, scratch->k);
    scratch->k_run[k - 1] = 1;
    for (int64_t i = k - 1; i > 0; i--)
        scratch->k_run[i - 1] = scratch->k[i] - scratch->k[i - 1] == 1 ? scratch->k_run[i] + 1 : 1;
}

/* Packs one panel: for each k, n elements at the given offsets into a row of `width` elements. The
 * caller must have filled scratch->k. */
static void pack_panel(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                       int operand, const char *from, const int64_t *offset, int64_t n,
                       int64_t width, int64_t k, char *to)
{
    const struct td_gemm_product *p = g->p;
    const bool converts = !p->native[operand] || p->components > 1;
    const bool pads = operand == TD_B;
    const int64_t lanes = g->microkernels->lanes;
    const struct td_gemm_panel panel = {
        .to = converts ? scratch->raw : to,
        .width = width,
        .n = n,
        .padded = !pads      ? n
                  : converts ? width
                             : td_round_up(n, lanes),
        .k = k,
        .from = from,
        .offset = offset,
        .k_offset = scratch->k,
        .k_run = scratch->k_run,
    };
    g->kernels->pack[__builtin_ctzll((unsigned long long)p->size[operand])](&panel);
    if (p->components > 1)
        (operand == TD_A ? g->microkernels->expand_a : g->microkernels->expand_b)(to, scratch->raw,
                                                                                  k, width);
    else if (converts)
        g->widen[operand](to, scratch->raw, 1, k * width);
}

char *td_gemm_packed_panel(const struct td_gemm_context *g, const struct td_gemm_packed_b *b,
                           int64_t k, int64_t k_n, int64_t n)
{
    const int64_t row = td_gemm_panel_row_bytes(g);
    return b->data + row * (td_gemm_packed_rows(g->p, k - b->k0) * b->panels +
                            td_gemm_packed_rows(g->p, k_n) * ((n - b->n0) / g->nr));
}

void td_gemm_pack_b(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                    const char *from, const struct td_gemm_packed_b *b, int64_t k, int64_t k_n,
                    int64_t n, int64_t n_end)
{
    fill_k_offsets(g, scratch, TD_B, k, k_n);
    for (; n < n_end; n += g->nr) {
        const int64_t columns = td_smaller(g->nr, n_end - n);
        td_gemm_fill_offsets(&g->p->n, TD_B, n, columns, scratch->n);
        pack_panel(g, scratch, TD_B, from, scratch->n, columns, g->nr, k_n,
                   td_gemm_packed_panel(g, b, k, k_n, n));
    }
}

void td_gemm_pack_a(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                    const char *from, int64_t m, int64_t rows, int64_t k, int64_t k_n)
{
    char *to = td_gemm_packed_a(scratch);
    const int64_t row = g->p->components * g->p->real_size;
    fill_k_offsets(g, scratch, TD_A, k, k_n);
    for (int64_t i = 0; i < m; i += rows)
        pack_panel(g, scratch, TD_A, from, scratch->m_a + i, td_smaller(rows, m - i), rows, k_n,
                   to + i * td_gemm_packed_rows(g->p, k_n) * row);
}
