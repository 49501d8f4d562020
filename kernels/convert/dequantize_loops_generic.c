#define TD_DEQUANTIZE_LOOPS td_dequantize_loops_generic
#include "kernels/convert/dequantize_loops.inc"
