#include "gpu/cuda/ops/gemm.h"

#include "gpu/cuda/ops/sumprod.h"
#include "kernels/einsum/gemm/product.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

enum { BATCH, ROWS, COLUMNS, SUMMED, DIMENSIONS };

/* An operand is a batch of matrices: ROWS x SUMMED, SUMMED x COLUMNS, ROWS x COLUMNS. */
static const int sides_of[3][2] = {
    [TD_A] = { ROWS, SUMMED },
    [TD_B] = { SUMMED, COLUMNS },
    [TD_C] = { ROWS, COLUMNS },
};

/* What was decided, from shapes and dtypes alone. */
struct products {
    struct td_gemm_product nest;
    const struct td_gemm_dimension *dimension[DIMENSIONS];
    td_dtype given[3], dtype[3]; /* as the operands are, and as they are multiplied */
    bool copied[3];
    int64_t numel[3];              /* of what is copied */
    int64_t stride[3][DIMENSIONS]; /* of rows, columns and summed */
    /* The batch: the last loop is that of a call, the ones before it are gone through. */
    int n_loops;
    struct td_loop loops[TD_MAX_LOOPS];
};

/* More calls than this are worth a copy of the operands. */
#define MOST_CALLS 16

/* ---- What is multiplied as it lies ------------------------------------------------------- */

/* Are the loops one in this operand? *stride is that of the last; a dimension without loops, of
 * extent 1, is one with any stride. */
static bool folds(const struct td_gemm_dimension *dimension, int operand, int64_t *stride)
{
    const int64_t *strides = dimension->stride[operand];
    *stride = dimension->rank == 0 ? 0 : strides[dimension->rank - 1];
    for (int l = dimension->rank - 1; l > 0; l--)
        if (strides[l - 1] != strides[l] * dimension->extent[l])
            return false;
    return true;
}

/* A matrix whose `inner` moves by 1 has rows of that many elements, and needs them to be no further
 * apart than `outer` says. */
static bool leads(const struct products *p, int operand, int inner, int outer)
{
    const int64_t *stride = p->stride[operand];
    const int64_t n_inner = p->dimension[inner]->size, n_outer = p->dimension[outer]->size;
    return (n_inner == 1 || stride[inner] == 1) && (n_outer == 1 || stride[outer] >= n_inner);
}

static bool is_matrix(struct products *p, int operand)
{
    const int first = sides_of[operand][0], second = sides_of[operand][1];
    return folds(p->dimension[first], operand, &p->stride[operand][first]) &&
           folds(p->dimension[second], operand, &p->stride[operand][second]) &&
           (leads(p, operand, second, first) || leads(p, operand, first, second));
}

static bool batch_folds(const struct products *p, int operand)
{
    int64_t stride;
    return p->copied[operand] || folds(p->dimension[BATCH], operand, &stride);
}

/* Operands of one dtype are multiplied as that, others as what they compute in; a result narrower
 * than that comes out of the same narrow dtype only. */
static void choose_dtypes(struct products *p, const struct td_contraction *contraction)
{
    memcpy(p->given, contraction->dtype, sizeof(p->given));
    memcpy(p->dtype, contraction->dtype, sizeof(p->dtype));
    if (p->dtype[TD_A] != p->dtype[TD_B])
        p->dtype[TD_A] = p->dtype[TD_B] = TD_DTYPE_FLOAT32;
    if (p->dtype[TD_C] != p->dtype[TD_A])
        p->dtype[TD_C] = TD_DTYPE_FLOAT32;
}

/* ---- What is copied ---------------------------------------------------------------------- */

/* A copy lies row-major: the batch, then the matrix. Fills the strides of its loops, by operand
 * `side` of these, and counts them. */
static int copied_loops(const struct products *p, int operand, int side, struct td_loop *loops)
{
    const int order[] = { BATCH, sides_of[operand][0], sides_of[operand][1] };
    int n = 0;
    int64_t step = 1;
    for (int d = 2; d >= 0; d--) {
        const struct td_gemm_dimension *dimension = p->dimension[order[d]];
        for (int l = dimension->rank - 1; l >= 0; l--) {
            loops[n] = (struct td_loop){ .extent = dimension->extent[l] };
            loops[n].stride[side] = step;
            loops[n++].stride[side == TD_A ? TD_C : TD_A] = dimension->stride[operand][l];
            step *= dimension->extent[l];
        }
    }
    if (n == 0)
        loops[n++] = (struct td_loop){ .extent = 1 };
    return n;
}

/* Of operands A and B into their copies, of C out of its own. */
static void copy_nest(const struct products *p, int operand, struct td_loop *loops,
                      struct td_contraction *copy)
{
    const bool out = operand == TD_C;
    const td_dtype from = out ? p->dtype[operand] : p->given[operand];
    const td_dtype to = out ? p->given[operand] : p->dtype[operand];
    *copy = (struct td_contraction){
        .dtype = { from, from, to },
        .rank = copied_loops(p, operand, out ? TD_A : TD_C, loops),
        .loops = loops,
    };
    td_contraction_simplify(copy);
}

static bool copied_numel(struct products *p, int operand)
{
    int64_t numel = p->dimension[BATCH]->size;
    return !__builtin_mul_overflow(numel, p->dimension[sides_of[operand][0]]->size, &numel) &&
           !__builtin_mul_overflow(numel, p->dimension[sides_of[operand][1]]->size, &numel) &&
           numel <= INT64_MAX / 16 && (p->numel[operand] = numel, true);
}

static void use_copies(struct products *p)
{
    for (int i = TD_A; i <= TD_C; i++) {
        if (!p->copied[i])
            continue;
        p->stride[i][sides_of[i][0]] = p->dimension[sides_of[i][1]]->size;
        p->stride[i][sides_of[i][1]] = 1;
    }
}

/* ---- The batch --------------------------------------------------------------------------- */

static int64_t batch_stride(const struct products *p, int operand, int loop)
{
    const struct td_gemm_dimension *batch = p->dimension[BATCH];
    if (!p->copied[operand])
        return batch->stride[operand][loop];
    int64_t step = p->numel[operand] / batch->size; /* of one matrix */
    for (int l = batch->rank - 1; l > loop; l--)
        step *= batch->extent[l];
    return step;
}

/* All of it in one loop, where it folds. */
static void one_loop(struct products *p)
{
    const struct td_gemm_dimension *batch = p->dimension[BATCH];
    p->n_loops = 1;
    p->loops[0] = (struct td_loop){ .extent = batch->size };
    for (int i = TD_A; i <= TD_C && batch->rank > 0; i++)
        p->loops[0].stride[i] = batch_stride(p, i, batch->rank - 1);
}

static void many_loops(struct products *p, int longest)
{
    const struct td_gemm_dimension *batch = p->dimension[BATCH];
    p->n_loops = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int l = 0; l < batch->rank; l++) {
            if ((l == longest) != (turn == 1))
                continue;
            struct td_loop *loop = &p->loops[p->n_loops++];
            loop->extent = batch->extent[l];
            for (int i = TD_A; i <= TD_C; i++)
                loop->stride[i] = batch_stride(p, i, l);
        }
}

static void make_batch(struct products *p)
{
    const struct td_gemm_dimension *batch = p->dimension[BATCH];
    bool one = true;
    int longest = 0;
    for (int i = TD_A; i <= TD_C; i++)
        one = one && batch_folds(p, i);
    for (int l = 1; l < batch->rank; l++)
        if (batch->extent[l] > batch->extent[longest])
            longest = l;
    if (one) {
        one_loop(p);
        return;
    }
    many_loops(p, longest);
}

/* Would going through the loops of the batch be too many calls? */
static bool too_many_calls(const struct products *p)
{
    const struct td_gemm_dimension *batch = p->dimension[BATCH];
    int64_t longest = 1;
    for (int l = 0; l < batch->rank; l++)
        longest = td_larger(longest, batch->extent[l]);
    return batch->size / longest > MOST_CALLS;
}

/* False when there is no number for the bytes. */
static bool decide(struct products *p, const struct td_contraction *contraction)
{
    bool is_product = td_gemm_product_split(&p->nest, contraction);
    assert(is_product);
    (void)is_product;
    p->dimension[BATCH] = &p->nest.batch;
    p->dimension[ROWS] = &p->nest.m;
    p->dimension[COLUMNS] = &p->nest.n;
    p->dimension[SUMMED] = &p->nest.k;
    memset(p->stride, 0, sizeof(p->stride));
    memset(p->numel, 0, sizeof(p->numel));
    choose_dtypes(p, contraction);
    for (int i = TD_A; i <= TD_C; i++)
        p->copied[i] = p->given[i] != p->dtype[i] || !is_matrix(p, i);
    for (int i = TD_A; i <= TD_C; i++)
        p->copied[i] = p->copied[i] || (!batch_folds(p, i) && too_many_calls(p));
    for (int i = TD_A; i <= TD_C; i++)
        if (p->copied[i] && !copied_numel(p, i))
            return false;
    use_copies(p);
    make_batch(p);
    return true;
}

/* ---- Calls of cuBLAS --------------------------------------------------------------------- */

/* What cuBLAS calls the dtype and what it computes in; false for integers. */
static bool blas_types(td_dtype dtype, bool tf32, cudaDataType *type, cublasComputeType_t *compute)
{
    *compute = CUBLAS_COMPUTE_32F;
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        *type = CUDA_R_16F;
        return true;
    case TD_DTYPE_BFLOAT16:
        *type = CUDA_R_16BF;
        return true;
    case TD_DTYPE_FLOAT32:
        *type = CUDA_R_32F;
        *compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
        return true;
    case TD_DTYPE_FLOAT64:
        *type = CUDA_R_64F;
        *compute = CUBLAS_COMPUTE_64F;
        return true;
    case TD_DTYPE_COMPLEX64:
        *type = CUDA_C_32F;
        return true;
    case TD_DTYPE_COMPLEX128:
        *type = CUDA_C_64F;
        *compute = CUBLAS_COMPUTE_64F;
        return true;
    default:
        return false;
    }
}

/* cuBLAS counts by columns. A factor `inner` x `outer` by columns has `inner` moving by 1; it takes
 * the other way round as transposed. */
struct factor {
    int operand;
    cublasOperation_t operation;
    int64_t lead;
};

static int64_t lead_of(const struct products *p, int operand, int inner, int outer)
{
    return p->dimension[outer]->size == 1 ? p->dimension[inner]->size : p->stride[operand][outer];
}

static struct factor factor_of(const struct products *p, int operand, int inner, int outer)
{
    if (leads(p, operand, inner, outer))
        return (struct factor){ operand, CUBLAS_OP_N, lead_of(p, operand, inner, outer) };
    return (struct factor){ operand, CUBLAS_OP_T, lead_of(p, operand, outer, inner) };
}

/* One product or factor after the other of the call, in the terms of cuBLAS: its result has `rows`
 * moving by 1. */
struct call {
    int rows, columns;
    struct factor first, second;
    int64_t lead;
    cudaDataType type[3];
    cublasComputeType_t compute;
};

static void call_make(struct call *call, const struct products *p)
{
    /* C row-major is its transpose by columns: B's transpose times A's. */
    const bool row_major = leads(p, TD_C, COLUMNS, ROWS);
    call->rows = row_major ? COLUMNS : ROWS;
    call->columns = row_major ? ROWS : COLUMNS;
    call->first = factor_of(p, row_major ? TD_B : TD_A, call->rows, SUMMED);
    call->second = factor_of(p, row_major ? TD_A : TD_B, SUMMED, call->columns);
    call->lead = lead_of(p, TD_C, call->rows, call->columns);
}

/* One and zero of every type: the real part comes first. */
static const void *scalar_of(cudaDataType type, int value)
{
    static const float floats[2][2] = { { 0, 0 }, { 1, 0 } };
    static const double doubles[2][2] = { { 0, 0 }, { 1, 0 } };
    return type == CUDA_R_64F || type == CUDA_C_64F ? (const void *)doubles[value]
                                                    : (const void *)floats[value];
}

/* Of a call that cuBLAS did not make: TD_OK where the device goes on, and product.cu is to do it.
 * There are devices on which cuBLAS refuses a product it has on others, which it says only when it
 * is called (bfloat16 into bfloat16, on compute capability 8.6: ggml-org/llama.cpp#24999), and what it
 * cannot load for want of memory it reports as anything. What is wrong with the context the stream
 * knows. */
static td_status blas_failed(struct td_device_stream *stream, cublasStatus_t result,
                             struct td_error *err)
{
    bool done;
    td_status status = td_cuda_poll(stream, &done, err);
    if (status == TD_OK && result == CUBLAS_STATUS_ALLOC_FAILED)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "%s has no memory left for cuBLAS",
                            stream->device->info.name);
    return status;
}

/* Some versions put the batch into a dimension of the grid, which ends here. */
#define MOST_IN_CALL 65535

/* A batch of one, by the function that most programs call and cuBLAS is tuned for. */
static cublasStatus_t call_blas_once(const struct td_device_stream *stream, const struct call *call,
                                     const struct products *p, const char *const place[3])
{
    const int first = call->first.operand, second = call->second.operand;
    return td_cuda_blas()->gemm_one(
        stream->blas, call->first.operation, call->second.operation, p->dimension[call->rows]->size,
        p->dimension[call->columns]->size, p->dimension[SUMMED]->size,
        scalar_of(call->type[TD_A], 1), place[first], call->type[first], call->first.lead,
        place[second], call->type[second], call->second.lead, scalar_of(call->type[TD_A], 0),
        (void *)place[TD_C], call->type[TD_C], call->lead, call->compute, CUBLAS_GEMM_DEFAULT);
}

static cublasStatus_t call_blas(const struct td_device_stream *stream, const struct call *call,
                                const struct products *p, const char *const base[3],
                                const int64_t offset[3])
{
    const struct td_loop *loop = &p->loops[p->n_loops - 1];
    const int first = call->first.operand, second = call->second.operand;
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (int64_t at = 0; at < loop->extent && result == CUBLAS_STATUS_SUCCESS; at += MOST_IN_CALL) {
        const char *place[3];
        for (int i = TD_A; i <= TD_C; i++)
            place[i] = base[i] + (offset[i] + at * loop->stride[i]) *
                                     (int64_t)td_dtype_info(p->dtype[i])->size;
        if (loop->extent == 1)
            return call_blas_once(stream, call, p, place);
        result = td_cuda_blas()->gemm(
            stream->blas, call->first.operation, call->second.operation,
            p->dimension[call->rows]->size, p->dimension[call->columns]->size,
            p->dimension[SUMMED]->size, scalar_of(call->type[TD_A], 1), place[first],
            call->type[first], call->first.lead, loop->stride[first], place[second],
            call->type[second], call->second.lead, loop->stride[second],
            scalar_of(call->type[TD_A], 0), (void *)place[TD_C], call->type[TD_C], call->lead,
            loop->stride[TD_C], td_smaller(loop->extent - at, MOST_IN_CALL), call->compute,
            CUBLAS_GEMM_DEFAULT);
    }
    return result;
}

/* Goes through the loops of the batch but the last. */
static cublasStatus_t multiply_blas(struct td_device_stream *stream, struct call *call,
                                    const struct products *p, const char *const base[3])
{
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    int64_t calls = 1;
    call_make(call, p);
    for (int l = 0; l < p->n_loops - 1; l++)
        calls *= p->loops[l].extent;
    for (int64_t i = 0; i < calls && result == CUBLAS_STATUS_SUCCESS; i++) {
        int64_t offset[3] = { 0 }, rest = i;
        for (int l = p->n_loops - 2; l >= 0; l--) {
            for (int o = TD_A; o <= TD_C; o++)
                offset[o] += rest % p->loops[l].extent * p->loops[l].stride[o];
            rest /= p->loops[l].extent;
        }
        result = call_blas(stream, call, p, base, offset);
    }
    return result;
}

static td_status multiply_own(struct td_device_stream *stream, const struct products *p,
                              const char *const base[3], struct td_error *err)
{
    struct td_cuda_product job;
    memset(&job, 0, sizeof(job));
    job.a = base[TD_A];
    job.b = base[TD_B];
    job.c = (void *)base[TD_C];
    job.compute = td_cuda_compute_of(p->dtype[TD_A]);
    for (int i = TD_A; i <= TD_C; i++)
        job.stored[i] = td_cuda_stored_of(p->dtype[i]);
    job.m = p->dimension[ROWS]->size;
    job.n = p->dimension[COLUMNS]->size;
    job.k = p->dimension[SUMMED]->size;
    job.a_m = p->stride[TD_A][ROWS];
    job.a_k = p->stride[TD_A][SUMMED];
    job.b_k = p->stride[TD_B][SUMMED];
    job.b_n = p->stride[TD_B][COLUMNS];
    job.c_m = p->stride[TD_C][ROWS];
    job.c_n = p->stride[TD_C][COLUMNS];
    job.batch = p->dimension[BATCH]->size;
    job.n_loops = p->n_loops;
    for (int l = 0; l < p->n_loops; l++)
        memcpy(&job.loops[l], &p->loops[l], sizeof(job.loops[l]));
    return td_cuda_check(stream->device, td_cuda_product(&job, stream->stream), "multiply matrices",
                         err);
}

/* Has cuBLAS a product for it? Complex numbers that are aligned to their halves only it would fault
 * on. */
static bool suits_blas(const struct td_device_stream *stream, const struct products *p,
                       const char *const base[3], struct call *call)
{
    if (!stream->blas)
        return false;
    for (int i = TD_C; i >= TD_A; i--) { /* what it computes in, by the factors */
        if ((uintptr_t)base[i] % td_dtype_info(p->dtype[i])->size != 0 ||
            !blas_types(p->dtype[i], stream->device->tf32, &call->type[i], &call->compute))
            return false;
    }
    return true;
}

static td_status multiply(struct td_device_stream *stream, const struct products *p,
                          const char *const base[3], struct td_error *err)
{
    struct call call;
    if (suits_blas(stream, p, base, &call)) {
        cublasStatus_t result = multiply_blas(stream, &call, p, base);
        if (result == CUBLAS_STATUS_SUCCESS)
            return TD_OK;
        td_status status = blas_failed(stream, result, err);
        if (status != TD_OK)
            return status;
    }
    return multiply_own(stream, p, base, err);
}

/* ---- All of it --------------------------------------------------------------------------- */

static size_t copy_bytes(const struct products *p, int operand)
{
    return p->copied[operand]
               ? td_cuda_aligned((size_t)p->numel[operand] * td_dtype_info(p->dtype[operand])->size)
               : 0;
}

size_t td_cuda_matrices_workspace(const struct td_contraction *contraction)
{
    struct products p;
    size_t bytes = 0;
    if (!decide(&p, contraction))
        return SIZE_MAX;
    for (int i = TD_A; i <= TD_C; i++)
        bytes = td_cuda_sum(bytes, copy_bytes(&p, i));
    return bytes;
}

/* Copies sum nothing, so they need no workspace. */
static td_status copy_operand(struct td_device_stream *stream, const struct products *p,
                              int operand, const void *from, void *to, struct td_error *err)
{
    struct td_loop loops[TD_MAX_LOOPS];
    struct td_contraction copy;
    copy_nest(p, operand, loops, &copy);
    return td_cuda_loops(stream, &copy, from, NULL, to, NULL, err);
}

td_status td_cuda_matrices(struct td_device_stream *stream,
                           const struct td_contraction *contraction, const void *a, const void *b,
                           void *c, void *workspace, struct td_error *err)
{
    struct products p;
    const char *base[3] = { a, b, c };
    char *place = workspace;
    td_status status = TD_OK;
    if (!decide(&p, contraction))
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for a product");
    for (int i = TD_A; i <= TD_C && status == TD_OK; i++) {
        if (!p.copied[i])
            continue;
        if (i != TD_C)
            status = copy_operand(stream, &p, i, base[i], place, err);
        base[i] = place;
        place += copy_bytes(&p, i);
    }
    if (status == TD_OK)
        status = multiply(stream, &p, base, err);
    if (status == TD_OK && p.copied[TD_C])
        status = copy_operand(stream, &p, TD_C, base[TD_C], c, err);
    return status;
}
