#define TD_CAST_LOOPS td_cast_loops_generic
#include "kernels/convert/cast_loops.inc"
