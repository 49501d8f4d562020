#define TD_SUMPROD td_sumprod_avx2
#include "kernels/einsum/sumprod/types.inc"
