/* partition.cu - dynamic_partition: the numbers of the rows are sorted by pile, stably, and then
 * the rows are copied in that order. */
#include "gpu/cuda/kernels/common.cuh"

#include <cub/device/device_radix_sort.cuh>

/* Bits of the numbers 0 to n_piles, the last of which is where numbers out of range go. */
static int key_bits(int n_piles)
{
    int bits = 1;
    while (n_piles >> bits != 0)
        bits++;
    return bits;
}

cudaError_t td_cuda_partition_sort_bytes(int64_t n_rows, int n_piles, size_t *bytes)
{
    *bytes = 0;
    return cub::DeviceRadixSort::SortPairs(
        (void *)NULL, *bytes, (const uint16_t *)NULL, (uint16_t *)NULL, (const uint32_t *)NULL,
        (uint32_t *)NULL, (int)n_rows, 0, key_bits(n_piles), (cudaStream_t)0);
}

static __global__ void __launch_bounds__(THREADS)
    make_keys(const __grid_constant__ struct td_cuda_partition job)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.n_rows; i += step) {
        const int64_t number = index_at(job.numbers, job.number_bytes, i);
        const bool good = (uint64_t)number < (uint64_t)job.n_piles;
        job.key[0][i] = (uint16_t)(good ? number : job.n_piles);
        job.row[0][i] = (uint32_t)i;
    }
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    deal_rows(const __grid_constant__ struct td_cuda_partition job)
{
    const int64_t row_bytes = job.move.vectors * (int64_t)sizeof(V);
    struct group_walk walk = walk_groups(job.move, job.n_rows);
    for (; walk.at < walk.end; walk.at += walk.step) {
        int64_t i = walk.at, part = 0;
        if (job.move.parts != 1)
            i = divide(walk.at, job.move.parts, &part);
        const int pile = job.key[1][i];
        if (pile >= job.n_piles)
            continue;
        const struct td_cuda_pile *to = &job.piles[pile];
        if (i < to[0].begin || i >= to[1].begin)
            continue;
        move_part<V>(job.move, to->out + (i - to->begin) * row_bytes,
                     job.data + (int64_t)job.row[1][i] * row_bytes, part, walk.lane);
    }
}

cudaError_t td_cuda_partition(const struct td_cuda_partition *job, cudaStream_t stream)
{
    const unsigned int key_blocks = blocks_for((job->n_rows + THREADS - 1) / THREADS);
    make_keys<<<key_blocks, THREADS, 0, stream>>>(*job);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        return error;
    size_t bytes = job->sort_bytes;
    error = cub::DeviceRadixSort::SortPairs(job->sort, bytes, (const uint16_t *)job->key[0],
                                            job->key[1], (const uint32_t *)job->row[0], job->row[1],
                                            (int)job->n_rows, 0, key_bits(job->n_piles), stream);
    if (error != cudaSuccess)
        return error;
    const unsigned int blocks = group_blocks(&job->move, job->n_rows);
#define LAUNCH(V) deal_rows<V><<<blocks, THREADS, 0, stream>>>(*job)
    BY_VECTOR(job->move.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
