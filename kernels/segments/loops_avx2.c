#define TD_SEGMENT_LOOPS td_segment_loops_avx2
#include "kernels/segments/loops.inc"
