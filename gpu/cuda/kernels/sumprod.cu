/* sumprod.cu - sums of products over any loop nest: the contractions of einsum that are neither
 * matrix products nor permutations.
 *
 * Cost     The target is 0.6 of the memory bandwidth. On an H200, this is 2.9 TB/s, or 12.4 bytes
 *          per cycle for each of 132 multiprocessors at 1.755 GHz. A multiprocessor issues 128
 *          thread instructions per cycle. A term can therefore take up to 41 instructions in
 *          float32, 20 in float16 and 10 in int8. For a sum along one loop, nvcc 13 generates 5
 *          instructions per term in float32 (a load, two to advance the address, an addition, and a
 *          share of the loop) and 6 in float16, bfloat16 and int8, which need a conversion. For a
 *          sum of products, it generates twice as many instructions for twice the bytes. Wider
 *          loads would save some instructions, but would not increase the bandwidth and would make
 *          the order of additions depend on addresses.
 * */
#include "gpu/cuda/kernels/compute.cuh"
#include "gpu/cuda/kernels/nest.cuh"

/* Number of terms that are added in the compute type before their sum is added to the accumulator.
 * With 1024 terms, float32 would lose more than its last digit. */
#define RUN_TERMS 128

/* Minimum number of blocks per multiprocessor, which limits a thread to 64 registers, or to 80 if
 * sums have several loops. */
#define MIN_BLOCKS 4

/* Number of terms that a thread loads before it uses the first term. By Little's law, a
 * multiprocessor needs 25 KB in flight, because 132 multiprocessors share 4.8 TB/s at 700 ns. With
 * 16 terms, its 1024 threads of 64 registers have 64 KB in flight in float32, 32 KB in float16 and
 * 16 KB in int8. Two operands with 8 terms each have the same number of bytes in flight. With
 * several summed loops, a thread loads half as many terms, because their addresses also need
 * registers. The order of additions does not depend on the number of terms in flight. */
template <typename T, bool has_b, bool nested> struct under_way {
    enum {
        most = (sizeof(T) <= 4   ? 16
                : sizeof(T) == 8 ? 8
                                 : 4) /
               (has_b ? 2 : 1),
        terms = nested ? most / 2 : most
    };
};

/* Types for loading elements smaller than RAW. */
template <typename RAW> struct narrow_raw {
    typedef RAW one, two;
};
template <> struct narrow_raw<uint32_t> {
    typedef uint8_t one;
    typedef uint16_t two;
};

/* The addresses of a thread's next term in the operands. The terms of a thread are numbered begin,
 * begin + step, and so on. The cursor only adds strides within the last loop, and divides only at
 * its end. */
template <bool nested> struct term_cursor {
    const char *at[2]; /* indexed by TD_CUDA_A, TD_CUDA_B */
    /* Number of the term, counted over all loops and within the last loop. */
    int64_t term, inner;
};

template <typename E, bool has_b, bool nested>
static __device__ __forceinline__ void seek_term(struct term_cursor<nested> &cursor,
                                                 const struct td_cuda_sumprod_args &args,
                                                 const struct offsets &base, int64_t term)
{
    constexpr int n_operands = has_b ? 2 : 1;
    const struct td_cuda_loop *loops = args.loops + args.n_out_loops;
    int64_t to[2] = { base.of[TD_CUDA_A], base.of[TD_CUDA_B] };
    int64_t at = term, rest = 0;
    if (nested) {
        rest = divide(term, args.last_extent, &at);
        cursor.term = term;
        cursor.inner = at;
    }
#pragma unroll
    for (int o = 0; o < n_operands; o++)
        to[o] += at * loops[nested ? args.n_sum_loops - 1 : 0].stride[o];
#pragma unroll 1 /* inlined for each term */
    for (int l = args.n_sum_loops - 2; nested && l >= 0; l--) {
        at = rest;
        if (l > 0)
            rest = divide(rest, loops[l].extent, &at);
#pragma unroll
        for (int o = 0; o < n_operands; o++)
            to[o] += at * loops[l].stride[o];
    }
#pragma unroll
    for (int o = 0; o < n_operands; o++)
        cursor.at[o] =
            (const char *)(o == TD_CUDA_A ? args.a : args.b) + to[o] * E::bytes(args.storage[o]);
}

template <typename E, bool has_b, bool nested>
static __device__ __forceinline__ void next_term(struct term_cursor<nested> &cursor,
                                                 const struct td_cuda_sumprod_args &args,
                                                 const struct offsets &base)
{
    cursor.at[TD_CUDA_A] += args.term_stride[TD_CUDA_A];
    if (has_b)
        cursor.at[TD_CUDA_B] += args.term_stride[TD_CUDA_B];
    if (!nested)
        return;
    cursor.inner += args.sum_threads;
    cursor.term += args.sum_threads;
    if (cursor.inner >= args.last_extent)
        seek_term<E, has_b, nested>(cursor, args, base, cursor.term);
}

/* Issues the loads of all n terms, or of the first `count` terms, without waiting for any of the
 * loads. */
template <typename W, bool all, typename RAW, int n>
static __device__ __forceinline__ void load_along(RAW (&to)[n], const char *from, int64_t stride,
                                                  int count)
{
#pragma unroll
    for (int i = 0; i < n; i++, from += stride)
        if (all || i < count)
            to[i] = (RAW) * (const W *)from;
}

template <typename W, bool all, typename RAW, int n>
static __device__ __forceinline__ void load_from(RAW (&to)[n], const char *const (&from)[n],
                                                 int count)
{
#pragma unroll
    for (int i = 0; i < n; i++)
        if (all || i < count)
            to[i] = (RAW) * (const W *)from[i];
}

/* Calls LOAD with the type of an element of the given size in bytes. */
#define DISPATCH_RAW(bytes, LOAD)                                                                  \
    if (sizeof(RAW) > 4 || (bytes) == 4)                                                           \
        LOAD(RAW);                                                                                 \
    else if ((bytes) == 2)                                                                         \
        LOAD(typename narrow_raw<RAW>::two);                                                       \
    else                                                                                           \
        LOAD(typename narrow_raw<RAW>::one)

/* Adds all n terms, or the first `count` terms, to a run, and moves the cursor past these terms. */
template <int compute, bool has_b, bool nested, bool all, int n>
static __device__ __forceinline__ void
add_terms(typename compute_traits<compute>::type &run, struct term_cursor<nested> &cursor,
          const struct td_cuda_sumprod_args &args, const struct offsets &base, int count)
{
    typedef typename compute_traits<compute>::type T;
    typedef element_access<T> E;
    typedef typename E::RAW RAW;
    RAW raw[has_b ? 2 : 1][n] = {};
    T value[has_b ? 2 : 1][n];
    const char *from[2][n];
    if (nested) {
#pragma unroll
        for (int i = 0; i < n; i++) {
            from[TD_CUDA_A][i] = cursor.at[TD_CUDA_A];
            from[TD_CUDA_B][i] = cursor.at[TD_CUDA_B];
            next_term<E, has_b, nested>(cursor, args, base);
        }
    }
#pragma unroll
    for (int o = 0; o < (has_b ? 2 : 1); o++) {
#define LOAD_FROM(W)  load_from<W, all>(raw[o], from[o], count)
#define LOAD_ALONG(W) load_along<W, all>(raw[o], cursor.at[o], args.term_stride[o], count)
        if (nested) {
            DISPATCH_RAW(E::bytes(args.storage[o]), LOAD_FROM);
        } else {
            DISPATCH_RAW(E::bytes(args.storage[o]), LOAD_ALONG);
            cursor.at[o] += n * args.term_stride[o];
        }
#undef LOAD_FROM
#undef LOAD_ALONG
    }
#pragma unroll
    for (int o = 0; o < (has_b ? 2 : 1); o++)
        E::convert(value[o], raw[o], args.storage[o]);
#pragma unroll
    for (int i = 0; i < n; i++)
        if (all || i < count)
            run = run + (has_b ? value[0][i] * value[has_b ? 1 : 0][i] : value[0][i]);
}

/* Returns the only term of a sum. Does not add it to 0, which would turn -0 into 0. */
template <int compute, bool has_b>
static __device__ __forceinline__ typename compute_traits<compute>::accumulator
only_term(const struct td_cuda_sumprod_args &args, const struct offsets &base)
{
    typedef compute_traits<compute> C;
    typedef element_access<typename C::type> E;
    const typename C::type a = E::load(args.a, base.of[TD_CUDA_A], args.storage[TD_CUDA_A]);
    if (!has_b)
        return C::widen(a);
    return C::widen(a * E::load(args.b, base.of[TD_CUDA_B], args.storage[TD_CUDA_B]));
}

template <int compute, bool has_b, bool nested>
static __device__ typename compute_traits<compute>::accumulator
sum_terms(const struct td_cuda_sumprod_args &args, const struct offsets &base, int64_t begin,
          int64_t end)
{
    typedef compute_traits<compute> C;
    typedef element_access<typename C::type> E;
    constexpr int n = under_way<typename C::type, has_b, nested>::terms;
    typename C::accumulator total = {};
    struct term_cursor<nested> cursor = {
    };
    if (begin >= end)
        return total;
    seek_term<E, has_b, nested>(cursor, args, base, begin);
    int64_t left = (end - begin + args.sum_threads - 1) >> args.sum_threads_log2;
    while (left > 0) {
        const int terms = left < RUN_TERMS ? (int)left : RUN_TERMS;
        typename C::type run = {};
        int k = 0;
        for (; k + n <= terms; k += n)
            add_terms<compute, has_b, nested, true, n>(run, cursor, args, base, n);
        if (k < terms)
            add_terms<compute, has_b, nested, false, n>(run, cursor, args, base, terms - k);
        total = total + C::widen(run);
        left -= terms;
    }
    return total;
}

/* Adds the values of the threads of one output by tree reduction in shared memory. The threads are
 * `distance` apart. The result is valid in the first of these threads. */
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

/* Position (x, y) of a thread in its block: x counts outputs within a tile, and y counts along the
 * sum. */
template <int compute, bool has_b, bool nested>
static __global__ void __launch_bounds__(THREADS, nested ? MIN_BLOCKS - 1 : MIN_BLOCKS)
    sumprod(const __grid_constant__ struct td_cuda_sumprod_args args)
{
    typedef compute_traits<compute> C;
    typedef typename C::accumulator W;
    __shared__ W shared[THREADS];
    const int tid = (int)threadIdx.x, out_threads = THREADS / args.sum_threads;
    const int x = args.lanes_along_sum ? tid / args.sum_threads : tid % out_threads;
    const int y = args.lanes_along_sum ? tid % args.sum_threads : tid / out_threads;
    const int64_t items = ceil_div(args.n_out, out_threads) * args.splits;
    /* All threads of a block must iterate equally often, because reduce_block synchronizes them. */
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
            total = args.n_sum == 1 ? only_term<compute, has_b>(args, base)
                                    : sum_terms<compute, has_b, nested>(args, base, begin + y, end);
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
    const bool nested = args->n_sum_loops > 1;
    if (args->b == NULL && nested) {
#define LAUNCH(compute) sumprod<compute, false, true><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    } else if (args->b == NULL) {
#define LAUNCH(compute) sumprod<compute, false, false><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    } else if (nested) {
#define LAUNCH(compute) sumprod<compute, true, true><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    } else {
#define LAUNCH(compute) sumprod<compute, true, false><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    }
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->splits == 1)
        return error;
    const unsigned int add_blocks = grid_blocks(ceil_div(args->n_out, THREADS));
#define LAUNCH(compute) add_partial_sums<compute><<<add_blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_sumprod_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(compute)                                                                              \
    load_kernel(&error, sumprod<compute, false, false>);                                           \
    load_kernel(&error, sumprod<compute, false, true>);                                            \
    load_kernel(&error, sumprod<compute, true, false>);                                            \
    load_kernel(&error, sumprod<compute, true, true>);                                             \
    load_kernel(&error, add_partial_sums<compute>)
    EACH_COMPUTE(LOAD);
#undef LOAD
    return error;
}
