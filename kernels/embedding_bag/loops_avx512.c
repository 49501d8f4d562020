#define TD_BAG_LOOPS td_bag_loops_avx512
#include "kernels/embedding_bag/loops.inc"
