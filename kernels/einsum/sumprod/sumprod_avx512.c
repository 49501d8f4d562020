#define TD_SUMPROD td_sumprod_avx512
#include "kernels/einsum/sumprod/types.inc"
