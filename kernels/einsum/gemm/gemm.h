/* gemm.h - batched matrix products with any strides.
 *
 *     C[z, m, n] = sum over k of A[z, m, k] * B[z, k, n]
 *
 * where each of z (batch), m, n and k may stand for several loops of the nest. Their offsets are
 * written into tables, and packing reads through the tables, so an operand is never transposed
 * first, and the result lands in its final order.
 *
 * Numbers    Every element of C is one chain of multiply-adds over k, in blocks of a fixed length
 *            that are added in order, and where C is small and k very long, in pieces of a fixed
 *            number of blocks that are summed apart and added in order: the same bits whatever the
 *            threads, but for the sign and the payload of a NaN, which the processor takes from
 *            either operand. float16 and bfloat16 widen to float32 while they are packed,
 *            accumulate in float32 over all of k and are rounded once. Where the instruction set is avx512_bf16 and both operands are bfloat16,
 *            they stay so: the processor multiplies pairs along k and sums in float32, rounding to
 *            nearest even, and takes what is denormal (below 2^-126), in operands and in sums, for
 *            0. NaN and Inf come through as ever. On other instruction sets sums can differ in the
 *            last bits of float32, and denormals count. complex: the real kernels on matrices of
 *            twice the size (the 1m method of Van Zee). Integers wrap.
 * Ownership, Threads, Errors   As contraction.h.
 * Parts      gemm_product    the nest read as a product; offsets and the walk along the batch
 *            gemm_blocking   sizes of blocks and the workspace
 *            gemm_call       what was decided for a run, by gemm.c: kernels, what is packed
 *            gemm_items, gemm_shared, gemm_long_k   who does what: a thread each product, all
 *                            threads rows and columns of the same one, or pieces of its k
 *            gemm_pack, gemm_part      one thread's work on a part of one product
 *            gemm_kernels    the innermost loops, built once per instruction set
 * Source     Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), for
 *            the blocking; Matthews, "High-Performance Tensor Contraction without Transposition"
 *            (2018), for the offset tables. */
#ifndef TD_KERNELS_EINSUM_GEMM_GEMM_H
#define TD_KERNELS_EINSUM_GEMM_GEMM_H

#include "kernels/einsum/nest/nest.h"
#include "kernels/einsum/nest/workspace.h"
#include "kernels/exec.h"
#include "kernels/status.h"

/* Does the nest, simplified, fall into batch, M, N and K, and is it worth a matrix kernel? */
bool td_gemm_suits(const struct td_contraction *contraction);

struct td_workspace_size td_gemm_workspace(const struct td_contraction *contraction);

TD_MUST_CHECK td_status td_gemm_run(const struct td_contraction *contraction, const void *a,
                                    const void *b, void *c, struct td_workspace *workspace,
                                    struct td_exec *exec, struct td_error *err);

#endif
