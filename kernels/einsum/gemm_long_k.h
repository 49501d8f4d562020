/* gemm_long_k.h - small products over a very long k, as of Gram matrices: k is cut into pieces that
 * threads sum apart, and the sums are added in order.
 *
 * Ownership, Threads, Errors   As contraction.h. */
#ifndef TD_KERNELS_EINSUM_GEMM_LONG_K_H
#define TD_KERNELS_EINSUM_GEMM_LONG_K_H

#include "kernels/einsum/gemm_call.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Where the blocking has k_piece. */
TD_MUST_CHECK td_status td_gemm_run_long_k(const struct td_gemm_call *g, struct td_exec *exec,
                                           struct td_error *err);

#endif
