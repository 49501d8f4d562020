#define TD_TRANSPOSE_KERNELS td_transpose_generic
#include "kernels/einsum/permute/kernels.inc"
