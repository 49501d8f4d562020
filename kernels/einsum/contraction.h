/* contraction.h - runs one step of an einsum: a loop nest (nest/nest.h), by the kind of kernel that
 * suits it.
 *
 * The kind depends on the loops only, never on the number of threads:
 *
 *     permute   one operand, nothing summed, equal dtypes: moves data, whatever its values
 *     sumprod   sums and products too small for a matrix kernel: reductions, traces, dot, GEMV,
 *               elementwise and outer products, and conversions between dtypes
 *     gemm      two operands whose loops are batch (A, B, C), M (A, C), N (B, C) and K (A, B), with
 *               M, N and K large enough
 *
 * Shapes     At least one loop. After td_contraction_simplify every extent is 2 or more, so there
 *            are at most TD_MAX_LOOPS. No extent is 0: the caller handles empty results and empty
 *            sums.
 * Ownership  Borrows the operands; writes every element of C that the loops reach, and does not
 *            read it before. C does not overlap A or B.
 * Threads    Reentrant; splits its work through exec. The bits of C do not depend on the threads.
 * Errors     DEADLINE_EXCEEDED from exec is the only one; the contents of C are then undefined.
 * Cost       td_contraction_workspace returns the bytes of workspace that it uses. */
#ifndef TD_KERNELS_EINSUM_CONTRACTION_H
#define TD_KERNELS_EINSUM_CONTRACTION_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Removes loops of extent 1; fuses loops that are contiguous in every operand (stride of the outer
 * = stride * extent of the inner); orders the rest by descending C stride, summed loops last by
 * descending A stride; and sets kind. A nest without loops becomes one loop of extent 1. */
void td_contraction_simplify(struct td_contraction *contraction);

struct td_workspace_size td_contraction_workspace(const struct td_contraction *contraction);

struct td_gemm_sizes td_contraction_gemm_sizes(const struct td_contraction *contraction);

struct td_workspace; /* kernels/workspace.h */

TD_MUST_CHECK td_status td_contraction_run(const struct td_contraction *contraction, const void *a,
                                           const void *b, void *c, struct td_workspace *workspace,
                                           struct td_exec *exec, struct td_error *err);

#endif
