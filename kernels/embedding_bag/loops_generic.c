#define TD_BAG_LOOPS td_bag_loops_generic
#include "kernels/embedding_bag/loops.inc"
