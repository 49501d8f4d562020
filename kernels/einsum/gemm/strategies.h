/* strategies.h - the three ways in which a batch of products is shared out over threads; the blocking
 * says which.
 *
 * Ownership, Threads, Errors   As contraction.h. */
#ifndef TD_KERNELS_EINSUM_GEMM_STRATEGIES_H
#define TD_KERNELS_EINSUM_GEMM_STRATEGIES_H

#include "kernels/einsum/gemm/call.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* items.c: each product is the work of one thread. Where B is not in place, the blocking has own_b. */
TD_MUST_CHECK td_status td_gemm_run_items(struct td_gemm_call *g, struct td_exec *exec,
                                          struct td_error *err);

/* shared.c: all threads work on a few products of the batch at a time. B is packed once for all of
 * them, then C is cut into tasks. */
TD_MUST_CHECK td_status td_gemm_run_shared(const struct td_gemm_call *g, struct td_exec *exec,
                                           struct td_error *err);

/* long_k.c: small products over a very long k, as of Gram matrices. k is cut into ranges that threads
 * sum separately, and the sums are added in order. Where the blocking has k_piece. */
TD_MUST_CHECK td_status td_gemm_run_long_k(const struct td_gemm_call *g, struct td_exec *exec,
                                           struct td_error *err);

#endif
