#define TD_TRANSPOSE_KERNELS td_transpose_avx2
#include "kernels/permute/kernels.inc"
