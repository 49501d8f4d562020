/* top_k.cu - top_k: selects the best elements of each row, in order. Among equal elements, the
 * first one is better. */
#include "gpu/cuda/kernels/elements.cuh"
#include "gpu/cuda/kernels/pool.cuh"

/* Returns the position of element i of a row of `length` elements. */
static __device__ __forceinline__ int64_t place_of(const struct td_cuda_top_k_args &args,
                                                   int64_t row, int64_t length, int64_t i)
{
    int64_t column;
    const int64_t outer = divide(row, args.inner, &column);
    return (outer * length + i) * args.inner + column;
}

/* Selects the best k of the entries begin to end, which entry(i) returns, and leaves them in the
 * pool. All threads of the block must call this function. */
template <typename F>
static __device__ __forceinline__ void select_best(struct pool *pool, int64_t begin, int64_t end,
                                                   int64_t k, F entry)
{
    const struct td_cuda_scored none = { 0, INT64_MAX };
    begin_pool(pool, none);
    for (int64_t at = begin; at < end; at += PER_STEP) {
        struct td_cuda_scored entries[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t i = at + e * THREADS + threadIdx.x;
            entries[e] = i < end ? entry(i) : none;
        }
        add_entries(pool, entries, k);
    }
    keep_best(pool, k);
}

/* Writes the best elements of a row. */
static __device__ __forceinline__ void write_row(const struct td_cuda_top_k_args &args,
                                                 const struct pool *pool, int64_t row)
{
    for (int i = (int)threadIdx.x; i < args.k; i += THREADS) {
        const int64_t position = pool->entries[i].row, to = place_of(args, row, args.k, i);
        const uint64_t bits =
            load_bits(args.x, place_of(args, row, args.n, position), args.element_bytes);
        store_bits(args.values, to, args.element_bytes, bits);
        args.indices[to] = (int32_t)position;
    }
}

static __global__ void __launch_bounds__(THREADS)
    select_strips(const __grid_constant__ struct td_cuda_top_k_args args)
{
    __shared__ struct pool pool;
    const struct td_cuda_scored none = { 0, INT64_MAX };
    for (int64_t t = blockIdx.x; t < args.n_rows * args.strips; t += gridDim.x) {
        int64_t strip;
        const int64_t row = divide(t, args.strips, &strip);
        const int64_t begin = strip * args.strip;
        const int64_t end = begin + args.strip < args.n ? begin + args.strip : args.n;
        select_best(&pool, begin, end, args.k, [&](int64_t i) {
            const uint64_t bits =
                load_bits(args.x, place_of(args, row, args.n, i), args.element_bytes);
            const uint64_t order = order_of_element(bits, args.element, true);
            const struct td_cuda_scored entry = { args.largest ? order : ~order, i };
            return entry;
        });
        if (args.strips == 1) {
            write_row(args, &pool, row);
            continue;
        }
        for (int i = (int)threadIdx.x; i < args.k; i += THREADS)
            args.found[t * args.k + i] = i < (int)pool.count ? pool.entries[i] : none;
    }
}

static __global__ void __launch_bounds__(THREADS)
    join_strips(const __grid_constant__ struct td_cuda_top_k_args args)
{
    __shared__ struct pool pool;
    for (int64_t row = blockIdx.x; row < args.n_rows; row += gridDim.x) {
        const int64_t begin = row * args.strips * args.k;
        select_best(&pool, begin, begin + args.strips * args.k, args.k,
                    [&](int64_t i) { return args.found[i]; });
        write_row(args, &pool, row);
    }
}

cudaError_t td_cuda_top_k(const struct td_cuda_top_k_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(args->n_rows * args->strips);
    const unsigned int joining_blocks = grid_blocks(args->n_rows);
    select_strips<<<blocks, THREADS, 0, stream>>>(*args);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->strips == 1)
        return error;
    join_strips<<<joining_blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t td_cuda_top_k_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, select_strips);
    load_kernel(&error, join_strips);
    return error;
}
