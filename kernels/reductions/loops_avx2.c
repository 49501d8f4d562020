#define TD_REDUCTION_LOOPS td_reduction_loops_avx2
#include "kernels/reductions/loops.inc"
