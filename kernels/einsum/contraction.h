/* contraction.h - one step of an einsum: a nest of loops (nest/nest.h), the kind of kernel that suits
 * it, and running it.
 *
 * What a nest turns into is decided from its loops alone, never from the number of threads:
 *
 *     permute   one operand, nothing summed, dtypes equal: data moves, values are not looked at
 *     sumprod   sums and products too thin for a matrix kernel: reductions, traces, dot, GEMV,
 *               elementwise and outer products, and conversions between dtypes
 *     gemm      two operands whose loops fall into batch (A, B, C), M (A, C), N (B, C) and
 *               K (A, B), with M, N and K large enough
 *
 * Shapes     At least one loop; every extent is 2 or more after td_contraction_simplify, so there
 *            are at most TD_MAX_LOOPS. An extent of 0 never comes here: the caller has settled
 *            empty results and empty sums.
 * Ownership  Borrows the operands; writes C, every element that the loops reach, and does not read
 *            it before. C does not overlap A or B.
 * Threads    Reentrant; splits its work through exec. The bits of C do not depend on how.
 * Cost       td_contraction_workspace tells the bytes it takes from its workspace. */
#ifndef TD_KERNELS_EINSUM_CONTRACTION_H
#define TD_KERNELS_EINSUM_CONTRACTION_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Drops loops of extent 1, joins loops that are one in every operand (stride of one = stride times
 * extent of the other), orders the rest by falling C stride, summed ones last by falling A stride,
 * and sets kind. A nest without loops is left with one of extent 1. */
void td_contraction_simplify(struct td_contraction *contraction);

struct td_workspace_size td_contraction_workspace(const struct td_contraction *contraction);

struct td_gemm_sizes td_contraction_gemm_sizes(const struct td_contraction *contraction);

struct td_workspace; /* workspace.h */

/* DEADLINE_EXCEEDED from exec is the only failure; C is then worth nothing. */
TD_MUST_CHECK td_status td_contraction_run(const struct td_contraction *contraction, const void *a,
                                           const void *b, void *c, struct td_workspace *workspace,
                                           struct td_exec *exec, struct td_error *err);

#endif
