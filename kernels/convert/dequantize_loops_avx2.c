#define TD_DEQUANTIZE_LOOPS td_dequantize_loops_avx2
#include "kernels/convert/dequantize_loops.inc"
