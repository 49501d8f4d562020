#define TD_CONVERSIONS td_conversions_avx2
#include "kernels/convert/convert.inc"
