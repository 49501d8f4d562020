#define TD_KERNELS_NAME td_sumprod_avx512
#include "kernels/einsum/sumprod/kernels.inc"
