/* For any machine: vectors of 16 bytes, as SSE2 and NEON have. */
#define TD_ISA_NAME     td_gemm_generic
#define TD_VECTOR_BYTES 16
#define TD_ROWS_32      4
#define TD_ROWS_64      4
#define TD_ROWS_U64     4
#define TD_MASKS        0
#include "kernels/einsum/gemm/isa.inc"
