/* stitch.cu - dynamic_stitch and parallel_dynamic_stitch: rows of several tensors, put where their
 * indices say.
 *
 * First every output row learns which input row is its last, by a maximum, which is the same
 * whatever the order; then the output is written in its own order, each row once, zeros where there
 * is none. So equal indices cost no second write, and the result is always the same. */
#include "gpu/cuda/kernels/common.cuh"

/* The tensor that has input row `number`; one without rows may begin at the same number. */
static __device__ __forceinline__ const struct td_cuda_stitch_list *
list_of(const struct td_cuda_stitch &job, int64_t number)
{
    int low = 0, high = job.n_lists;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (job.lists[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &job.lists[low];
}

static __global__ void __launch_bounds__(THREADS)
    find_last(const __grid_constant__ struct td_cuda_stitch job)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.n_in; i += step) {
        const struct td_cuda_stitch_list *list = list_of(job, i);
        const int64_t to = index_at(list->indices, (int)list->index_bytes, i - list->first);
        if ((uint64_t)to < (uint64_t)job.n_out)
            atomicMax(&job.last[to], (unsigned int)(i + 1));
    }
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    fill_rows(const __grid_constant__ struct td_cuda_stitch job)
{
    const int64_t row_bytes = job.move.vectors * (int64_t)sizeof(V);
    struct group_walk walk = walk_groups(job.move, job.n_out);
    for (; walk.at < walk.end; walk.at += walk.step) {
        int64_t row = walk.at, part = 0;
        if (job.move.parts != 1)
            row = divide(walk.at, job.move.parts, &part);
        const char *from = NULL;
        const int64_t number = (int64_t)job.last[row] - 1;
        if (number >= 0) {
            const struct td_cuda_stitch_list *list = list_of(job, number);
            from = list->data + (number - list->first) * row_bytes;
        }
        move_part<V>(job.move, job.out + row * row_bytes, from, part, walk.lane);
    }
}

cudaError_t td_cuda_stitch(const struct td_cuda_stitch *job, cudaStream_t stream)
{
    cudaError_t error =
        cudaMemsetAsync(job->last, 0, (size_t)job->n_out * sizeof(job->last[0]), stream);
    if (error != cudaSuccess)
        return error;
    if (job->n_in > 0) {
        const unsigned int blocks = blocks_for((job->n_in + THREADS - 1) / THREADS);
        find_last<<<blocks, THREADS, 0, stream>>>(*job);
        error = cudaGetLastError();
        if (error != cudaSuccess)
            return error;
    }
    const unsigned int blocks = group_blocks(&job->move, job->n_out);
#define LAUNCH(V) fill_rows<V><<<blocks, THREADS, 0, stream>>>(*job)
    BY_VECTOR(job->move.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
