#define TD_ELEMENTWISE_LOOPS td_elementwise_loops_avx2
#include "kernels/elementwise/loops.inc"
