#include "kernels/einsum/gemm/product.h"

#include "kernels/convert/convert.h"

#include <assert.h>

static void dimension_add(struct td_gemm_dimension *to, const struct td_loop *loop)
{
    to->size *= loop->extent;
    to->extent[to->rank] = loop->extent;
    for (int i = TD_A; i <= TD_C; i++)
        to->stride[i][to->rank] = loop->stride[i];
    to->rank++;
}

static void dimension_finish(struct td_gemm_dimension *dimension)
{
    const int last = dimension->rank - 1;
    for (int i = TD_A; i <= TD_C; i++) {
        dimension->affine[i] = true;
        dimension->step[i] = last < 0 ? 1 : dimension->stride[i][last];
        for (int l = last; l > 0; l--)
            if (dimension->stride[i][l - 1] != dimension->stride[i][l] * dimension->extent[l])
                dimension->affine[i] = false;
    }
}

void td_gemm_fill_offsets(const struct td_gemm_dimension *dimension, int operand, int64_t begin,
                          int64_t n, int64_t *offsets)
{
    if (dimension->affine[operand]) {
        const int64_t step = dimension->step[operand];
        for (int64_t i = 0; i < n; i++)
            offsets[i] = (begin + i) * step;
        return;
    }
    const int last = dimension->rank - 1;
    const int64_t *extent = dimension->extent, *stride = dimension->stride[operand];
    int64_t position[TD_MAX_LOOPS], offset = 0;
    for (int l = last; l >= 0; l--) {
        position[l] = begin % extent[l];
        begin /= extent[l];
        offset += position[l] * stride[l];
    }
    for (int64_t i = 0; i < n;) {
        for (; position[last] < extent[last] && i < n; position[last]++, i++) {
            offsets[i] = offset;
            offset += stride[last];
        }
        for (int l = last; l > 0 && position[l] == extent[l]; l--) {
            offset += stride[l - 1] - extent[l] * stride[l];
            position[l] = 0;
            position[l - 1]++;
        }
    }
}

static bool is_contiguous(const struct td_gemm_dimension *dimension, int operand)
{
    return dimension->rank == 0 || dimension->stride[operand][dimension->rank - 1] == 1;
}

/* True if the columns n of the operand are transposed at a cost that matters: the operand is large
 * and only a few rows use it, so transposing takes as long as the product. */
static bool transposes(const struct td_gemm_dimension *n, const struct td_gemm_dimension *m,
                       int64_t k, td_dtype dtype, int operand)
{
    enum { FEW_ROWS = 16, LARGE = 256 << 10 };
    const double bytes = (double)n->size * (double)k * (double)td_dtype_info(dtype)->size;
    return m->size <= FEW_ROWS && bytes >= LARGE && td_compute_is_native(dtype) &&
           !is_contiguous(n, operand);
}

/* Returns the cost of vectors along n, in vector operations. Partial vectors count as whole
 * vectors, and results that are not contiguous in C are stored one by one. The columns n are in an
 * operand of the contraction with this dtype. */
static double vector_cost(const struct td_gemm_dimension *n, const struct td_gemm_dimension *m,
                          int64_t k, int64_t lanes, td_dtype dtype, int operand)
{
    const double vectors = (double)m->size * (double)td_ceil_div(n->size, lanes);
    return vectors * (double)k + (is_contiguous(n, TD_C) ? 0 : (double)m->size * (double)n->size) +
           (transposes(n, m, k, dtype, operand) ? 0.5 * (double)n->size * (double)k : 0);
}

static void swap_m_n(struct td_gemm_product *p)
{
    const struct td_gemm_dimension m = p->m;
    p->m = p->n;
    p->n = m;
    p->operand[TD_A] = TD_B;
    p->operand[TD_B] = TD_A;
    struct td_gemm_dimension *all[] = { &p->batch, &p->m, &p->n, &p->k };
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < all[i]->rank; l++) {
            const int64_t a = all[i]->stride[TD_A][l];
            all[i]->stride[TD_A][l] = all[i]->stride[TD_B][l];
            all[i]->stride[TD_B][l] = a;
        }
}

bool td_gemm_product_split(struct td_gemm_product *p, const struct td_contraction *contraction)
{
    struct td_gemm_dimension *all[] = { &p->batch, &p->m, &p->n, &p->k };
    for (int i = 0; i < 4; i++) {
        all[i]->rank = 0;
        all[i]->size = 1;
    }
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        const bool a = loop->stride[TD_A] != 0, b = loop->stride[TD_B] != 0,
                   c = loop->stride[TD_C] != 0;
        if (loop->extent == 1)
            continue;
        if (a && b)
            dimension_add(c ? &p->batch : &p->k, loop);
        else if (c && (a || b))
            dimension_add(a ? &p->m : &p->n, loop);
        else
            return false;
    }
    return true;
}

/* Products of reals per nanosecond on one thread, indexed by td_gemm_real. These approximate rates
 * of AVX2 and AVX-512 affect how work is split across threads, but not the results. */
static const double rates[TD_GEMM_REAL_COUNT] = { 45, 22, 20, 6, 90 };

static void outer_loops_to_batch(struct td_gemm_dimension *batch,
                                 struct td_gemm_dimension *dimension)
{
    const int last = dimension->rank - 1;
    if (last <= 0)
        return;
    for (int l = 0; l < last; l++) {
        const struct td_loop loop = {
            .extent = dimension->extent[l],
            .stride = { dimension->stride[TD_A][l], dimension->stride[TD_B][l],
                        dimension->stride[TD_C][l] },
        };
        dimension_add(batch, &loop);
    }
    const struct td_loop rest = {
        .extent = dimension->extent[last],
        .stride = { dimension->stride[TD_A][last], dimension->stride[TD_B][last],
                    dimension->stride[TD_C][last] },
    };
    dimension->rank = 0;
    dimension->size = 1;
    dimension_add(dimension, &rest);
}

/* Turns the outer loops of m and n into loops of the batch if the inner loops are long enough, so
 * tiles are stored directly to C. With a long k, the additional packing would cost more than it
 * saves. */
static void split_outer_loops(struct td_gemm_product *p)
{
    enum { MIN_EXTENT = 48, LONG_K = 256 };
    const struct td_gemm_dimension *m = &p->m, *n = &p->n;
    const bool single = m->rank < 2 && n->rank < 2;
    if (single || m->rank == 0 || n->rank == 0 || p->k.size >= LONG_K ||
        m->extent[m->rank - 1] < MIN_EXTENT || n->extent[n->rank - 1] < MIN_EXTENT)
        return;
    outer_loops_to_batch(&p->batch, &p->m);
    outer_loops_to_batch(&p->batch, &p->n);
}

void td_gemm_product_make(struct td_gemm_product *p, const struct td_contraction *contraction)
{
    static const struct {
        td_gemm_real real;
        int components, size;
    } types[TD_COMPUTE_COUNT] = {
        [TD_COMPUTE_F32] = { TD_GEMM_F32, 1, 4 }, [TD_COMPUTE_F64] = { TD_GEMM_F64, 1, 8 },
        [TD_COMPUTE_U32] = { TD_GEMM_U32, 1, 4 }, [TD_COMPUTE_U64] = { TD_GEMM_U64, 1, 8 },
        [TD_COMPUTE_C64] = { TD_GEMM_F32, 2, 4 }, [TD_COMPUTE_C128] = { TD_GEMM_F64, 2, 8 },
    };
    const bool is_product = td_gemm_product_split(p, contraction);
    assert(is_product);
    (void)is_product;
    const td_compute compute = td_compute_of(contraction->dtype[TD_A]);
    p->real = types[compute].real;
    p->components = types[compute].components;
    p->real_size = types[compute].size;
    p->kr = 1;
    for (int i = TD_A; i <= TD_C; i++)
        p->operand[i] = i;
    const int64_t lanes =
        TD_GEMM_TILE_ROW_BYTES / TD_GEMM_TILE_VECTORS / (p->real_size * p->components);
    if (vector_cost(&p->m, &p->n, p->k.size, lanes, contraction->dtype[TD_A], TD_A) <
        vector_cost(&p->n, &p->m, p->k.size, lanes, contraction->dtype[TD_B], TD_B))
        swap_m_n(p);
    split_outer_loops(p);
    for (int i = TD_A; i <= TD_C; i++) {
        p->dtype[i] = contraction->dtype[p->operand[i]];
        p->native[i] = td_compute_is_native(p->dtype[i]);
        p->size[i] = (int64_t)td_dtype_info(p->dtype[i])->size;
    }
    dimension_finish(&p->batch);
    dimension_finish(&p->m);
    dimension_finish(&p->n);
    dimension_finish(&p->k);
    p->product_ns = (double)p->m.size * (double)p->n.size * (double)p->k.size *
                    (double)(p->components * p->components) / rates[p->real];
}

void td_gemm_product_use_bf16(struct td_gemm_product *p)
{
    p->product_ns *= rates[p->real] / rates[TD_GEMM_BF16];
    p->real = TD_GEMM_BF16;
    p->kr = 2;
    p->native[TD_A] = p->native[TD_B] = true;
}
