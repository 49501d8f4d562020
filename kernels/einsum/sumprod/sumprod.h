/* sumprod.h - sums of products over loop nests of any form: reductions, traces, dot products,
 * matrix times vector, elementwise and outer products, conversions.
 *
 * These are bound by memory, so what counts is the order in which it is walked: the innermost loop
 * is one that moves the operands by 1, and the two innermost loops together are one of a few
 * kernels over runs (dot, sum, multiply, add a multiple).
 *
 * Numbers    float32 sums are kept in many accumulators over blocks, and blocks are added in
 *            double; long sums over rows are kept in blocks as well. Parts that different threads
 *            may do are cut by the extents alone and added in order: the same bits whatever the
 *            threads. Long rows times one vector are summed several at a time, and those left over
 *            singly and in another order, so equal rows may differ in their last bits.
 * Ownership, Threads, Errors   As contraction.h. Takes any nest, also one that would suit gemm. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_SUMPROD_H
#define TD_KERNELS_EINSUM_SUMPROD_SUMPROD_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/einsum/nest/workspace.h"
#include "kernels/exec.h"
#include "kernels/status.h"

struct td_workspace_size td_sumprod_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_sumprod_run(const struct td_contraction *contraction, const void *a,
                                       const void *b, void *c, struct td_workspace *workspace,
                                       struct td_exec *exec, struct td_error *err);

#endif
