#define TD_CAST_LOOPS td_cast_loops_avx512
#include "kernels/cast/loops.inc"
