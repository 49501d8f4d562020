#define TD_TRANSPOSE_KERNELS td_transpose_avx512
#include "kernels/permute/kernels.inc"
