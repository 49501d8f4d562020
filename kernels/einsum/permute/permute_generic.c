#define TD_TRANSPOSITIONS td_transpositions_generic
#include "kernels/einsum/permute/permute.inc"
