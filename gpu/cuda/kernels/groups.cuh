/* groups.cuh - divides the threads of a block into groups that each compute one result. */
#ifndef TD_GPU_CUDA_KERNELS_GROUPS_CUH
#define TD_GPU_CUDA_KERNELS_GROUPS_CUH

#include "gpu/cuda/kernels/common.cuh"

/* The place of a thread in its block: `lane` of `threads` in its group, which is `group` of
 * `groups`. */
struct group_place {
    int threads, groups, group, lane;
    int distance; /* between the numbers of consecutive threads of a group */
};

/* Returns the place of this thread. If lanes_together, the threads of a group are neighbours.
 * Otherwise, neighbouring threads belong to neighbouring groups. `threads` divides THREADS. */
static __device__ __forceinline__ struct group_place group_place_of(int threads,
                                                                    bool lanes_together)
{
    const int tid = (int)threadIdx.x;
    struct group_place place;
    place.threads = threads;
    place.groups = THREADS / threads;
    place.group = lanes_together ? tid / threads : tid % place.groups;
    place.lane = lanes_together ? tid % threads : tid / place.groups;
    place.distance = lanes_together ? 1 : place.groups;
    return place;
}

/* Joins the values of the threads of each group by tree reduction. `shared` is shared memory for
 * THREADS values. All threads of the block must call this function, and all threads of a group get
 * the result. The order of the joins depends only on the number of threads. */
template <typename J, typename W>
static __device__ W join_group(W value, W *shared, const struct group_place &place)
{
    const int tid = (int)threadIdx.x;
    if (place.threads == 1)
        return value;
    shared[tid] = value;
    __syncthreads();
    for (int half = place.threads / 2; half > 0; half /= 2) {
        if (place.lane < half)
            shared[tid] = J::join(shared[tid], shared[tid + half * place.distance]);
        __syncthreads();
    }
    value = shared[tid - place.lane * place.distance];
    __syncthreads(); /* before `shared` is reused */
    return value;
}

#endif
