#define TD_ELEMENTWISE_LOOPS td_elementwise_loops_avx512
#include "kernels/elementwise/loops.inc"
