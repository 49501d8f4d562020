#define TD_SUMPROD td_sumprod_generic
#include "kernels/einsum/sumprod/types.inc"
