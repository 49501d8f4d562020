/* gemm_items.h - a batch of products, each of them the work of one thread.
 *
 * Ownership, Threads, Errors   As contraction.h. */
#ifndef TD_KERNELS_EINSUM_GEMM_ITEMS_H
#define TD_KERNELS_EINSUM_GEMM_ITEMS_H

#include "kernels/einsum/gemm_call.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Where B is not in place, the blocking has own_b. */
TD_MUST_CHECK td_status td_gemm_run_items(struct td_gemm_call *g, struct td_exec *exec,
                                          struct td_error *err);

#endif
