/* partition.cu - dynamic_partition: sorts the row numbers by bucket with a stable radix sort, then
 * copies the rows in that order. */
#include "gpu/cuda/kernels/common.cuh"

#include <cub/device/device_radix_sort.cuh>

/* Returns the number of bits of the keys 0 to n_buckets. Key n_buckets marks rows whose bucket is
 * out of range. */
static int key_bits(int n_buckets)
{
    int bits = 1;
    while (n_buckets >> bits != 0)
        bits++;
    return bits;
}

cudaError_t td_cuda_partition_sort_bytes(int64_t n_rows, int n_buckets, size_t *bytes)
{
    *bytes = 0;
    return cub::DeviceRadixSort::SortPairs(
        (void *)NULL, *bytes, (const uint16_t *)NULL, (uint16_t *)NULL, (const uint32_t *)NULL,
        (uint32_t *)NULL, (int)n_rows, 0, key_bits(n_buckets), (cudaStream_t)0);
}

static __global__ void __launch_bounds__(THREADS)
    make_keys(const __grid_constant__ struct td_cuda_partition_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_rows; i += step) {
        const int64_t bucket = index_at(args.partitions, args.index_bytes, i);
        const bool valid = (uint64_t)bucket < (uint64_t)args.n_buckets;
        args.keys[0][i] = (uint16_t)(valid ? bucket : args.n_buckets);
        args.rows[0][i] = (uint32_t)i;
    }
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    copy_rows(const __grid_constant__ struct td_cuda_partition_args args)
{
    const int64_t row_bytes = args.copy.vectors * (int64_t)sizeof(V);
    struct chunk_loop loop = chunk_loop_begin(args.copy, args.n_rows);
    for (; loop.i < loop.end; loop.i += loop.step) {
        int64_t chunk;
        const int64_t i = chunk_loop_row(loop, args.copy, &chunk);
        const int key = args.keys[1][i];
        if (key >= args.n_buckets)
            continue;
        const struct td_cuda_bucket *bucket = &args.buckets[key];
        if (i < bucket[0].begin || i >= bucket[1].begin)
            continue;
        copy_chunk<V>(args.copy, bucket->out + (i - bucket->begin) * row_bytes,
                      args.data + (int64_t)args.rows[1][i] * row_bytes, chunk, loop.lane);
    }
}

cudaError_t td_cuda_partition(const struct td_cuda_partition_args *args, cudaStream_t stream)
{
    const unsigned int key_blocks = grid_blocks(ceil_div(args->n_rows, THREADS));
    make_keys<<<key_blocks, THREADS, 0, stream>>>(*args);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        return error;
    size_t bytes = args->sort_bytes;
    error = cub::DeviceRadixSort::SortPairs(
        args->sort_workspace, bytes, (const uint16_t *)args->keys[0], args->keys[1],
        (const uint32_t *)args->rows[0], args->rows[1], (int)args->n_rows, 0,
        key_bits(args->n_buckets), stream);
    if (error != cudaSuccess)
        return error;
    const unsigned int blocks = chunk_loop_blocks(&args->copy, args->n_rows);
#define LAUNCH(V) copy_rows<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_partition_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, make_keys);
#define LOAD(V) load_kernel(&error, copy_rows<V>)
    EACH_VECTOR(LOAD);
#undef LOAD
    return error;
}
