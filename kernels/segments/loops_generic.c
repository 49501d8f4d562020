#define TD_SEGMENT_LOOPS td_segment_loops_generic
#include "kernels/segments/loops.inc"
