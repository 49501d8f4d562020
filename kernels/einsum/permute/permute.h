/* permute.h - copies the elements of A into the order of C: transpositions, diagonals, plain
 * copies.
 *
 * Copying depends only on the width of the elements, so every dtype is copied bit for bit. If the
 * innermost loop of C has stride 1 in A, contiguous rows are copied. Otherwise, tiles are
 * transposed in registers.
 *
 * Shapes     One operand, no summed loops, equal dtypes of A and C.
 * Ownership, Threads, Errors   See contraction.h. permute uses no workspace. */
#ifndef TD_KERNELS_EINSUM_PERMUTE_PERMUTE_H
#define TD_KERNELS_EINSUM_PERMUTE_PERMUTE_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"

TD_MUST_CHECK td_status td_permute_run(const struct td_contraction *contraction, const void *a,
                                       void *c, struct td_exec *exec, struct td_error *err);

#endif
