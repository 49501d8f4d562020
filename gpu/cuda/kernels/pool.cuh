/* pool.cuh - selects the best k of many entries with a pool in shared memory.
 *
 * An entry that is better than the k-th best so far is added to the pool, unsorted. When more than
 * half of the pool is used, the pool is sorted and the best k entries remain. k is at most
 * TD_CUDA_SEARCH_SHARED_K. */
#ifndef TD_GPU_CUDA_KERNELS_POOL_CUH
#define TD_GPU_CUDA_KERNELS_POOL_CUH

#include "gpu/cuda/kernels/common.cuh"

#define POOL     TD_CUDA_SEARCH_TILE
#define PER_STEP (POOL / 2) /* rows that a block reads before it adds them to the pool */
#define EACH     (PER_STEP / THREADS)

static __device__ __forceinline__ bool is_better(const struct td_cuda_scored &a,
                                                 const struct td_cuda_scored &b)
{
    return a.order != b.order ? a.order > b.order : a.row < b.row;
}

/* ---- Sorting ----------------------------------------------------------------------------- */

static __device__ __forceinline__ void order_pair(struct td_cuda_scored *a,
                                                  struct td_cuda_scored *b, bool best_first)
{
    const struct td_cuda_scored first = *a, second = *b;
    if (best_first ? is_better(second, first) : is_better(first, second)) {
        *a = second;
        *b = first;
    }
}

/* Returns the first entry of pair i of a step of a bitonic sort, which orders pairs of entries at
 * the distance `stride`, a power of two. */
static __device__ __forceinline__ int64_t first_of_pair(int64_t i, int64_t stride)
{
    return 2 * i - (i & (stride - 1));
}

/* Sorts n entries in shared memory as part of a bitonic sort, in which the entries have the numbers
 * begin, begin + 1, ... Sorts runs of the sizes `from` to `to`, alternately with the best entry
 * first and last. Runs of half the size `from` must be sorted already. n, `from` and `to` are
 * powers of two. All threads of the block must call this function. */
static __device__ void sort_entries(struct td_cuda_scored *entries, int n, int64_t begin,
                                    int64_t from, int64_t to)
{
    for (int64_t size = from; size <= to; size *= 2)
        for (int stride = (int)(size < n ? size : n) / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < n / 2; i += THREADS) {
                const int a = (int)first_of_pair(i, stride);
                order_pair(&entries[a], &entries[a + stride], ((begin + a) & size) == 0);
            }
        }
    __syncthreads();
}

/* ---- Selection in shared memory ---------------------------------------------------------- */

/* The pool of a block, in shared memory. */
struct pool {
    struct td_cuda_scored entries[POOL];
    /* Only entries that are better than this one are added. An entry without a row is never better
     * than another entry. */
    struct td_cuda_scored least;
    unsigned int count;
};

/* Empties the pool. Ends with a barrier. */
static __device__ __forceinline__ void begin_pool(struct pool *pool,
                                                  const struct td_cuda_scored &least)
{
    __syncthreads(); /* the previous entries have been used */
    if (threadIdx.x == 0) {
        pool->least = least;
        pool->count = 0;
    }
    __syncthreads();
}

/* Sorts the pool and keeps the best k entries. Ends with a barrier. */
static __device__ void keep_best(struct pool *pool, int64_t k)
{
    const int count = (int)pool->count;
    const struct td_cuda_scored none = { 0, INT64_MAX };
    int n = 1;
    while (n < count)
        n *= 2;
    for (int i = count + (int)threadIdx.x; i < n; i += THREADS)
        pool->entries[i] = none;
    sort_entries(pool->entries, n, 0, 2, n);
    if (threadIdx.x == 0 && count >= k) {
        pool->count = (unsigned int)k;
        pool->least = pool->entries[k - 1];
    }
    __syncthreads();
}

/* Adds EACH entries per thread. All threads of the block must call this function. */
static __device__ __forceinline__ void
add_entries(struct pool *pool, const struct td_cuda_scored (&entries)[EACH], int64_t k)
{
    bool is_added[EACH], any = false;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        is_added[e] = is_better(entries[e], pool->least);
        any |= is_added[e];
    }
    if (!__syncthreads_or(any))
        return;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (is_added[e])
            pool->entries[atomicAdd(&pool->count, 1u)] = entries[e];
    __syncthreads();
    if (pool->count > POOL - PER_STEP)
        keep_best(pool, k);
}

#endif
