/* AVX-512 (VL) on 256-bit registers, for products with few columns. */
#include <immintrin.h>

#define TD_KERNELS_NAME td_gemm_avx512_ymm
#define TD_VECTOR_BYTES 32
#define TD_MR_32        14
#define TD_MR_64        14
#define TD_MR_U64       14
#define TD_MASKS        1

#define TD_MASK(bits, n)                ((__mmask8)((1u << (n)) - 1))
#define TD_MASK_LOAD(bits, p, m)        TD_JOIN(_mm256_maskz_loadu_epi, bits)(m, p)
#define TD_MASK_STORE(bits, p, m, n, v) TD_JOIN(_mm256_mask_storeu_epi, bits)(p, m, (__m256i)(v))

#include "kernels/einsum/gemm/kernels.inc"
