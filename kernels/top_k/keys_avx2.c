#define TD_TOP_K_KEYS td_top_k_keys_avx2
#include "kernels/top_k/keys.inc"
