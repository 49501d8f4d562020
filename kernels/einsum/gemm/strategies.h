/* strategies.h - three ways to split a batch of products across threads. The blocking determines
 * which is used.
 *
 * Ownership, Threads, Errors   See contraction.h. */
#ifndef TD_KERNELS_EINSUM_GEMM_STRATEGIES_H
#define TD_KERNELS_EINSUM_GEMM_STRATEGIES_H

#include "kernels/einsum/gemm/context.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* batched.c: one thread computes each product. Requires blocking->thread_b_bytes unless B is used
 * in place. */
TD_MUST_CHECK td_status td_gemm_run_batched(struct td_gemm_context *g, struct td_exec *exec,
                                            struct td_error *err);

/* cooperative.c: all threads work together on a few products of the batch. The threads pack B once,
 * then compute blocks of C. */
TD_MUST_CHECK td_status td_gemm_run_cooperative(const struct td_gemm_context *g,
                                                struct td_exec *exec, struct td_error *err);

/* split_k.c: threads sum ranges of k separately, and the partial sums are added in order. For small
 * products over a very long k, such as Gram matrices. Requires blocking->k_range. */
TD_MUST_CHECK td_status td_gemm_run_split_k(const struct td_gemm_context *g, struct td_exec *exec,
                                            struct td_error *err);

#endif
