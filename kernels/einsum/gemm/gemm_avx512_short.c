/* The instructions of AVX-512 on vectors of half the length, for products as narrow as these. */
#include <immintrin.h>

#define TD_ISA_NAME     td_gemm_avx512_short
#define TD_VECTOR_BYTES 32
#define TD_ROWS_32      14
#define TD_ROWS_64      14
#define TD_ROWS_U64     14
#define TD_MASKS        1

#define TD_MASK(bits, n)                ((__mmask8)((1u << (n)) - 1))
#define TD_MASK_LOAD(bits, p, m)        TD_JOIN(_mm256_maskz_loadu_epi, bits)(m, p)
#define TD_MASK_STORE(bits, p, m, n, v) TD_JOIN(_mm256_mask_storeu_epi, bits)(p, m, (__m256i)(v))

#include "kernels/einsum/gemm/isa.inc"
