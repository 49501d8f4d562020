/* sumprod.cu - sums of products over any loop nest: einsum's contractions that are neither matrix
 * products nor permutations. */
#include "gpu/cuda/kernels/compute.cuh"
#include "gpu/cuda/kernels/nest.cuh"

/* Terms that are added in the compute type before they are added to the accumulator: 1024 cost
 * float32 more than its last digit. */
#define RUN_TERMS 128

/* Terms that a thread loads before it adds the first. By Little's law a multiprocessor (one of 132 that share 4.8 TB/s at
 * 700 ns) needs 25 KB in flight. Its 1024 threads, of 64 registers, have 4 KB of float32 with one term each, and 16 KB
 * with four: 0.6 of the bandwidth; twice that with a second operand or float64. The order of additions does not
 * depend on it. Only for sums along one loop: with more, the divisions for an offset take longer than the load. */
#define LOADS 4

template <int compute, int loads>
static __device__ typename compute_traits<compute>::accumulator
sum_terms(const struct td_cuda_sumprod_args &args, const struct offsets &base, int64_t begin,
          int64_t end, int64_t step)
{
    typedef compute_traits<compute> C;
    typedef element_access<typename C::type> E;
    const struct td_cuda_loop *loops = args.loops + args.n_out_loops;
    typename C::accumulator total = {};
    for (int64_t s = begin; s < end;) {
        typename C::type run = {};
        for (int k = 0; k < RUN_TERMS && s < end; k += loads, s += loads * step) {
            typename C::type a[loads] = {}, b[loads] = {};
#pragma unroll
            for (int i = 0; i < loads; i++) {
                struct offsets at = base;
                if (s + i * step >= end)
                    continue;
                add_offsets(&at, loops, loads > 1 ? 1 : args.n_sum_loops, s + i * step);
                a[i] = E::load(args.a, at.of[TD_CUDA_A], args.storage[TD_CUDA_A]);
                if (args.b != NULL)
                    b[i] = E::load(args.b, at.of[TD_CUDA_B], args.storage[TD_CUDA_B]);
            }
#pragma unroll
            for (int i = 0; i < loads; i++) {
                if (s + i * step >= end)
                    continue;
                const typename C::type term = args.b != NULL ? a[i] * b[i] : a[i];
                /* A single term is not added to 0, which would turn -0 into 0. */
                run = args.n_sum == 1 ? term : run + term;
            }
        }
        total = args.n_sum == 1 ? C::widen(run) : total + C::widen(run);
    }
    return total;
}

/* Tree reduction in shared memory over the threads of one output, which are `distance` apart; the
 * result is valid in the first of them. */
template <typename W>
static __device__ W reduce_block(W value, W *shared, int y, int n, int distance)
{
    const int tid = (int)threadIdx.x;
    shared[tid] = value;
    __syncthreads();
    for (int half = n / 2; half > 0; half /= 2) {
        if (y < half)
            shared[tid] = shared[tid] + shared[tid + half * distance];
        __syncthreads();
    }
    value = shared[tid];
    __syncthreads(); /* before `shared` is reused */
    return value;
}

/* Thread (x, y) of a block: x along the outputs of a tile, y along the sum. */
template <int compute>
static __global__ void __launch_bounds__(THREADS)
    sumprod(const __grid_constant__ struct td_cuda_sumprod_args args)
{
    typedef compute_traits<compute> C;
    typedef typename C::accumulator W;
    __shared__ W shared[THREADS];
    const int tid = (int)threadIdx.x, out_threads = THREADS / args.sum_threads;
    const int x = args.lanes_along_sum ? tid / args.sum_threads : tid % out_threads;
    const int y = args.lanes_along_sum ? tid % args.sum_threads : tid / out_threads;
    const int64_t items = ceil_div(args.n_out, out_threads) * args.splits;
    /* All threads of a block iterate equally often, as reduce_block synchronizes them. */
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        int64_t split = 0;
        const int64_t tile = args.splits == 1 ? item : divide(item, args.splits, &split);
        const int64_t out = tile * out_threads + x;
        const int64_t begin = split * args.split_terms;
        const int64_t end =
            begin + args.split_terms < args.n_sum ? begin + args.split_terms : args.n_sum;
        struct offsets base = {};
        W total = {};
        if (out < args.n_out) {
            add_offsets(&base, args.loops, args.n_out_loops, out);
            total = args.n_sum_loops == 1 ? sum_terms<compute, LOADS>(args, base, begin + y, end,
                                                                      args.sum_threads)
                                          : sum_terms<compute, 1>(args, base, begin + y, end,
                                                                  args.sum_threads);
        }
        if (args.sum_threads > 1)
            total = reduce_block(total, shared, y, args.sum_threads,
                                 args.lanes_along_sum ? 1 : out_threads);
        if (y != 0 || out >= args.n_out)
            continue;
        if (args.splits > 1)
            ((W *)args.partial_sums)[split * args.n_out + out] = total;
        else
            element_access<typename C::type>::store(args.c, base.of[TD_CUDA_C],
                                                    args.storage[TD_CUDA_C], C::narrow(total));
    }
}

template <int compute>
static __global__ void __launch_bounds__(THREADS)
    add_partial_sums(const __grid_constant__ struct td_cuda_sumprod_args args)
{
    typedef compute_traits<compute> C;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t out = (int64_t)blockIdx.x * THREADS + threadIdx.x; out < args.n_out; out += step) {
        const typename C::accumulator *partial =
            (const typename C::accumulator *)args.partial_sums + out;
        typename C::accumulator total = partial[0];
        for (int64_t split = 1; split < args.splits; split++)
            total = total + partial[split * args.n_out];
        struct offsets at = {};
        add_offsets(&at, args.loops, args.n_out_loops, out);
        element_access<typename C::type>::store(args.c, at.of[TD_CUDA_C], args.storage[TD_CUDA_C],
                                                C::narrow(total));
    }
}

size_t td_cuda_accumulator_bytes(enum td_cuda_compute compute)
{
    size_t bytes = 0;
#define BYTES(compute) bytes = sizeof(compute_traits<compute>::accumulator)
    DISPATCH_COMPUTE(compute, BYTES)
#undef BYTES
    return bytes;
}

cudaError_t td_cuda_sumprod(const struct td_cuda_sumprod_args *args, cudaStream_t stream)
{
    const unsigned int blocks =
        grid_blocks(ceil_div(args->n_out, THREADS / args->sum_threads) * args->splits);
#define LAUNCH(compute) sumprod<compute><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->splits == 1)
        return error;
    const unsigned int add_blocks = grid_blocks(ceil_div(args->n_out, THREADS));
#define LAUNCH(compute) add_partial_sums<compute><<<add_blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
