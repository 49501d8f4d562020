#define TD_REDUCTION_LOOPS td_reduction_loops_generic
#include "kernels/reductions/loops.inc"
