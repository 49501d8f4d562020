#define TD_CONVERSIONS td_conversions_generic
#include "kernels/einsum/convert.inc"
