#include "gpu/cuda/ops/gemm.h"

#include "gpu/cuda/ops/compute.h"
#include "gpu/cuda/ops/gemm_cublas.h"
#include "gpu/cuda/ops/permute.h"
#include "gpu/cuda/ops/sumprod.h"

#include <string.h>

size_t td_cuda_contract_gemm_workspace(const struct td_contraction *contraction)
{
    struct td_cuda_gemm_plan plan;
    size_t bytes = 0;
    if (!td_cuda_gemm_plan_make(&plan, contraction))
        return SIZE_MAX;
    for (int i = TD_A; i <= TD_C; i++)
        bytes = td_cuda_add_sizes(bytes, td_cuda_gemm_packed_bytes(&plan, i));
    return bytes;
}

/* Packs A or B, or unpacks C. A copy that converts dtypes runs as a sumprod without a sum, which
 * needs no workspace. */
static td_status pack(struct td_device_stream *stream, const struct td_cuda_gemm_plan *plan,
                      int operand, const void *from, void *to, struct td_error *err)
{
    struct td_loop loops[TD_MAX_LOOPS];
    struct td_contraction copy;
    td_cuda_gemm_pack(plan, operand, loops, &copy);
    return copy.kind == TD_CONTRACT_PERMUTE
               ? td_cuda_contract_permute(stream, &copy, from, to, err)
               : td_cuda_contract_sumprod(stream, &copy, from, NULL, to, NULL, err);
}

/* Multiplies with kernels/gemm.cu. */
static td_status multiply_own(struct td_device_stream *stream, const struct td_cuda_gemm_plan *plan,
                              const char *const base[3], struct td_error *err)
{
    struct td_cuda_gemm_args args;
    memset(&args, 0, sizeof(args));
    args.a = base[TD_A];
    args.b = base[TD_B];
    args.c = (void *)base[TD_C];
    args.compute = td_cuda_compute_of(plan->dtype[TD_A]);
    for (int i = TD_A; i <= TD_C; i++)
        args.storage[i] = td_cuda_storage_of(plan->dtype[i]);
    args.m = plan->dimension[TD_CUDA_M]->size;
    args.n = plan->dimension[TD_CUDA_N]->size;
    args.k = plan->dimension[TD_CUDA_K]->size;
    args.a_m = plan->stride[TD_A][TD_CUDA_M];
    args.a_k = plan->stride[TD_A][TD_CUDA_K];
    args.b_k = plan->stride[TD_B][TD_CUDA_K];
    args.b_n = plan->stride[TD_B][TD_CUDA_N];
    args.c_m = plan->stride[TD_C][TD_CUDA_M];
    args.c_n = plan->stride[TD_C][TD_CUDA_N];
    args.batch = plan->dimension[TD_CUDA_BATCH]->size;
    args.n_loops = plan->n_loops;
    for (int l = 0; l < plan->n_loops; l++)
        memcpy(&args.loops[l], &plan->loops[l], sizeof(args.loops[l]));
    return td_cuda_check(stream->device, td_cuda_gemm(&args, stream->stream), "multiply matrices",
                         err);
}

static td_status multiply(struct td_device_stream *stream, const struct td_cuda_gemm_plan *plan,
                          const char *const base[3], struct td_error *err)
{
    bool done;
    td_status status = td_cuda_gemm_cublas(stream, plan, base, &done, err);
    if (status != TD_OK || done)
        return status;
    return multiply_own(stream, plan, base, err);
}

td_status td_cuda_contract_gemm(struct td_device_stream *stream,
                                const struct td_contraction *contraction, const void *a,
                                const void *b, void *c, void *workspace, struct td_error *err)
{
    struct td_cuda_gemm_plan plan;
    const char *base[3] = { a, b, c };
    char *packed = workspace;
    td_status status = TD_OK;
    if (!td_cuda_gemm_plan_make(&plan, contraction))
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the packed operands of a matrix product are too large for any device");
    for (int i = TD_A; i <= TD_C && status == TD_OK; i++) {
        if (!plan.packed[i])
            continue;
        if (i != TD_C)
            status = pack(stream, &plan, i, base[i], packed, err);
        base[i] = packed;
        packed += td_cuda_gemm_packed_bytes(&plan, i);
    }
    if (status == TD_OK)
        status = multiply(stream, &plan, base, err);
    if (status == TD_OK && plan.packed[TD_C])
        status = pack(stream, &plan, TD_C, base[TD_C], c, err);
    return status;
}
