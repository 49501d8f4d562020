#include "gpu/cuda/ops/contract.h"

#include "gpu/cuda/ops/gemm.h"
#include "gpu/cuda/ops/sumprod.h"

size_t td_cuda_contract_workspace(const struct td_contraction *contraction)
{
    return contraction->kind == TD_CONTRACT_GEMM ? td_cuda_matrices_workspace(contraction)
                                                 : td_cuda_loops_workspace(contraction);
}

td_status td_cuda_contract(struct td_device_stream *stream,
                           const struct td_contraction *contraction, const void *a, const void *b,
                           void *c, void *workspace, struct td_error *err)
{
    if (contraction->kind == TD_CONTRACT_GEMM)
        return td_cuda_matrices(stream, contraction, a, b, c, workspace, err);
    return td_cuda_loops(stream, contraction, a, b, c, workspace, err);
}
