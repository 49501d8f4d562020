#include "gpu/cuda/ops/gemm_plan.h"

#include "gpu/cuda/runtime/device.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

/* Dimensions of each operand's matrix: M x K, K x N, M x N. */
static const int matrix_dimensions[3][2] = {
    [TD_A] = { TD_CUDA_M, TD_CUDA_K },
    [TD_B] = { TD_CUDA_K, TD_CUDA_N },
    [TD_C] = { TD_CUDA_M, TD_CUDA_N },
};

/* Maximum number of calls for a product. More calls would cost more than packing the operands. */
#define MAX_CALLS 16

/* ---- Operands that need no packing ------------------------------------------------------- */

/* True if the loops of a dimension collapse to one stride in this operand, which is the stride of
 * the last loop. If there are no loops, the extent is 1 and the stride is arbitrary. */
static bool collapses(const struct td_gemm_dimension *dimension, int operand, int64_t *stride)
{
    const int64_t *strides = dimension->stride[operand];
    *stride = dimension->rank == 0 ? 0 : strides[dimension->rank - 1];
    for (int l = dimension->rank - 1; l > 0; l--)
        if (strides[l - 1] != strides[l] * dimension->extent[l])
            return false;
    return true;
}

bool td_cuda_gemm_is_contiguous(const struct td_cuda_gemm_plan *plan, int operand, int inner,
                                int outer)
{
    const int64_t *stride = plan->stride[operand];
    const int64_t n_inner = plan->dimension[inner]->size, n_outer = plan->dimension[outer]->size;
    return (n_inner == 1 || stride[inner] == 1) && (n_outer == 1 || stride[outer] >= n_inner);
}

static bool is_matrix(struct td_cuda_gemm_plan *plan, int operand)
{
    const int first = matrix_dimensions[operand][0], second = matrix_dimensions[operand][1];
    return collapses(plan->dimension[first], operand, &plan->stride[operand][first]) &&
           collapses(plan->dimension[second], operand, &plan->stride[operand][second]) &&
           (td_cuda_gemm_is_contiguous(plan, operand, second, first) ||
            td_cuda_gemm_is_contiguous(plan, operand, first, second));
}

static bool batch_collapses(const struct td_cuda_gemm_plan *plan, int operand)
{
    int64_t stride;
    return plan->packed[operand] || collapses(plan->dimension[TD_CUDA_BATCH], operand, &stride);
}

/* Chooses the dtypes of the product. Operands of the same dtype are multiplied in that dtype, other
 * operands in float32. The result has the given dtype if both factors have it. Otherwise, the
 * result is float32 and is converted afterwards. */
static void choose_dtypes(struct td_cuda_gemm_plan *plan, const struct td_contraction *contraction)
{
    memcpy(plan->given, contraction->dtype, sizeof(plan->given));
    memcpy(plan->dtype, contraction->dtype, sizeof(plan->dtype));
    if (plan->dtype[TD_A] != plan->dtype[TD_B])
        plan->dtype[TD_A] = plan->dtype[TD_B] = TD_DTYPE_FLOAT32;
    if (plan->dtype[TD_C] != plan->dtype[TD_A])
        plan->dtype[TD_C] = TD_DTYPE_FLOAT32;
}

/* ---- Packing ----------------------------------------------------------------------------- */

/* Fills the loops that copy between an operand as given and its packed form, which is operand
 * `packed_side` of the copy. A packed operand is row-major: first the batch, then the matrix.
 * Returns the number of loops. */
static int packing_loops(const struct td_cuda_gemm_plan *plan, int operand, int packed_side,
                         struct td_loop *loops)
{
    const int order[] = { TD_CUDA_BATCH, matrix_dimensions[operand][0],
                          matrix_dimensions[operand][1] };
    int n = 0;
    int64_t step = 1;
    for (int d = 2; d >= 0; d--) {
        const struct td_gemm_dimension *dimension = plan->dimension[order[d]];
        for (int l = dimension->rank - 1; l >= 0; l--) {
            loops[n] = (struct td_loop){ .extent = dimension->extent[l] };
            loops[n].stride[packed_side] = step;
            loops[n++].stride[packed_side == TD_A ? TD_C : TD_A] = dimension->stride[operand][l];
            step *= dimension->extent[l];
        }
    }
    if (n == 0)
        loops[n++] = (struct td_loop){ .extent = 1 };
    return n;
}

void td_cuda_gemm_pack(const struct td_cuda_gemm_plan *plan, int operand,
                       struct td_loop loops[TD_MAX_LOOPS], struct td_contraction *copy)
{
    const bool unpacks = operand == TD_C;
    const td_dtype from = unpacks ? plan->dtype[operand] : plan->given[operand];
    const td_dtype to = unpacks ? plan->given[operand] : plan->dtype[operand];
    *copy = (struct td_contraction){
        .dtype = { from, from, to },
        .rank = packing_loops(plan, operand, unpacks ? TD_A : TD_C, loops),
        .loops = loops,
    };
    td_contraction_simplify(copy);
}

size_t td_cuda_gemm_packed_bytes(const struct td_cuda_gemm_plan *plan, int operand)
{
    return plan->packed[operand] ? td_cuda_align_up((size_t)plan->numel[operand] *
                                                    td_dtype_info(plan->dtype[operand])->size)
                                 : 0;
}

/* Returns false if the number of elements or the size in bytes overflows. */
static bool compute_packed_numel(struct td_cuda_gemm_plan *plan, int operand)
{
    const int *matrix = matrix_dimensions[operand];
    int64_t numel = plan->dimension[TD_CUDA_BATCH]->size;
    return !__builtin_mul_overflow(numel, plan->dimension[matrix[0]]->size, &numel) &&
           !__builtin_mul_overflow(numel, plan->dimension[matrix[1]]->size, &numel) &&
           numel <= INT64_MAX / 16 && (plan->numel[operand] = numel, true);
}

static void set_packed_strides(struct td_cuda_gemm_plan *plan)
{
    for (int i = TD_A; i <= TD_C; i++) {
        if (!plan->packed[i])
            continue;
        plan->stride[i][matrix_dimensions[i][0]] = plan->dimension[matrix_dimensions[i][1]]->size;
        plan->stride[i][matrix_dimensions[i][1]] = 1;
    }
}

/* ---- The batch --------------------------------------------------------------------------- */

static int64_t batch_stride(const struct td_cuda_gemm_plan *plan, int operand, int loop)
{
    const struct td_gemm_dimension *batch = plan->dimension[TD_CUDA_BATCH];
    if (!plan->packed[operand])
        return batch->stride[operand][loop];
    int64_t step = plan->numel[operand] / batch->size; /* distance between consecutive matrices */
    for (int l = batch->rank - 1; l > loop; l--)
        step *= batch->extent[l];
    return step;
}

/* Uses one loop over the whole batch. Requires that the batch collapses in every operand. */
static void use_one_loop(struct td_cuda_gemm_plan *plan)
{
    const struct td_gemm_dimension *batch = plan->dimension[TD_CUDA_BATCH];
    plan->n_loops = 1;
    plan->loops[0] = (struct td_loop){ .extent = batch->size };
    for (int i = TD_A; i <= TD_C && batch->rank > 0; i++)
        plan->loops[0].stride[i] = batch_stride(plan, i, batch->rank - 1);
}

static void append_loop(struct td_cuda_gemm_plan *plan, int l)
{
    struct td_loop *loop = &plan->loops[plan->n_loops++];
    loop->extent = plan->dimension[TD_CUDA_BATCH]->extent[l];
    for (int i = TD_A; i <= TD_C; i++)
        loop->stride[i] = batch_stride(plan, i, l);
}

/* Uses the loops of the batch, with the longest loop last. */
static void use_all_loops(struct td_cuda_gemm_plan *plan, int longest)
{
    plan->n_loops = 0;
    for (int l = 0; l < plan->dimension[TD_CUDA_BATCH]->rank; l++)
        if (l != longest)
            append_loop(plan, l);
    append_loop(plan, longest);
}

static void choose_batch_loops(struct td_cuda_gemm_plan *plan)
{
    const struct td_gemm_dimension *batch = plan->dimension[TD_CUDA_BATCH];
    bool all_collapse = true;
    int longest = 0;
    for (int i = TD_A; i <= TD_C; i++)
        all_collapse = all_collapse && batch_collapses(plan, i);
    for (int l = 1; l < batch->rank; l++)
        if (batch->extent[l] > batch->extent[longest])
            longest = l;
    if (all_collapse) {
        use_one_loop(plan);
        return;
    }
    use_all_loops(plan, longest);
}

/* True if iterating over all batch loops except the longest would take too many calls. */
static bool too_many_calls(const struct td_cuda_gemm_plan *plan)
{
    const struct td_gemm_dimension *batch = plan->dimension[TD_CUDA_BATCH];
    int64_t longest = 1;
    for (int l = 0; l < batch->rank; l++)
        longest = td_larger(longest, batch->extent[l]);
    return batch->size / longest > MAX_CALLS;
}

bool td_cuda_gemm_plan_make(struct td_cuda_gemm_plan *plan,
                            const struct td_contraction *contraction)
{
    bool is_product = td_gemm_product_split(&plan->product, contraction);
    assert(is_product);
    (void)is_product;
    plan->dimension[TD_CUDA_BATCH] = &plan->product.batch;
    plan->dimension[TD_CUDA_M] = &plan->product.m;
    plan->dimension[TD_CUDA_N] = &plan->product.n;
    plan->dimension[TD_CUDA_K] = &plan->product.k;
    memset(plan->stride, 0, sizeof(plan->stride));
    memset(plan->numel, 0, sizeof(plan->numel));
    choose_dtypes(plan, contraction);
    for (int i = TD_A; i <= TD_C; i++)
        plan->packed[i] = plan->given[i] != plan->dtype[i] || !is_matrix(plan, i);
    for (int i = TD_A; i <= TD_C; i++)
        plan->packed[i] = plan->packed[i] || (!batch_collapses(plan, i) && too_many_calls(plan));
    for (int i = TD_A; i <= TD_C; i++)
        if (plan->packed[i] && !compute_packed_numel(plan, i))
            return false;
    set_packed_strides(plan);
    choose_batch_loops(plan);
    return true;
}
