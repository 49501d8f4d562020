#define TD_TRANSPOSITIONS td_transpositions_avx512
#include "kernels/einsum/permute/permute.inc"
