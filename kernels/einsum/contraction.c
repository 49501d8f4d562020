#include "kernels/einsum/contraction.h"

#include "kernels/einsum/gemm/gemm.h"
#include "kernels/einsum/sumprod/sumprod.h"
#include "kernels/permute/permute.h"

#include <assert.h>

/* True if x is ordered before y: by descending stride of C, then of A, then of B. */
static bool is_before(const struct td_loop *x, const struct td_loop *y)
{
    if (x->stride[TD_C] != y->stride[TD_C])
        return x->stride[TD_C] > y->stride[TD_C];
    if (x->stride[TD_A] != y->stride[TD_A])
        return x->stride[TD_A] > y->stride[TD_A];
    return x->stride[TD_B] > y->stride[TD_B];
}

/* Insertion sort, because there are few loops and most are already in order. */
static void sort_loops(struct td_loop *loops, int rank)
{
    for (int i = 1; i < rank; i++) {
        const struct td_loop loop = loops[i];
        int place = i;
        for (; place > 0 && is_before(&loop, &loops[place - 1]); place--)
            loops[place] = loops[place - 1];
        loops[place] = loop;
    }
}

/* True if the two loops form one contiguous loop in every operand. */
static bool can_fuse(const struct td_loop *outer, const struct td_loop *inner)
{
    for (int operand = TD_A; operand <= TD_C; operand++)
        if (outer->stride[operand] != inner->stride[operand] * inner->extent)
            return false;
    return true;
}

static int fuse_loops(struct td_loop *loops, int rank)
{
    int kept = 0;
    for (int i = 1; i < rank; i++) {
        if (can_fuse(&loops[kept], &loops[i])) {
            const int64_t extent = loops[kept].extent * loops[i].extent;
            loops[kept] = loops[i];
            loops[kept].extent = extent;
        } else {
            loops[++kept] = loops[i];
        }
    }
    return rank > 0 ? kept + 1 : 0;
}

static bool has_sums(const struct td_contraction *contraction)
{
    const struct td_loop *last = &contraction->loops[contraction->rank - 1];
    return last->extent > 1 && last->stride[TD_C] == 0;
}

static td_contraction_kind kind_of(const struct td_contraction *contraction)
{
    if (contraction->has_b)
        return td_gemm_suits(contraction) ? TD_CONTRACT_GEMM : TD_CONTRACT_SUMPROD;
    return has_sums(contraction) || contraction->dtype[TD_A] != contraction->dtype[TD_C]
               ? TD_CONTRACT_SUMPROD
               : TD_CONTRACT_PERMUTE;
}

void td_contraction_simplify(struct td_contraction *contraction)
{
    struct td_loop *loops = contraction->loops;
    int rank = 0;
    for (int i = 0; i < contraction->rank; i++)
        if (loops[i].extent != 1)
            loops[rank++] = loops[i];
    sort_loops(loops, rank);
    rank = fuse_loops(loops, rank);
    if (rank == 0)
        loops[rank++] = (struct td_loop){ .extent = 1 };
    contraction->rank = rank;
    contraction->kind = kind_of(contraction);
}

struct td_workspace_size td_contraction_workspace(const struct td_contraction *contraction)
{
    switch (contraction->kind) {
    case TD_CONTRACT_PERMUTE:
        break;
    case TD_CONTRACT_SUMPROD:
        return td_sumprod_workspace(contraction);
    case TD_CONTRACT_GEMM:
        return td_gemm_workspace(contraction);
    }
    return (struct td_workspace_size){ 0 };
}

struct td_gemm_sizes td_contraction_gemm_sizes(const struct td_contraction *contraction)
{
    struct td_gemm_sizes sizes = { .batch = 1, .m = 1, .n = 1, .k = 1 };
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        if (loop->stride[TD_C] == 0)
            sizes.k *= loop->extent;
        else if (loop->stride[TD_B] == 0)
            sizes.m *= loop->extent;
        else if (loop->stride[TD_A] == 0)
            sizes.n *= loop->extent;
        else
            sizes.batch *= loop->extent;
    }
    return sizes;
}

static td_status permute(const struct td_contraction *contraction, const void *a, void *c,
                         struct td_exec *exec, struct td_error *err)
{
    struct td_permute_loop loops[TD_MAX_LOOPS];
    assert(contraction->dtype[TD_A] == contraction->dtype[TD_C] && !contraction->has_b);
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        loops[i] = (struct td_permute_loop){ .extent = loop->extent,
                                             .a = loop->stride[TD_A],
                                             .c = loop->stride[TD_C] };
    }
    return td_permute_run(loops, contraction->rank, td_dtype_info(contraction->dtype[TD_A])->size,
                          a, c, exec, err);
}

td_status td_contraction_run(const struct td_contraction *contraction, const void *a, const void *b,
                             void *c, struct td_workspace *workspace, struct td_exec *exec,
                             struct td_error *err)
{
    switch (contraction->kind) {
    case TD_CONTRACT_PERMUTE:
        return permute(contraction, a, c, exec, err);
    case TD_CONTRACT_SUMPROD:
        return td_sumprod_run(contraction, a, b, c, workspace, exec, err);
    case TD_CONTRACT_GEMM:
        return td_gemm_run(contraction, a, b, c, workspace, exec, err);
    }
    return td_error_set(err, TD_INTERNAL, "a contraction of unknown kind %d", contraction->kind);
}
