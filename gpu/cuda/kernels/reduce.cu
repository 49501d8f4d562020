/* reduce.cu - reduces elements along any dimensions: sums, means, products, maxima, minima and
 * their positions. */
#include "gpu/cuda/kernels/groups.cuh"
#include "gpu/cuda/kernels/nest.cuh"
#include "gpu/cuda/kernels/reductions.cuh"

/* ---- Kernels --------------------------------------------------------------------------------- */

template <typename R>
static __device__ __forceinline__ void store_output(const struct td_cuda_reduce_args &args,
                                                    int64_t out, typename R::W all)
{
    store_bits(args.to, out, args.numbers.result_bytes, R::output(args.numbers, all, args.n));
}

/* Joins the elements begin, begin + threads, ... of an output at `base`. */
template <typename R>
static __device__ __forceinline__ typename R::W
reduce_range(const struct td_cuda_reduce_args &args, int64_t base, int64_t begin, int64_t end)
{
    typename R::W all = R::none();
    for (int64_t i = begin; i < end; i += args.threads) {
        struct offsets at = {};
        add_offsets(&at, args.loops + args.n_out_loops, args.n_loops, i);
        const uint64_t bits =
            load_bits(args.from, base + at.of[TD_CUDA_A], args.numbers.element_bytes);
        all = R::join(all, R::one(args.numbers, bits, i));
    }
    return all;
}

template <typename R>
static __global__ void __launch_bounds__(THREADS)
    reduce(const __grid_constant__ struct td_cuda_reduce_args args)
{
    typedef typename R::W W;
    __shared__ W shared[THREADS];
    const struct group_place place = group_place_of(args.threads, args.lanes_along_n);
    const int64_t items = ceil_div(args.n_out, place.groups) * args.splits;
    /* All threads of a block must iterate equally often, because join_group synchronizes them. */
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        int64_t split = 0;
        const int64_t tile = args.splits == 1 ? item : divide(item, args.splits, &split);
        const int64_t out = tile * place.groups + place.group;
        const int64_t begin = split * args.split_n;
        const int64_t end = begin + args.split_n < args.n ? begin + args.split_n : args.n;
        W all = R::none();
        if (out < args.n_out) {
            struct offsets base = {};
            add_offsets(&base, args.loops, args.n_out_loops, out);
            all = reduce_range<R>(args, base.of[TD_CUDA_A], begin + place.lane, end);
        }
        all = join_group<R>(all, shared, place);
        if (place.lane != 0 || out >= args.n_out)
            continue;
        if (args.splits > 1)
            ((W *)args.partial)[split * args.n_out + out] = all;
        else
            store_output<R>(args, out, all);
    }
}

template <typename R>
static __global__ void __launch_bounds__(THREADS)
    join_splits(const __grid_constant__ struct td_cuda_reduce_args args)
{
    typedef typename R::W W;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t out = (int64_t)blockIdx.x * THREADS + threadIdx.x; out < args.n_out; out += step) {
        const W *partial = (const W *)args.partial + out;
        W all = partial[0];
        for (int64_t split = 1; split < args.splits; split++)
            all = R::join(all, partial[split * args.n_out]);
        store_output<R>(args, out, all);
    }
}

cudaError_t td_cuda_reduce(const struct td_cuda_reduce_args *args, cudaStream_t stream)
{
    const int64_t tiles = ceil_div(args->n_out, THREADS / args->threads);
    const unsigned int blocks = grid_blocks(tiles * args->splits);
    const unsigned int joining_blocks = grid_blocks(ceil_div(args->n_out, THREADS));
#define LAUNCH(R) reduce<R><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_REDUCTION(args->numbers, LAUNCH);
#undef LAUNCH
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->splits == 1)
        return error;
#define LAUNCH(R) join_splits<R><<<joining_blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_REDUCTION(args->numbers, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_reduce_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(R)                                                                                    \
    load_kernel(&error, reduce<R>);                                                                \
    load_kernel(&error, join_splits<R>)
    EACH_REDUCTION(LOAD);
#undef LOAD
    return error;
}
