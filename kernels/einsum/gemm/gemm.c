#include "kernels/einsum/gemm/gemm.h"

#include "kernels/convert/convert.h"
#include "kernels/einsum/gemm/blocking.h"
#include "kernels/einsum/gemm/call.h"
#include "kernels/einsum/gemm/gemm_isa.h"
#include "kernels/einsum/gemm/product.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* Below 4 rows or columns a tile is mostly empty, and below 2 products there is nothing to sum. */
#define MIN_SIDE 4
#define MIN_K    2

bool td_gemm_suits(const struct td_contraction *contraction)
{
    struct td_gemm_product p;
    return contraction->has_b && contraction->dtype[TD_A] != TD_DTYPE_BOOL &&
           contraction->dtype[TD_A] != TD_DTYPE_STRING && td_gemm_product_split(&p, contraction) &&
           p.m.size >= MIN_SIDE && p.n.size >= MIN_SIDE && p.k.size >= MIN_K;
}

struct td_workspace_size td_gemm_workspace(const struct td_contraction *contraction)
{
    struct td_gemm_product p;
    struct td_gemm_blocking blocking;
    td_gemm_product_make(&p, contraction);
    td_gemm_blocking_make(&blocking, &p);
    return td_gemm_blocking_need(&blocking, &p);
}

static const struct td_gemm_isa *kernels_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_gemm_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_gemm_avx2;
#else
    (void)isa;
#endif
    return &td_gemm_generic;
}

static void choose_kernels(struct td_gemm_call *g, td_isa isa)
{
    const struct td_gemm_product *p = g->p;
    g->isa = kernels_of(isa);
#ifdef __x86_64__
    /* Otherwise the same sums by vectors of half the length, of which twice as many go through at a
     * time. */
    if (p->real == TD_GEMM_BF16)
        g->isa = &td_gemm_avx512_bf16;
    else if (isa >= TD_ISA_AVX512 &&
             p->n.size * p->parts <= td_gemm_avx512_short.tiles[p->real]->lanes)
        g->isa = &td_gemm_avx512_short;
#endif
    g->tiles = g->isa->tiles[p->real];
    g->panel = (int64_t)g->tiles->lanes * TD_GEMM_VECTORS / p->parts;
    for (int i = TD_A; i <= TD_B; i++)
        g->widen[i] = p->native[i] ? NULL : td_widen(p->dtype[i], isa);
    g->narrow = p->native[TD_C] ? NULL : td_narrow(p->dtype[TD_C], isa);
}

/* A and B are used where they lie when that costs less than to pack them: while they stay in the
 * second cache, and their lines do not all fall on the same few places of the first one, as at
 * strides that are multiples of 4096 bytes (float32 on Zen 4, GFLOP/s packed and in place: 192^3,
 * 98 and 106; 384^3, 96 and 105; 512^3, 99 and 91); and when they are used so few times that
 * packing would cost as much as the product. */
#define IN_PLACE_BYTES ((int64_t)1300 << 10)
#define CACHE_STRIDE   4096
#define CACHE_WAYS     8
#define FEW_USES       32

/* `side` is the operand's dimension beside k; each number is used `uses` times, and `rows` of them
 * are read in turn. */
static bool stays_in_place(const struct td_gemm_dimension *side, const struct td_gemm_dimension *k,
                           int operand, const struct td_gemm_product *p, int64_t uses, int64_t rows)
{
    if (!p->native[operand] || p->depth > 1 || !side->affine[operand] || !k->affine[operand])
        return false;
    const int64_t stride = td_larger(side->step[operand], k->step[operand]) * p->size[operand];
    const int64_t used = side->size * k->size * p->size[operand];
    return (used <= IN_PLACE_BYTES || uses <= FEW_USES) &&
           (stride % CACHE_STRIDE != 0 || rows <= CACHE_WAYS);
}

static bool a_stays_in_place(const struct td_gemm_product *p, int64_t most_rows)
{
    const int64_t rows = td_ceil_div(p->m.size, td_ceil_div(p->m.size, most_rows));
    return (p->parts == 1 || p->k.step[TD_A] == 1) &&
           stays_in_place(&p->m, &p->k, TD_A, p, p->n.size, rows);
}

/* Where few columns use A, tiles of fewer rows cost less than packing it does: 1024 x 16 x 1024 in
 * float32 takes 297 us so, and 455 us packed. */
static void choose_rows(struct td_gemm_call *g)
{
    const struct td_gemm_product *p = g->p;
    g->rows = g->tiles->rows;
    g->a_in_place = a_stays_in_place(p, g->rows);
    if (!g->a_in_place && p->n.size <= FEW_USES && a_stays_in_place(p, CACHE_WAYS)) {
        g->rows = td_smaller(g->rows, CACHE_WAYS);
        g->a_in_place = true;
    }
}

static void choose_places(struct td_gemm_call *g)
{
    const struct td_gemm_product *p = g->p;
    choose_rows(g);
    g->most_rows = TD_GEMM_BLOCK_ROWS / g->rows * g->rows;
    /* Rows of B that only a few tiles use need not stay in any cache. */
    g->b_in_place =
        stays_in_place(&p->n, &p->k, TD_B, p, p->m.size, p->m.size <= FEW_USES ? 1 : p->k.size) &&
        p->parts == 1 && p->n.step[TD_B] == 1 &&
        (g->isa->masks || p->n.size % g->tiles->lanes == 0);
    g->c_in_place =
        p->native[TD_C] && p->m.affine[TD_C] && p->n.affine[TD_C] && p->n.step[TD_C] == 1;
}

td_status td_gemm_run(const struct td_contraction *contraction, const void *a, const void *b,
                      void *c, struct td_workspace *workspace, struct td_exec *exec,
                      struct td_error *err)
{
    struct td_gemm_product p;
    struct td_gemm_blocking blocking;
    td_gemm_product_make(&p, contraction);
    td_gemm_blocking_make(&blocking, &p);
    const td_isa isa = td_isa_resolve(exec->isa);
    if (isa >= TD_ISA_AVX512_BF16 && p.dtype[TD_A] == TD_DTYPE_BFLOAT16 &&
        p.dtype[TD_B] == TD_DTYPE_BFLOAT16)
        td_gemm_product_use_pairs(&p);
    struct td_gemm_call g = {
        .p = &p,
        .blocking = &blocking,
        .a = p.operand[TD_A] == TD_A ? a : b,
        .b = p.operand[TD_B] == TD_B ? b : a,
        .c = c,
        .workspace = workspace,
    };
    choose_kernels(&g, isa);
    choose_places(&g);
    if (blocking.k_piece > 0)
        return td_gemm_run_long_k(&g, exec, err);
    if (blocking.items == 0 || (blocking.own_b && p.item_ns <= TD_GEMM_LONGEST_NS / 2 &&
                                p.batch.size >= 4LL * exec->width))
        return td_gemm_run_items(&g, exec, err);
    return td_gemm_run_shared(&g, exec, err);
}
