#include "kernels/einsum/gemm/macrokernel.h"
#include "kernels/einsum/gemm/pack.h"
#include "kernels/einsum/gemm/strategies.h"
#include "kernels/integers.h"

/* A pass over `products` products of the batch. The shared workspace holds one matrix of partial
 * sums for each range of k of each product. */
struct pass {
    const struct td_gemm_context *g;       /* the product */
    const struct td_gemm_context *partial; /* the product with C in the workspace */
    int64_t first_product, products, ranges;
    int64_t bytes; /* size in bytes of a matrix of partial sums */
};

static char *partial_at(const struct pass *pass, int64_t product, int64_t range)
{
    return pass->g->workspace->shared + (product * pass->ranges + range) * pass->bytes;
}

/* Makes C a row-major matrix of the compute type. */
static void use_partial_c(struct td_gemm_product *p)
{
    p->native[TD_C] = true;
    p->size[TD_C] = p->real_size * p->components;
    p->m.affine[TD_C] = p->n.affine[TD_C] = true;
    p->m.step[TD_C] = p->n.size;
    p->n.step[TD_C] = 1;
}

/* Sums one product over k in [k, end). */
static void sum_k_range(const struct td_gemm_context *g, struct td_gemm_scratch *scratch,
                        const struct td_gemm_operands *product, int64_t k, int64_t end)
{
    const struct td_gemm_product *p = g->p;
    struct td_gemm_packed_b packed = { .data = td_gemm_thread_b(p, scratch),
                                       .panels = td_ceil_div(p->n.size, g->nr) };
    struct td_gemm_block block = { .a = product->a,
                                   .b = product->b,
                                   .c = product->c,
                                   .m = p->m.size,
                                   .n = p->n.size,
                                   .packed = &packed };
    for (; k < end; k += block.k) {
        block.k0 = packed.k0 = k;
        block.k = td_smaller(g->blocking->kc, end - k);
        if (!g->b_in_place)
            td_gemm_pack_b(g, scratch, product->b, &packed, k, block.k, 0, p->n.size);
        td_gemm_macrokernel(g, scratch, &block);
        block.accumulate = true;
    }
}

static void sum_k_ranges(void *context, int64_t begin, int64_t end)
{
    const struct pass *pass = context;
    const struct td_gemm_context *partial = pass->partial;
    const int64_t length = partial->blocking->k_range;
    const int thread = td_workspace_acquire(partial->workspace);
    struct td_gemm_scratch *scratch = td_workspace_scratch(partial->workspace, thread);
    for (int64_t i = begin; i < end; i++) {
        const int64_t product = i / pass->ranges, range = i % pass->ranges;
        struct td_gemm_operands operands =
            td_gemm_operands_at(pass->g, pass->first_product + product);
        operands.c = partial_at(pass, product, range);
        sum_k_range(partial, scratch, &operands, range * length,
                    td_smaller(partial->p->k.size, (range + 1) * length));
    }
    td_workspace_release(partial->workspace, thread);
}

/* Adds n reals: to[i] += from[i]. */
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
    default: /* the sums of TD_GEMM_BF16 are also float32 */
        ADD(float)
    }
#undef ADD
}

static void add_partials(void *context, int64_t begin, int64_t end)
{
    const struct pass *pass = context;
    const struct td_gemm_context *g = pass->g;
    const struct td_gemm_product *p = g->p;
    const int64_t m = p->m.size, n = p->n.size;
    const int thread = td_workspace_acquire(g->workspace);
    struct td_gemm_scratch *scratch = td_workspace_scratch(g->workspace, thread);
    td_gemm_fill_offsets(&p->m, TD_C, 0, m, scratch->m_c);
    for (int64_t i = begin; i < end; i++) {
        char *sum = partial_at(pass, i, 0);
        for (int64_t range = 1; range < pass->ranges; range++)
            add_reals(sum, partial_at(pass, i, range), m * n * p->components, p->real);
        char *c = td_gemm_operands_at(g, pass->first_product + i).c;
        for (int64_t row = 0; row < m; row++)
            td_gemm_store_row(g, scratch, c + scratch->m_c[row] * p->size[TD_C],
                              sum + row * (pass->bytes / m), 0, n);
    }
    td_workspace_release(g->workspace, thread);
}

td_status td_gemm_run_split_k(const struct td_gemm_context *g, struct td_exec *exec,
                              struct td_error *err)
{
    const struct td_gemm_blocking *blocking = g->blocking;
    struct td_gemm_product product = *g->p;
    use_partial_c(&product);
    struct td_gemm_context partial = *g;
    partial.p = &product;
    partial.c_in_place = true;
    struct pass pass = {
        .g = g,
        .partial = &partial,
        .ranges = td_gemm_k_ranges(blocking, g->p),
        .bytes = td_gemm_partial_bytes(g->p),
    };
    const double range_ns = g->p->product_ns / (double)pass.ranges;
    /* An addition takes about a nanosecond. */
    const double add_ns = (double)(g->p->m.size * g->p->n.size * pass.ranges);
    for (int64_t i = 0; i < g->p->batch.size; i += blocking->batch_block) {
        pass.first_product = i;
        pass.products = td_smaller(blocking->batch_block, g->p->batch.size - i);
        const int64_t count = pass.products * pass.ranges;
        td_status status =
            td_exec_for(exec, count, td_gemm_grain(count, range_ns), sum_k_ranges, &pass, err);
        if (status == TD_OK)
            status = td_exec_for(exec, pass.products, td_gemm_grain(pass.products, add_ns),
                                 add_partials, &pass, err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}
