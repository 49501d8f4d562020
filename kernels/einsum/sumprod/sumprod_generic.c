#define TD_KERNELS_NAME td_sumprod_generic
#include "kernels/einsum/sumprod/kernels.inc"
