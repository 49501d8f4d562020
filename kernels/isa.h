/* isa.h - which instruction set the arithmetic kernels use.
 *
 * Kernels that compute are built once per set, from the same source; which build runs is decided at
 * run time, and can be told (struct td_exec) so that tests see all of them. Results of one set are
 * the same bits at every thread count; two sets may round differently, since only the later ones
 * have fused multiply-add.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_ISA_H
#define TD_KERNELS_ISA_H

#include <stdbool.h>

typedef enum td_isa {
    TD_ISA_AUTO,        /* the best this machine has */
    TD_ISA_GENERIC,     /* what the compiler's baseline has: SSE2, NEON */
    TD_ISA_AVX2,        /* with FMA and F16C */
    TD_ISA_AVX512,      /* F, BW, DQ, VL, on top of AVX2 */
    TD_ISA_AVX512_BF16, /* AVX-512 with BF16 for matrix products of bfloat16: einsum/gemm/gemm.h */
    TD_ISA_COUNT
} td_isa;

/* Can this machine run it? AUTO and GENERIC: yes. */
bool td_isa_supported(td_isa isa);

/* Never AUTO; what is not supported becomes the best that is. */
td_isa td_isa_resolve(td_isa wanted);

const char *td_isa_name(td_isa isa); /* "auto", "generic", "avx2", "avx512", "avx512_bf16" */

#endif
