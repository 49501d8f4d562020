/* stitch.cu - dynamic_stitch and parallel_dynamic_stitch: copies rows of several tensors to the
 * positions that their indices give.
 *
 * For each output row, the first kernel finds the last input row with its index. It uses atomicMax,
 * whose result does not depend on the order of threads. The second kernel writes each output row
 * once, in the order of the output, and writes zeros if there is no input row. Duplicate indices
 * therefore cause no second write, and results are deterministic. */
#include "gpu/cuda/kernels/common.cuh"

/* Returns the input that contains row `number`. An input without rows can have the same first_row
 * as the next input. */
static __device__ __forceinline__ const struct td_cuda_stitch_input *
input_of_row(const struct td_cuda_stitch_args &args, int64_t number)
{
    int low = 0, high = args.n_inputs;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (args.inputs[middle].first_row <= number)
            low = middle;
        else
            high = middle;
    }
    return &args.inputs[low];
}

static __global__ void __launch_bounds__(THREADS)
    find_sources(const __grid_constant__ struct td_cuda_stitch_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_in; i += step) {
        const struct td_cuda_stitch_input *input = input_of_row(args, i);
        const int64_t to = index_at(input->indices, (int)input->index_bytes, i - input->first_row);
        if ((uint64_t)to < (uint64_t)args.n_out)
            atomicMax(&args.source[to], (unsigned int)(i + 1));
    }
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    copy_rows(const __grid_constant__ struct td_cuda_stitch_args args)
{
    const int64_t row_bytes = args.copy.vectors * (int64_t)sizeof(V);
    struct chunk_loop loop = chunk_loop_begin(args.copy, args.n_out);
    for (; loop.i < loop.end; loop.i += loop.step) {
        int64_t chunk;
        const int64_t row = chunk_loop_row(loop, args.copy, &chunk);
        const char *from = NULL;
        const int64_t number = (int64_t)args.source[row] - 1;
        if (number >= 0) {
            const struct td_cuda_stitch_input *input = input_of_row(args, number);
            from = input->data + (number - input->first_row) * row_bytes;
        }
        copy_chunk<V>(args.copy, args.out + row * row_bytes, from, chunk, loop.lane);
    }
}

cudaError_t td_cuda_stitch(const struct td_cuda_stitch_args *args, cudaStream_t stream)
{
    cudaError_t error =
        cudaMemsetAsync(args->source, 0, (size_t)args->n_out * sizeof(args->source[0]), stream);
    if (error != cudaSuccess)
        return error;
    if (args->n_in > 0) {
        const unsigned int blocks = grid_blocks(ceil_div(args->n_in, THREADS));
        find_sources<<<blocks, THREADS, 0, stream>>>(*args);
        error = cudaGetLastError();
        if (error != cudaSuccess)
            return error;
    }
    const unsigned int blocks = chunk_loop_blocks(&args->copy, args->n_out);
#define LAUNCH(V) copy_rows<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_stitch_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, find_sources);
#define LOAD(V) load_kernel(&error, copy_rows<V>)
    EACH_VECTOR(LOAD);
#undef LOAD
    return error;
}
