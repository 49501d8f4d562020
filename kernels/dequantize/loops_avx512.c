#define TD_DEQUANTIZE_LOOPS td_dequantize_loops_avx512
#include "kernels/dequantize/loops.inc"
