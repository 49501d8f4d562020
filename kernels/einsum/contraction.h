/* contraction.h - runs one step of an einsum, which is a loop nest (nest/nest.h), with the kind of
 * kernel that suits the nest.
 *
 * The kind depends only on the loops, never on the number of threads:
 *
 *     permute   one operand, no sums, equal dtypes; moves elements without interpreting them
 *     sumprod   sums and products that do not suit a matrix kernel: reductions, traces, dot
 *               products, GEMV, elementwise and outer products, and conversions between dtypes
 *     gemm      two operands whose loops are batch (A, B, C), M (A, C), N (B, C) and K (A, B), with
 *               M, N and K large enough
 *
 * Shapes     A nest has at least one loop. After td_contraction_simplify every extent is 2 or more,
 *            so there are at most TD_MAX_LOOPS loops. No extent is 0: the caller handles empty
 *            results and empty sums.
 * Ownership  The functions borrow the operands. They write every element of C that the loops reach,
 *            and never read an element of C before writing it. C must not overlap A or B.
 * Threads    Reentrant. Work is split across threads through exec, but the bits of C do not depend
 *            on the threads.
 * Errors     Only DEADLINE_EXCEEDED, from exec, which leaves the contents of C undefined.
 * Cost       td_contraction_workspace returns the size of the workspace in bytes. */
#ifndef TD_KERNELS_EINSUM_CONTRACTION_H
#define TD_KERNELS_EINSUM_CONTRACTION_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Simplifies a nest. Removes loops of extent 1. Fuses loops that are contiguous in every operand
 * (stride of the outer loop = stride * extent of the inner). Orders the remaining loops by
 * descending C stride, with summed loops last by descending A stride. Sets `kind`. A nest without
 * loops becomes one loop of extent 1. */
void td_contraction_simplify(struct td_contraction *contraction);

struct td_workspace_size td_contraction_workspace(const struct td_contraction *contraction);

struct td_gemm_sizes td_contraction_gemm_sizes(const struct td_contraction *contraction);

struct td_workspace; /* kernels/workspace.h */

TD_MUST_CHECK td_status td_contraction_run(const struct td_contraction *contraction, const void *a,
                                           const void *b, void *c, struct td_workspace *workspace,
                                           struct td_exec *exec, struct td_error *err);

#endif
