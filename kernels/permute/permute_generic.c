#define TD_TRANSPOSE_KERNELS td_transpose_generic
#include "kernels/permute/kernels.inc"
