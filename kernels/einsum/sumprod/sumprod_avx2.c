#define TD_KERNELS_NAME td_sumprod_avx2
#include "kernels/einsum/sumprod/kernels.inc"
