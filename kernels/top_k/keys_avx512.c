#define TD_TOP_K_KEYS td_top_k_keys_avx512
#include "kernels/top_k/keys.inc"
