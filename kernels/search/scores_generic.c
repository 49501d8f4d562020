#define TD_SEARCH_LOOPS td_search_loops_generic
#include "kernels/search/scores.inc"
