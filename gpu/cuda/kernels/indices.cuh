/* indices.cuh - bounds policies of indices, and reports of bad indices.
 *
 * Bad indices are counted in device memory, because atomics on host memory would cross the bus for
 * every bad index. The last block to finish writes the reports and clears the counters, so a launch
 * needs no memset. */
#ifndef TD_GPU_CUDA_KERNELS_INDICES_CUH
#define TD_GPU_CUDA_KERNELS_INDICES_CUH

#include "gpu/cuda/kernels/common.cuh"

/* Counts element `element` of indices, which is out of range. */
static __device__ __forceinline__ void count_bad_index(const struct td_cuda_reporting &to,
                                                       int64_t element)
{
    if (to.reports == NULL)
        return;
    const int64_t *end = to.item_end != NULL ? to.item_end : to.inline_end;
    int low = 0, high = to.n_items - 1; /* find the first item that ends after `element` */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (end[middle] > element)
            high = middle;
        else
            low = middle + 1;
    }
    const int64_t begin = low == 0 ? 0 : end[low - 1];
    atomicMax(&to.counters[low].first, (unsigned long long)(INT64_MAX - (element - begin)));
    atomicAdd(&to.counters[low].n_bad, 1ULL);
}

/* Writes the reports. All threads of every block call this function once, and the last block to
 * arrive writes the reports. A block executes a fence before it arrives only if it has counted a
 * bad index, because a fence also waits for the stores of rows and keeps the block on its
 * multiprocessor during that wait. */
static __device__ __forceinline__ void write_reports(const struct td_cuda_reporting &to,
                                                     bool counted)
{
    __shared__ bool is_last;
    if (to.reports == NULL)
        return;
    const int any_counted = __syncthreads_or(counted);
    if (threadIdx.x == 0) {
        if (any_counted)
            __threadfence(); /* make the counters visible before the block arrives */
        /* The counter wraps to 0 at the last block. */
        is_last = atomicInc(to.blocks_done, gridDim.x - 1) == gridDim.x - 1;
        if (is_last)
            __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    for (int i = (int)threadIdx.x; i < to.n_items; i += THREADS) {
        const unsigned long long first = atomicExch(&to.counters[i].first, 0ULL);
        const unsigned long long n_bad = atomicExch(&to.counters[i].n_bad, 0ULL);
        to.reports[i].first_bad = INT64_MAX - (int64_t)first;
        to.reports[i].n_bad = (int64_t)n_bad;
    }
}

enum { BOUNDS_ERROR, BOUNDS_ZERO, BOUNDS_CLIP, BOUNDS_WRAP };

/* Applies the bounds policy to an out-of-range index. Returns an index in [0, bound), or -1 for a
 * row of zeros. */
static __device__ __forceinline__ int64_t resolve_index(int64_t index, int64_t bound, int policy)
{
    if (bound <= 0 || policy == BOUNDS_ERROR || policy == BOUNDS_ZERO)
        return -1;
    if (policy == BOUNDS_CLIP)
        return index < 0 ? 0 : bound - 1;
    const int64_t remainder = index % bound;
    return remainder < 0 ? remainder + bound : remainder;
}

#endif
