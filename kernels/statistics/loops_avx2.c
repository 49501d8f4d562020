#define TD_STATISTICS_LOOPS td_statistics_loops_avx2
#include "kernels/statistics/loops.inc"
