/* sumprod.h - sums of products over any loop nest: reductions, traces, dot products, matrix times
 * vector, elementwise and outer products, conversions.
 *
 * These operations are limited by memory bandwidth, so the order of the loops determines the speed.
 * The innermost loop has stride 1 in the operands. The two innermost loops are computed by one of a
 * few kernels over runs (dot, sum, multiply, add a multiple).
 *
 * Numerics   float32 sums use many accumulators over blocks, and the blocks are added in double.
 *            Long sums over rows are also blocked. How a sum is split across threads depends only
 *            on the extents, and the partial sums are added in order. The result therefore has the
 *            same bits for any number of threads. If long rows are multiplied by one vector,
 *            several rows are summed at a time, and the remaining rows one by one in a different
 *            order. Equal rows can therefore give results that differ in their last bits.
 * Ownership, Threads, Errors   See contraction.h. sumprod accepts every nest, including nests that
 *            suit gemm. */
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
