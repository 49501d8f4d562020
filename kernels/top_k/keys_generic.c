#define TD_TOP_K_KEYS td_top_k_keys_generic
#include "kernels/top_k/keys.inc"
