#define TD_CONVERSIONS td_conversions_avx512
#include "kernels/convert/convert.inc"
