/* search_best.cu - search: selects the best rows of each query from the scores of a block of rows.
 *
 *     scores   [-------------------- a query's scores of a block --------------------]
 *     strips   [------- 0 -------|------- 1 -------|------- 2 -------]   one block each
 *     found    [best k of 0|best k of 1|best k of 2]    only rows better than the k-th best so far
 *     best     the best k so far, with the rows that were found
 *
 * A block of threads selects with a pool in shared memory: rows that are better than the k-th best
 * are added to the pool, unsorted, and if more than half of the pool is used, it is sorted and the
 * best k remain. A larger k does not fit. Then the best rows and the rows of a block are sorted in
 * device memory.
 *
 * No two entries of a query are equal, so the result does not depend on the order of atomics.
 *
 * Cost  A score is read once. In random order, few rows of a block are better than the k-th best
 *       row of all blocks before, if the block has at most as many rows. In the worst order, a
 *       thread sorts a pool for every 4 rows that it reads. With a large k, each row is an entry
 *       of 16 bytes, which is read and written 9 times if the pool has room for 2^12 rows of a
 *       block, and 77 times if it has room for 2^20. */
#include "gpu/cuda/kernels/pool.cuh"

#include <math.h>
#include <string.h>

/* ---- Entries ----------------------------------------------------------------------------- */

/* Returns the bits of a score as an integer in the same order. No number becomes 0. */
static __device__ __forceinline__ uint64_t order_of(double score)
{
    uint64_t bits;
    score += 0; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof(bits));
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static __device__ __forceinline__ uint64_t order_of(float score)
{
    uint32_t bits;
    score += 0;
    memcpy(&bits, &score, sizeof(bits));
    return (uint64_t)(bits >> 31 ? ~bits : bits | (uint32_t)1 << 31) << 32;
}

static __device__ __forceinline__ void score_of(uint64_t order, double *score)
{
    const uint64_t bits = order >> 63 ? order & ~((uint64_t)1 << 63) : ~order;
    memcpy(score, &bits, sizeof(bits));
}

static __device__ __forceinline__ void score_of(uint64_t order, float *score)
{
    const uint32_t high = (uint32_t)(order >> 32);
    const uint32_t bits = high >> 31 ? high & ~((uint32_t)1 << 31) : ~high;
    memcpy(score, &bits, sizeof(bits));
}

/* Returns the entry of row i of the block for a query of the group. The entry has no row if the
 * row is excluded, its score is NaN, or `least` is better. */
template <typename A>
static __device__ __forceinline__ struct td_cuda_scored
entry_of(const struct td_cuda_search_args &args, int64_t query, int64_t i,
         const struct td_cuda_scored &least)
{
    const struct td_cuda_scored none = { 0, 0 };
    const A score = ((const A *)args.scores)[query * args.score_pitch + i];
    struct td_cuda_scored entry = { order_of(score), args.first + i };
    if (score != score || entry.order < least.order)
        return none;
    if (args.numbers != NULL)
        entry.row = args.numbers[args.first + i];
    else if (args.marked != NULL && args.marked[entry.row / 32] >> (entry.row % 32) & 1)
        return none;
    if (entry.row < 0 || (args.exclude_self && entry.row == index_at(args.rows, args.rows_bytes,
                                                                     args.first_query + query)))
        return none;
    return is_better(least, entry) ? none : entry;
}

/* ---- Selection in shared memory ---------------------------------------------------------- */

/* Selects the best rows of each strip. */
template <typename A>
static __global__ void __launch_bounds__(THREADS)
    select_rows(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ struct pool pool;
    __shared__ unsigned long long place;
    const int64_t strips = ceil_div(args.n, args.strip);
    for (int64_t t = blockIdx.x; t < args.n_queries * strips; t += gridDim.x) {
        int64_t strip;
        const int64_t query = divide(t, strips, &strip);
        const int64_t begin = strip * args.strip;
        const int64_t end = begin + args.strip < args.n ? begin + args.strip : args.n;
        begin_pool(&pool, args.best[query * args.best_pitch + args.k - 1]);
        for (int64_t at = begin; at < end; at += PER_STEP) {
            struct td_cuda_scored entries[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int64_t i = at + e * THREADS + threadIdx.x;
                entries[e] = { 0, 0 };
                if (i < end)
                    entries[e] = entry_of<A>(args, query, i, pool.least);
            }
            add_entries(&pool, entries, args.k);
        }
        if (pool.count > args.k)
            keep_best(&pool, args.k);
        if (threadIdx.x == 0)
            place = atomicAdd(&args.n_found[query], (unsigned long long)pool.count);
        __syncthreads();
        struct td_cuda_scored *to = args.found + query * args.strips * args.k + (int64_t)place;
        for (int i = (int)threadIdx.x; i < (int)pool.count; i += THREADS)
            to[i] = pool.entries[i];
    }
}

/* Adds what the strips have found to the best rows of each query. */
static __global__ void __launch_bounds__(THREADS)
    merge_found(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ struct pool pool;
    const struct td_cuda_scored none = { 0, 0 };
    for (int64_t query = blockIdx.x; query < args.n_queries; query += gridDim.x) {
        const int64_t n = (int64_t)args.n_found[query];
        struct td_cuda_scored *best = args.best + query * args.best_pitch;
        const struct td_cuda_scored *found = args.found + query * args.strips * args.k;
        if (n == 0)
            continue;
        begin_pool(&pool, none);
        for (int64_t at = -PER_STEP; at < n; at += PER_STEP) {
            struct td_cuda_scored entries[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int64_t i = at + e * THREADS + threadIdx.x;
                entries[e] = none;
                if (at < 0 && i + PER_STEP < args.k)
                    entries[e] = best[i + PER_STEP];
                else if (at >= 0 && i < n)
                    entries[e] = found[i];
            }
            add_entries(&pool, entries, args.k);
        }
        keep_best(&pool, args.k);
        for (int i = (int)threadIdx.x; i < args.k; i += THREADS)
            best[i] = i < (int)pool.count ? pool.entries[i] : none;
    }
}

cudaError_t td_cuda_search_select(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(args->n_queries * ceil_div(args->n, args->strip));
    const unsigned int merging = grid_blocks(args->n_queries);
    cudaError_t error = cudaMemsetAsync(args->n_found, 0,
                                        (size_t)args->n_queries * sizeof(args->n_found[0]), stream);
    if (error != cudaSuccess)
        return error;
    if (args->is_double)
        select_rows<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        select_rows<float><<<blocks, THREADS, 0, stream>>>(*args);
    error = cudaGetLastError();
    if (error != cudaSuccess)
        return error;
    merge_found<<<merging, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

/* ---- Selection in device memory ---------------------------------------------------------- */

/* Writes the entries of the block to the second half of the pool of each query. */
template <typename A>
static __global__ void __launch_bounds__(THREADS)
    write_entries(const __grid_constant__ struct td_cuda_search_args args)
{
    const int64_t half = args.best_pitch / 2, step = (int64_t)gridDim.x * THREADS;
    const struct td_cuda_scored none = { 0, 0 };
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; t < args.n_queries * half; t += step) {
        int64_t i;
        const int64_t query = divide(t, half, &i);
        args.best[query * args.best_pitch + half + i] =
            i < args.n ? entry_of<A>(args, query, i, none) : none;
    }
}

/* Sorts runs of the sizes sort_from to sort_size within tiles of the pools. */
static __global__ void __launch_bounds__(THREADS)
    sort_tiles(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ struct td_cuda_scored entries[POOL];
    const int64_t tiles = (args.best_pitch - args.sort_begin) / POOL;
    for (int64_t t = blockIdx.x; t < args.n_queries * tiles; t += gridDim.x) {
        int64_t tile;
        const int64_t query = divide(t, tiles, &tile);
        const int64_t begin = args.sort_begin + tile * POOL;
        struct td_cuda_scored *from = args.best + query * args.best_pitch + begin;
        for (int i = (int)threadIdx.x; i < POOL; i += THREADS)
            entries[i] = from[i];
        sort_entries(entries, POOL, begin, args.sort_from, args.sort_size);
        for (int i = (int)threadIdx.x; i < POOL; i += THREADS)
            from[i] = entries[i];
        __syncthreads();
    }
}

/* Orders pairs of entries at the distance sort_stride, which is at least a tile. */
static __global__ void __launch_bounds__(THREADS)
    order_pairs(const __grid_constant__ struct td_cuda_search_args args)
{
    const int64_t pairs = (args.best_pitch - args.sort_begin) / 2;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; t < args.n_queries * pairs; t += step) {
        int64_t i;
        const int64_t query = divide(t, pairs, &i);
        const int64_t a = args.sort_begin + first_of_pair(i, args.sort_stride);
        struct td_cuda_scored *first = args.best + query * args.best_pitch + a;
        order_pair(first, first + args.sort_stride, (a & args.sort_size) == 0);
    }
}

/* Sorts runs of one size, whose halves are sorted, or, if the size is a tile, not sorted at all. */
static cudaError_t sort_runs(const struct td_cuda_search_args *runs, cudaStream_t stream)
{
    struct td_cuda_search_args step = *runs;
    const struct td_cuda_search_args *const args = &step;
    const int64_t entries = args->n_queries * (args->best_pitch - args->sort_begin);
    const unsigned int blocks = grid_blocks(ceil_div(entries / 2, THREADS));
    const unsigned int tiles = grid_blocks(entries / POOL);
    for (step.sort_stride = step.sort_size / 2; step.sort_stride >= POOL; step.sort_stride /= 2) {
        order_pairs<<<blocks, THREADS, 0, stream>>>(*args);
        const cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess)
            return error;
    }
    step.sort_from = step.sort_size == POOL ? 2 : step.sort_size;
    sort_tiles<<<tiles, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

/* Sorts the second half of each pool, the best entry last, and then merges it with the first half,
 * which is sorted. */
cudaError_t td_cuda_search_sort(const struct td_cuda_search_args *base, cudaStream_t stream)
{
    struct td_cuda_search_args runs = *base;
    const struct td_cuda_search_args *const args = &runs;
    const int64_t half = args->best_pitch / 2;
    const unsigned int blocks = grid_blocks(ceil_div(args->n_queries * half, THREADS));
    if (args->is_double)
        write_entries<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        write_entries<float><<<blocks, THREADS, 0, stream>>>(*args);
    cudaError_t error = cudaGetLastError();
    runs.sort_begin = half;
    for (runs.sort_size = POOL; runs.sort_size <= half && error == cudaSuccess; runs.sort_size *= 2)
        error = sort_runs(args, stream);
    runs.sort_begin = 0;
    runs.sort_size = args->best_pitch;
    return error == cudaSuccess ? sort_runs(args, stream) : error;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

/* Writes the best rows. The places after the last row have the row -1 and the worst score. A
 * distance is stored as its negative until here. */
template <typename A>
static __global__ void __launch_bounds__(THREADS)
    write_best(const __grid_constant__ struct td_cuda_search_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; t < args.n_queries * args.k; t += step) {
        int64_t i;
        const int64_t query = divide(t, args.k, &i);
        const struct td_cuda_scored entry = args.best[query * args.best_pitch + i];
        const int64_t to = args.first_query * args.k + t;
        A score = -(A)INFINITY;
        if (entry.order != 0)
            score_of(entry.order, &score);
        ((A *)args.out_scores)[to] = args.metric == TD_CUDA_SEARCH_L2 ? 0 - score : score;
        args.out_indices[to] = entry.order != 0 ? entry.row : -1;
    }
}

cudaError_t td_cuda_search_write(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(ceil_div(args->n_queries * args->k, THREADS));
    if (args->is_double)
        write_best<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        write_best<float><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename A> static void load(cudaError_t *error)
{
    load_kernel(error, select_rows<A>);
    load_kernel(error, write_entries<A>);
    load_kernel(error, write_best<A>);
}

cudaError_t td_cuda_search_best_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, merge_found);
    load_kernel(&error, sort_tiles);
    load_kernel(&error, order_pairs);
    load<float>(&error);
    load<double>(&error);
    return error;
}
