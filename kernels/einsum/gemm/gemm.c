#include "kernels/einsum/gemm/gemm.h"

#include "kernels/convert/convert.h"
#include "kernels/einsum/gemm/blocking.h"
#include "kernels/einsum/gemm/context.h"
#include "kernels/einsum/gemm/kernels.h"
#include "kernels/einsum/gemm/product.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* With fewer than 4 rows or columns, a tile is mostly empty. With k = 1, nothing is summed. */
#define MIN_MN 4
#define MIN_K  2

bool td_gemm_suits(const struct td_contraction *contraction)
{
    struct td_gemm_product p;
    return contraction->has_b && contraction->dtype[TD_A] != TD_DTYPE_BOOL &&
           contraction->dtype[TD_A] != TD_DTYPE_STRING && td_gemm_product_split(&p, contraction) &&
           p.m.size >= MIN_MN && p.n.size >= MIN_MN && p.k.size >= MIN_K;
}

struct td_workspace_size td_gemm_workspace(const struct td_contraction *contraction)
{
    struct td_gemm_product p;
    struct td_gemm_blocking blocking;
    td_gemm_product_make(&p, contraction);
    td_gemm_blocking_make(&blocking, &p);
    return td_gemm_blocking_workspace(&blocking, &p);
}

static const struct td_gemm_kernels *kernels_for(td_isa isa)
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

static void choose_kernels(struct td_gemm_context *g, td_isa isa)
{
    const struct td_gemm_product *p = g->p;
    g->kernels = kernels_for(isa);
#ifdef __x86_64__
    /* Uses vectors of half the length for few columns, because they have twice the throughput and
     * give the same sums. */
    if (p->real == TD_GEMM_BF16)
        g->kernels = &td_gemm_avx512_bf16;
    else if (isa >= TD_ISA_AVX512 &&
             p->n.size * p->components <= td_gemm_avx512_ymm.microkernels[p->real]->lanes)
        g->kernels = &td_gemm_avx512_ymm;
#endif
    g->microkernels = g->kernels->microkernels[p->real];
    g->nr = (int64_t)g->microkernels->lanes * TD_GEMM_TILE_VECTORS / p->components;
    for (int i = TD_A; i <= TD_B; i++)
        g->widen[i] = p->native[i] ? NULL : td_widen(p->dtype[i], isa);
    g->narrow = p->native[TD_C] ? NULL : td_narrow(p->dtype[TD_C], isa);
}

/* A and B are read in place if this costs less than packing. The operand must stay in the L2 cache,
 * or be used so few times that packing would cost as much as the product. Its rows must also not
 * map to only a few sets of a cache. All rows map to the same sets of the L1 cache if the stride is
 * a multiple of 4096 bytes. In an L2 cache of 512 KB, addresses 64 KB apart share a set.
 *
 * In float32 on Zen 4, packed and in place: 192^3 reached 98 and 106 GFLOP/s, 384^3 96 and 105, and
 * 512^3 99 and 91. On Zen 3 with two threads: 256^3 126 and 160, 384^3 172 and 180, and 512^3 155
 * and 130. tests/bench/README.md has the times of 512^3 with a transposed A. */
#define IN_PLACE_BYTES ((int64_t)1300 << 10)
#define L1_SET_STRIDE  4096
#define L2_SET_STRIDE  (64 << 10)
#define CACHE_LINE     64
#define L1_WAYS        8
#define L2_WAYS        8
#define FEW_USES       32

/* Returns the number of rows, `stride` bytes apart, that the L2 cache holds. */
static int64_t rows_in_l2(int64_t stride)
{
    const int64_t distance = td_larger(CACHE_LINE, stride & -stride); /* between sets in use */
    return L2_WAYS * td_larger(1, L2_SET_STRIDE / distance);
}

/* True if the operand should be read in place. `mn` is the operand's dimension other than k. Each
 * element is used `uses` times, and `rows` rows are read in turn. */
static bool use_in_place(const struct td_gemm_dimension *mn, const struct td_gemm_dimension *k,
                         int operand, const struct td_gemm_product *p, int64_t uses, int64_t rows)
{
    if (!p->native[operand] || p->kr > 1 || !mn->affine[operand] || !k->affine[operand])
        return false;
    const int64_t stride = td_larger(mn->step[operand], k->step[operand]) * p->size[operand];
    const int64_t used = mn->size * k->size * p->size[operand];
    return (used <= IN_PLACE_BYTES || uses <= FEW_USES) &&
           (stride % L1_SET_STRIDE != 0 || rows <= L1_WAYS) && rows <= rows_in_l2(stride);
}

static bool use_a_in_place(const struct td_gemm_product *p, int64_t max_rows)
{
    int64_t rows = td_ceil_div(p->m.size, td_ceil_div(p->m.size, max_rows));
    /* A tile reads contiguous elements from each of k.size rows. */
    if (p->k.step[TD_A] > p->m.step[TD_A] && p->n.size > FEW_USES)
        rows = p->k.size;
    return (p->components == 1 || p->k.step[TD_A] == 1) &&
           use_in_place(&p->m, &p->k, TD_A, p, p->n.size, rows);
}

/* Chooses the number of rows of a tile. If few columns use A, tiles with fewer rows cost less than
 * packing A: in float32, 1024 x 16 x 1024 takes 297 us with fewer rows and 455 us with packing. */
static void choose_mr(struct td_gemm_context *g)
{
    const struct td_gemm_product *p = g->p;
    g->mr = g->microkernels->mr;
    g->a_in_place = use_a_in_place(p, g->mr);
    if (!g->a_in_place && p->n.size <= FEW_USES && use_a_in_place(p, L1_WAYS)) {
        g->mr = td_smaller(g->mr, L1_WAYS);
        g->a_in_place = true;
    }
}

static void choose_packing(struct td_gemm_context *g)
{
    const struct td_gemm_product *p = g->p;
    choose_mr(g);
    g->mc = TD_GEMM_MC / g->mr * g->mr;
    /* Rows of B that only a few tiles use do not need to stay in a cache. */
    g->b_in_place =
        use_in_place(&p->n, &p->k, TD_B, p, p->m.size, p->m.size <= FEW_USES ? 1 : p->k.size) &&
        p->components == 1 && p->n.step[TD_B] == 1 &&
        (g->kernels->masks || p->n.size % g->microkernels->lanes == 0);
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
        td_gemm_product_use_bf16(&p);
    struct td_gemm_context g = {
        .p = &p,
        .blocking = &blocking,
        .a = p.operand[TD_A] == TD_A ? a : b,
        .b = p.operand[TD_B] == TD_B ? b : a,
        .c = c,
        .workspace = workspace,
    };
    choose_kernels(&g, isa);
    choose_packing(&g);
    if (blocking.k_range > 0)
        return td_gemm_run_split_k(&g, exec, err);
    if (blocking.batch_block == 0 ||
        (blocking.thread_b_bytes && p.product_ns <= TD_GEMM_MAX_RANGE_NS / 2 &&
         p.batch.size >= 4LL * exec->width))
        return td_gemm_run_batched(&g, exec, err);
    return td_gemm_run_cooperative(&g, exec, err);
}
