#include "gpu/cuda/ops/contract.h"

#include "gpu/cuda/ops/gemm.h"
#include "gpu/cuda/ops/permute.h"
#include "gpu/cuda/ops/sumprod.h"

size_t td_cuda_contract_workspace(const struct td_contraction *contraction)
{
    switch (contraction->kind) {
    case TD_CONTRACT_GEMM:
        return td_cuda_contract_gemm_workspace(contraction);
    case TD_CONTRACT_PERMUTE:
        return 0;
    default:
        return td_cuda_contract_sumprod_workspace(contraction);
    }
}

td_status td_cuda_contract(struct td_device_stream *stream,
                           const struct td_contraction *contraction, const void *a, const void *b,
                           void *c, void *workspace, struct td_error *err)
{
    switch (contraction->kind) {
    case TD_CONTRACT_GEMM:
        return td_cuda_contract_gemm(stream, contraction, a, b, c, workspace, err);
    case TD_CONTRACT_PERMUTE:
        return td_cuda_contract_permute(stream, contraction, a, c, err);
    default:
        return td_cuda_contract_sumprod(stream, contraction, a, b, c, workspace, err);
    }
}
