#define TD_CAST_LOOPS td_cast_loops_avx512
#include "kernels/convert/cast_loops.inc"
