#define TD_TRANSPOSE_KERNELS td_transpose_avx512
#include "kernels/einsum/permute/kernels.inc"
