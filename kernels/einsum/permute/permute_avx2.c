#define TD_TRANSPOSITIONS td_transpositions_avx2
#include "kernels/einsum/permute/permute.inc"
