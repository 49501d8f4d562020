/* nest.cuh - computes the offsets of an iteration of a loop nest in the operands. */
#ifndef TD_GPU_CUDA_KERNELS_NEST_CUH
#define TD_GPU_CUDA_KERNELS_NEST_CUH

#include "gpu/cuda/kernels/common.cuh"

struct offsets {
    int64_t of[3]; /* offsets in elements, indexed by TD_CUDA_A, TD_CUDA_B, TD_CUDA_C */
};

/* Adds the offsets of iteration i of the loops. The last loop varies fastest. */
static __device__ __forceinline__ void
add_offsets(struct offsets *offsets, const struct td_cuda_loop *loops, int n_loops, int64_t i)
{
    for (int l = n_loops - 1; l >= 0; l--) {
        int64_t at = i;
        if (l > 0)
            i = divide(i, loops[l].extent, &at);
        for (int o = 0; o < 3; o++)
            offsets->of[o] += at * loops[l].stride[o];
    }
}

#endif
