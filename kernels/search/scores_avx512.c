#define TD_SEARCH_LOOPS td_search_loops_avx512
#include "kernels/search/scores.inc"
