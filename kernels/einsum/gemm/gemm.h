/* gemm.h - batched matrix products with any strides.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * Each of z (batch), m, n and k can stand for several loops of the nest. Packing reads the operands
 * through tables of offsets, so they need not be transposed first, and the result is written in its
 * final order.
 *
 * Numerics   Every element of C is one chain of multiply-adds over k, in blocks of a fixed length
 *            that are added in order. If C is small and k is very long, ranges of a fixed number of
 *            blocks are summed separately and added in order. The result therefore has the same
 *            bits for any number of threads, except for the sign and payload of a NaN, which the
 *            processor takes from either operand. float16 and bfloat16 are widened to float32
 *            during packing, accumulate in float32 over all of k, and are rounded once. With the
 *            instruction set avx512_bf16, two bfloat16 operands are not widened. The processor then
 *            multiplies pairs along k, accumulates in float32, rounds to nearest even, and treats
 *            denormals (below 2^-126) in operands and sums as 0. NaN and Inf propagate as usual.
 *            Other instruction sets keep denormals, and their sums can differ in the last bits of
 *            float32. Complex values use the real kernels on matrices of twice the size (the 1m
 *            method of Van Zee). Integers wrap.
 * Ownership, Threads, Errors   See contraction.h.
 * Source     Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), for
 *            the blocking; Matthews, "High-Performance Tensor Contraction without Transposition"
 *            (2018), for the offset tables. */
#ifndef TD_KERNELS_EINSUM_GEMM_GEMM_H
#define TD_KERNELS_EINSUM_GEMM_GEMM_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/exec.h"
#include "kernels/status.h"
#include "kernels/workspace.h"

/* True if the loops of the simplified nest are batch, M, N and K loops, and M, N and K are large
 * enough for a matrix kernel. */
bool td_gemm_suits(const struct td_contraction *contraction);

struct td_workspace_size td_gemm_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_gemm_run(const struct td_contraction *contraction, const void *a,
                                    const void *b, void *c, struct td_workspace *workspace,
                                    struct td_exec *exec, struct td_error *err);

#endif
