#define TD_NORM_LOOPS td_norm_loops_generic
#include "kernels/normalisation/loops.inc"
