/* Kernels for any machine, with vectors of 16 bytes as in SSE2 and NEON. */
#define TD_KERNELS_NAME td_gemm_generic
#define TD_VECTOR_BYTES 16
#define TD_MR_32        4
#define TD_MR_64        4
#define TD_MR_U64       4
#define TD_MASKS        0
#include "kernels/einsum/gemm/kernels.inc"
