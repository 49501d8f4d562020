/* isa.h - selects the instruction set that arithmetic kernels use.
 *
 * Kernels that compute are built once per instruction set from the same source, and one build is
 * selected at run time. Callers can force an instruction set (td_exec.isa), which lets tests cover
 * all sets. Results are bit-identical for any number of threads and any instruction set, with these
 * exceptions: the order and rounding of floating-point sums in einsum (a fused multiply-add rounds
 * once), the rounding of sums in search on GENERIC without fused multiply-adds, and the payload of
 * a NaN.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_ISA_H
#define TD_KERNELS_ISA_H

#include <stdbool.h>

typedef enum td_isa {
    TD_ISA_AUTO,    /* the best set that this machine supports */
    TD_ISA_GENERIC, /* the compiler's baseline: SSE2 or NEON */
    TD_ISA_AVX2,    /* with FMA and F16C */
    TD_ISA_AVX512,  /* AVX2 with AVX-512 F, BW, DQ and VL */
    /* AVX-512 with BF16, for matrix products of bfloat16 (einsum/gemm/gemm.h). */
    TD_ISA_AVX512_BF16,
    TD_ISA_COUNT
} td_isa;

/* True if this machine supports the instruction set. Always true for AUTO and GENERIC. */
bool td_isa_supported(td_isa isa);

/* Returns `wanted`, or the best supported set if `wanted` is AUTO or not supported. */
td_isa td_isa_resolve(td_isa wanted);

const char *td_isa_name(td_isa isa); /* "auto", "generic", "avx2", "avx512", "avx512_bf16" */

#endif
