/* permute.h - moves the elements of A into the order of C: transpositions, diagonals, copies.
 *
 * Looks at the width of the elements only, so every dtype comes out bit for bit. Runs are copied
 * where the innermost loop of C moves A by 1; otherwise blocks are transposed in registers.
 *
 * Ownership, Threads, Errors   As contraction.h. One operand, no summed loop, no workspace. */
#ifndef TD_KERNELS_EINSUM_PERMUTE_PERMUTE_H
#define TD_KERNELS_EINSUM_PERMUTE_PERMUTE_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"

TD_MUST_CHECK td_status td_permute_run(const struct td_contraction *contraction, const void *a,
                                       void *c, struct td_exec *exec, struct td_error *err);

#endif
