#define TD_CAST_LOOPS td_cast_loops_generic
#include "kernels/cast/loops.inc"
