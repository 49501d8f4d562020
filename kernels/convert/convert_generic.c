#define TD_CONVERSIONS td_conversions_generic
#include "kernels/convert/convert.inc"
