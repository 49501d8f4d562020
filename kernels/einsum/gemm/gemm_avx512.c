#include <immintrin.h>

#define TD_KERNELS_NAME td_gemm_avx512
#define TD_VECTOR_BYTES 64
#define TD_MR_32        14
#define TD_MR_64        14
#define TD_MR_U64       14
#define TD_MASKS        1

#define TD_MASK(bits, n)                ((TD_JOIN(mask_, bits))((1u << (n)) - 1))
#define TD_MASK_LOAD(bits, p, m)        TD_JOIN(_mm512_maskz_loadu_epi, bits)(m, p)
#define TD_MASK_STORE(bits, p, m, n, v) TD_JOIN(_mm512_mask_storeu_epi, bits)(p, m, (__m512i)(v))

typedef __mmask16 mask_32; /* one bit for each lane */
typedef __mmask8 mask_64;

#include "kernels/einsum/gemm/kernels.inc"
