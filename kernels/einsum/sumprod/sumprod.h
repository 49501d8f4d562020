/* sumprod.h - sums of products over any loop nest: reductions, traces, dot products, matrix times
 * vector, elementwise and outer products, conversions.
 *
 * These are bound by memory bandwidth, so the order of the loops determines the speed: the
 * innermost loop has stride 1 in the operands, and the two innermost loops together are one of a
 * few kernels over runs (dot, sum, multiply, add a multiple).
 *
 * Numerics   float32 sums use many accumulators over blocks, and the blocks are added in double;
 *            long sums over rows are blocked as well. How a sum is split across threads depends on
 *            the extents only, and the partial sums are added in order, so the result has the same
 *            bits at every number of threads. Long rows times one vector are summed several at a
 *            time, and the remaining rows one by one in another order, so equal rows may differ in
 *            their last bits.
 * Ownership, Threads, Errors   As contraction.h. Accepts every nest, also those that suit gemm. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_SUMPROD_H
#define TD_KERNELS_EINSUM_SUMPROD_SUMPROD_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"
#include "kernels/workspace.h"

struct td_workspace_size td_sumprod_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_sumprod_run(const struct td_contraction *contraction, const void *a,
                                       const void *b, void *c, struct td_workspace *workspace,
                                       struct td_exec *exec, struct td_error *err);

#endif
