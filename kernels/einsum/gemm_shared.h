/* gemm_shared.h - products that all threads work on together, a few of the batch at a time: B is
 * packed once for all of them, then C is cut into tasks.
 *
 * Ownership, Threads, Errors   As contraction.h. */
#ifndef TD_KERNELS_EINSUM_GEMM_SHARED_H
#define TD_KERNELS_EINSUM_GEMM_SHARED_H

#include "kernels/einsum/gemm_call.h"
#include "kernels/exec.h"
#include "kernels/status.h"

TD_MUST_CHECK td_status td_gemm_run_shared(const struct td_gemm_call *g, struct td_exec *exec,
                                           struct td_error *err);

#endif
