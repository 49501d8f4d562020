#define TD_ELEMENTWISE_LOOPS td_elementwise_loops_generic
#include "kernels/elementwise/loops.inc"
