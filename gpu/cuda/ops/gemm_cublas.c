#include "gpu/cuda/ops/gemm_cublas.h"

/* A factor of a product for cuBLAS, which is column-major. If `inner` is contiguous, the factor
 * inner x outer needs no transposition. */
struct factor {
    int operand;
    cublasOperation_t operation;
    int64_t lead; /* leading dimension */
};

/* The arguments of a cuBLAS call. Dimension m is contiguous in the result. */
struct call {
    int m, n; /* TD_CUDA_M and TD_CUDA_N, or swapped */
    struct factor first, second;
    int64_t lead;
    cudaDataType type[3];
    cublasComputeType_t compute;
};

/* Looks up the type and the compute type of cuBLAS for a dtype. Returns false for integers. */
static bool cublas_types(td_dtype dtype, bool tf32, cudaDataType *type,
                         cublasComputeType_t *compute)
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

/* True if cuBLAS supports the dtypes and addresses. It would fault on complex numbers that are
 * aligned only to the size of their real and imaginary parts. */
static bool choose_types(struct call *call, const struct td_device_stream *stream,
                         const struct td_cuda_gemm_plan *plan, const char *const base[3])
{
    /* Handles A last, because the factors determine the compute type. */
    for (int i = TD_C; i >= TD_A; i--) {
        if ((uintptr_t)base[i] % td_dtype_info(plan->dtype[i])->size != 0 ||
            !cublas_types(plan->dtype[i], stream->device->tf32, &call->type[i], &call->compute))
            return false;
    }
    return true;
}

static int64_t leading_dimension(const struct td_cuda_gemm_plan *plan, int operand, int inner,
                                 int outer)
{
    return plan->dimension[outer]->size == 1 ? plan->dimension[inner]->size
                                             : plan->stride[operand][outer];
}

static struct factor factor_of(const struct td_cuda_gemm_plan *plan, int operand, int inner,
                               int outer)
{
    if (td_cuda_gemm_is_contiguous(plan, operand, inner, outer))
        return (struct factor){ operand, CUBLAS_OP_N,
                                leading_dimension(plan, operand, inner, outer) };
    return (struct factor){ operand, CUBLAS_OP_T, leading_dimension(plan, operand, outer, inner) };
}

static void choose_factors(struct call *call, const struct td_cuda_gemm_plan *plan)
{
    /* In column-major order, a row-major C is the transpose of C: the product of the transposes of
     * B and A. */
    const bool row_major = td_cuda_gemm_is_contiguous(plan, TD_C, TD_CUDA_N, TD_CUDA_M);
    call->m = row_major ? TD_CUDA_N : TD_CUDA_M;
    call->n = row_major ? TD_CUDA_M : TD_CUDA_N;
    call->first = factor_of(plan, row_major ? TD_B : TD_A, call->m, TD_CUDA_K);
    call->second = factor_of(plan, row_major ? TD_A : TD_B, TD_CUDA_K, call->n);
    call->lead = leading_dimension(plan, TD_C, call->m, call->n);
}

/* Returns the scale alpha = 1 or beta = 0 in the given type. The real part of a complex number
 * comes first. */
static const void *scale(cudaDataType type, int value)
{
    static const float floats[2][2] = { { 0, 0 }, { 1, 0 } };
    static const double doubles[2][2] = { { 0, 0 }, { 1, 0 } };
    return type == CUDA_R_64F || type == CUDA_C_64F ? (const void *)doubles[value]
                                                    : (const void *)floats[value];
}

/* Maximum batch size of a call. Some versions of cuBLAS map the batch to a grid dimension that has
 * this limit. */
#define MAX_CALL_BATCH 65535

/* Computes a single product with the most common function, for which cuBLAS is tuned. */
static cublasStatus_t call_single(const struct td_device_stream *stream, const struct call *call,
                                  const struct td_cuda_gemm_plan *plan, const char *const data[3])
{
    const int first = call->first.operand, second = call->second.operand;
    return td_cublas()->gemm_ex(stream->cublas, call->first.operation, call->second.operation,
                                plan->dimension[call->m]->size, plan->dimension[call->n]->size,
                                plan->dimension[TD_CUDA_K]->size, scale(call->type[TD_A], 1),
                                data[first], call->type[first], call->first.lead, data[second],
                                call->type[second], call->second.lead, scale(call->type[TD_A], 0),
                                (void *)data[TD_C], call->type[TD_C], call->lead, call->compute,
                                CUBLAS_GEMM_DEFAULT);
}

/* Computes the strided batch at these offsets, which are in elements. */
static cublasStatus_t call_batch(const struct td_device_stream *stream, const struct call *call,
                                 const struct td_cuda_gemm_plan *plan, const char *const base[3],
                                 const int64_t offset[3])
{
    const struct td_loop *loop = &plan->loops[plan->n_loops - 1];
    const int first = call->first.operand, second = call->second.operand;
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (int64_t at = 0; at < loop->extent && result == CUBLAS_STATUS_SUCCESS;
         at += MAX_CALL_BATCH) {
        const char *data[3];
        for (int i = TD_A; i <= TD_C; i++)
            data[i] = base[i] + (offset[i] + at * loop->stride[i]) *
                                    (int64_t)td_dtype_info(plan->dtype[i])->size;
        if (loop->extent == 1)
            return call_single(stream, call, plan, data);
        result = td_cublas()->gemm_strided_batched_ex(
            stream->cublas, call->first.operation, call->second.operation,
            plan->dimension[call->m]->size, plan->dimension[call->n]->size,
            plan->dimension[TD_CUDA_K]->size, scale(call->type[TD_A], 1), data[first],
            call->type[first], call->first.lead, loop->stride[first], data[second],
            call->type[second], call->second.lead, loop->stride[second], scale(call->type[TD_A], 0),
            (void *)data[TD_C], call->type[TD_C], call->lead, loop->stride[TD_C],
            td_smaller(loop->extent - at, MAX_CALL_BATCH), call->compute, CUBLAS_GEMM_DEFAULT);
    }
    return result;
}

/* Iterates over the batch loops except the last, which is the strided batch. */
static cublasStatus_t call_all(struct td_device_stream *stream, const struct call *call,
                               const struct td_cuda_gemm_plan *plan, const char *const base[3])
{
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    int64_t calls = 1;
    for (int l = 0; l < plan->n_loops - 1; l++)
        calls *= plan->loops[l].extent;
    for (int64_t i = 0; i < calls && result == CUBLAS_STATUS_SUCCESS; i++) {
        int64_t offset[3] = { 0 }, rest = i;
        for (int l = plan->n_loops - 2; l >= 0; l--) {
            for (int o = TD_A; o <= TD_C; o++)
                offset[o] += rest % plan->loops[l].extent * plan->loops[l].stride[o];
            rest /= plan->loops[l].extent;
        }
        result = call_batch(stream, call, plan, base, offset);
    }
    return result;
}

/* Returns the status of a failed call. TD_OK means that the context remains usable, so
 * kernels/gemm.cu can compute the product. cuBLAS refuses some products only on some devices and
 * only when it is called (bfloat16 to bfloat16 on compute capability 8.6:
 * ggml-org/llama.cpp#24999). It can return any error if it cannot load a kernel for lack of memory.
 * The stream reports errors of the context. */
static td_status check_failure(struct td_device_stream *stream, cublasStatus_t result,
                               struct td_error *err)
{
    bool done;
    td_status status = td_cuda_poll(stream, &done, err);
    if (status == TD_OK && result == CUBLAS_STATUS_ALLOC_FAILED)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "%s has no memory left for cuBLAS",
                            stream->device->info.name);
    return status;
}

td_status td_cuda_gemm_cublas(struct td_device_stream *stream, const struct td_cuda_gemm_plan *plan,
                              const char *const base[3], bool *done, struct td_error *err)
{
    struct call call;
    *done = false;
    if (!stream->cublas || !choose_types(&call, stream, plan, base))
        return TD_OK;
    choose_factors(&call, plan);
    cublasStatus_t result = call_all(stream, &call, plan, base);
    *done = result == CUBLAS_STATUS_SUCCESS;
    return *done ? TD_OK : check_failure(stream, result, err);
}
