#include "kernels/einsum/gemm/pack.h"
#include "kernels/einsum/gemm/part.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* `items` of the batch, and their sums in the shared workspace: of each, one matrix for every
 * piece. */
struct sums {
    const struct td_gemm_call *g;     /* what is to be computed, */
    const struct td_gemm_call *apart; /* with C in the workspace */
    int64_t first_item, items, pieces;
    int64_t bytes; /* of one matrix */
};

static char *sum_at(const struct sums *sums, int64_t which, int64_t piece)
{
    return sums->g->workspace->shared + (which * sums->pieces + piece) * sums->bytes;
}

/* A row-major matrix of what the product computes in. */
static void put_apart(struct td_gemm_product *p)
{
    p->native[TD_C] = true;
    p->size[TD_C] = p->real_size * p->parts;
    p->m.affine[TD_C] = p->n.affine[TD_C] = true;
    p->m.step[TD_C] = p->n.size;
    p->n.step[TD_C] = 1;
}

/* Over k in [k, end). */
static void sum_piece(const struct td_gemm_call *g, void *slot, const struct td_gemm_item *item,
                      int64_t k, int64_t end)
{
    const struct td_gemm_product *p = g->p;
    struct td_gemm_packed_b packed = { .data = td_gemm_slot_b(p, slot),
                                       .panels = td_ceil_div(p->n.size, g->panel) };
    struct td_gemm_part part = {
        .a = item->a, .b = item->b, .c = item->c, .m = p->m.size, .n = p->n.size, .packed = &packed
    };
    for (; k < end; k += part.k) {
        part.k0 = packed.k0 = k;
        part.k = td_smaller(g->blocking->kc, end - k);
        if (!g->b_in_place)
            td_gemm_pack_b(g, td_gemm_slot_scratch(slot), item->b, &packed, k, part.k, 0,
                           p->n.size);
        td_gemm_multiply(g, slot, &part);
        part.add = true;
    }
}

static void sum_range(void *context, int64_t begin, int64_t end)
{
    const struct sums *sums = context;
    const struct td_gemm_call *apart = sums->apart;
    const int64_t length = apart->blocking->k_piece;
    const int number = td_workspace_acquire(apart->workspace);
    void *slot = td_workspace_scratch(apart->workspace, number);
    for (int64_t i = begin; i < end; i++) {
        const int64_t which = i / sums->pieces, piece = i % sums->pieces;
        struct td_gemm_item item = td_gemm_item_at(sums->g, sums->first_item + which);
        item.c = sum_at(sums, which, piece);
        sum_piece(apart, slot, &item, piece * length,
                  td_smaller(apart->p->k.size, (piece + 1) * length));
    }
    td_workspace_release(apart->workspace, number);
}

/* to[i] += from[i] for n reals. */
static void add_reals(void *to, const void *from, int64_t n, td_gemm_real real)
{
#define ADD(type)                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((type *)to)[i] += ((const type *)from)[i];
    switch (real) {
    case TD_GEMM_F64:
        ADD(double)
        break;
    case TD_GEMM_U32:
        ADD(uint32_t)
        break;
    case TD_GEMM_U64:
        ADD(uint64_t)
        break;
    default: /* of bfloat16, too, sums are float32 */
        ADD(float)
    }
#undef ADD
}

static void add_range(void *context, int64_t begin, int64_t end)
{
    const struct sums *sums = context;
    const struct td_gemm_call *g = sums->g;
    const struct td_gemm_product *p = g->p;
    const int64_t m = p->m.size, n = p->n.size;
    const int number = td_workspace_acquire(g->workspace);
    struct td_gemm_scratch *scratch =
        td_gemm_slot_scratch(td_workspace_scratch(g->workspace, number));
    td_gemm_offsets(&p->m, TD_C, 0, m, scratch->m_c);
    for (int64_t i = begin; i < end; i++) {
        char *sum = sum_at(sums, i, 0);
        for (int64_t piece = 1; piece < sums->pieces; piece++)
            add_reals(sum, sum_at(sums, i, piece), m * n * p->parts, p->real);
        char *c = td_gemm_item_at(g, sums->first_item + i).c;
        for (int64_t row = 0; row < m; row++)
            td_gemm_store_row(g, scratch, c + scratch->m_c[row] * p->size[TD_C],
                              sum + row * (sums->bytes / m), 0, n);
    }
    td_workspace_release(g->workspace, number);
}

td_status td_gemm_run_long_k(const struct td_gemm_call *g, struct td_exec *exec,
                             struct td_error *err)
{
    const struct td_gemm_blocking *blocking = g->blocking;
    struct td_gemm_product product = *g->p;
    put_apart(&product);
    struct td_gemm_call apart = *g;
    apart.p = &product;
    apart.c_in_place = true;
    struct sums sums = {
        .g = g,
        .apart = &apart,
        .pieces = td_gemm_pieces(blocking, g->p),
        .bytes = td_gemm_sum_bytes(g->p),
    };
    const double piece_ns = g->p->item_ns / (double)sums.pieces;
    /* An addition in about a nanosecond. */
    const double add_ns = (double)(g->p->m.size * g->p->n.size * sums.pieces);
    for (int64_t i = 0; i < g->p->batch.size; i += blocking->items) {
        sums.first_item = i;
        sums.items = td_smaller(blocking->items, g->p->batch.size - i);
        const int64_t count = sums.items * sums.pieces;
        td_status status =
            td_exec_for(exec, count, td_gemm_grain(count, piece_ns), sum_range, &sums, err);
        if (status == TD_OK)
            status = td_exec_for(exec, sums.items, td_gemm_grain(sums.items, add_ns), add_range,
                                 &sums, err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}
