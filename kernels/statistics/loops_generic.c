#define TD_STATISTICS_LOOPS td_statistics_loops_generic
#include "kernels/statistics/loops.inc"
