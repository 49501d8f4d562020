#define TD_STATISTICS_LOOPS td_statistics_loops_avx512
#include "kernels/statistics/loops.inc"
