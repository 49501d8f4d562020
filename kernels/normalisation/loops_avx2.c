#define TD_NORM_LOOPS td_norm_loops_avx2
#include "kernels/normalisation/loops.inc"
