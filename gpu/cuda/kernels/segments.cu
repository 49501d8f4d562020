/* segments.cu - reduces the rows of each segment. Ids are sorted, so the rows of a segment are
 * found by binary search. If the ids are not sorted, the results are wrong, but no access is out of
 * bounds. */
#include "gpu/cuda/kernels/groups.cuh"
#include "gpu/cuda/kernels/reductions.cuh"

/* Returns the first row whose id is at least `id`, or n. */
static __device__ __forceinline__ int64_t first_row(const struct td_cuda_segments_args &args,
                                                    int64_t id)
{
    int64_t low = 0, high = args.n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (index_at(args.ids, args.id_bytes, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the result of a segment without rows: 1 for products, otherwise 0. */
static __device__ __forceinline__ uint64_t empty_result(const struct td_cuda_reduced &numbers)
{
    return numbers.reduction == TD_CUDA_REDUCE_PROD ? convert((uint64_t)1, numbers.result) : 0;
}

template <typename R>
static __global__ void __launch_bounds__(THREADS)
    segments(const __grid_constant__ struct td_cuda_segments_args args)
{
    typedef typename R::W W;
    __shared__ W shared[THREADS];
    const struct group_place place = group_place_of(args.threads, args.columns == 1);
    const int64_t n_out = args.n_segments * args.columns, tiles = ceil_div(n_out, place.groups);
    /* All threads of a block must iterate equally often, because join_group synchronizes them. */
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t out = tile * place.groups + place.group;
        int64_t column, begin = 0, end = 0;
        const int64_t segment = divide(out, args.columns, &column);
        if (out < n_out) {
            begin = first_row(args, segment);
            end = first_row(args, segment + 1);
        }
        W all = R::none();
        for (int64_t row = begin + place.lane; row < end; row += args.threads)
            all = R::join(all, R::one(args.numbers,
                                      load_bits(args.data, row * args.columns + column,
                                                args.numbers.element_bytes),
                                      row));
        all = join_group<R>(all, shared, place);
        if (place.lane == 0 && out < n_out)
            store_bits(args.out, out, args.numbers.result_bytes,
                       begin < end ? R::output(args.numbers, all, end - begin)
                                   : empty_result(args.numbers));
    }
}

cudaError_t td_cuda_segments(const struct td_cuda_segments_args *args, cudaStream_t stream)
{
    const unsigned int blocks =
        grid_blocks(ceil_div(args->n_segments * args->columns, THREADS / args->threads));
#define LAUNCH(R) segments<R><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_REDUCTION(args->numbers, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_segments_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(R) load_kernel(&error, segments<R>)
    EACH_REDUCTION(LOAD);
#undef LOAD
    return error;
}
