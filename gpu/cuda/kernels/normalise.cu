/* normalise.cu - softmax, log_softmax, l2_normalize and layer_norm.
 *
 * The threads of a group reduce its elements once or twice, and then compute its outputs. Each pass
 * reads the elements again, from a cache if the group fits. Sums are double. */
#include "gpu/cuda/kernels/elements.cuh"
#include "gpu/cuda/kernels/groups.cuh"

#include <math.h>

/* ---- A group --------------------------------------------------------------------------------- */

/* The group of a thread, and its element `lane`. A is the type in which elements are computed. */
template <typename A> struct group_elements {
    const struct td_cuda_normalise_args &args;
    int64_t base, begin, step;

    __device__ __forceinline__ A operator[](int64_t i) const
    {
        return read_bits<A>(load_bits(args.x, base + i * args.inner, args.element_bytes),
                            args.element);
    }
    __device__ __forceinline__ void store(int64_t i, A value) const
    {
        store_bits(args.out, base + i * args.inner, args.element_bytes,
                   round_result(value, args.element));
    }
};

struct join_larger {
    static __device__ __forceinline__ double join(double a, double b)
    {
        return b > a ? b : a;
    }
};

struct join_sum {
    static __device__ __forceinline__ double join(double a, double b)
    {
        return a + b;
    }
};

static __device__ __forceinline__ float exp_of(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exp_of(double x)
{
    return exp(x);
}

/* Joins term(i) over the elements of the group. For a thread without a group, begin is args.n. */
template <typename J, typename F>
static __device__ __forceinline__ double
join_terms(const struct td_cuda_normalise_args &args, int64_t begin, int64_t step, double none,
           double *shared, const struct group_place &place, F term)
{
    double all = none;
    for (int64_t i = begin; i < args.n; i += step)
        all = J::join(all, term(i));
    return join_group<J>(all, shared, place);
}

/* ---- The methods ----------------------------------------------------------------------------- */

template <typename A>
static __device__ void softmax(const struct group_elements<A> &x, double *shared,
                               const struct group_place &place)
{
    const struct td_cuda_normalise_args &args = x.args;
    const A shift = (A)join_terms<join_larger>(args, x.begin, x.step, -(double)INFINITY, shared,
                                               place, [&](int64_t i) { return (double)x[i]; });
    const double sum =
        join_terms<join_sum>(args, x.begin, x.step, 0, shared, place,
                             [&](int64_t i) { return (double)exp_of(x[i] - shift); });
    const A factor = (A)(1 / sum), logarithm = (A)log(sum);
    for (int64_t i = x.begin; i < args.n; i += x.step)
        x.store(i, args.normalisation == TD_CUDA_SOFTMAX ? exp_of(x[i] - shift) * factor
                                                         : x[i] - shift - logarithm);
}

template <typename A>
static __device__ void l2_normalize(const struct group_elements<A> &x, double *shared,
                                    const struct group_place &place)
{
    const struct td_cuda_normalise_args &args = x.args;
    const double sum = join_terms<join_sum>(args, x.begin, x.step, 0, shared, place,
                                            [&](int64_t i) { return (double)x[i] * (double)x[i]; });
    const A factor = (A)(1 / sqrt(sum < args.epsilon ? args.epsilon : sum)); /* NaN stays NaN */
    for (int64_t i = x.begin; i < args.n; i += x.step)
        x.store(i, x[i] * factor);
}

template <typename A>
static __device__ __forceinline__ A factor_at(const struct td_cuda_normalise_args &args, int which,
                                              int64_t i)
{
    const int64_t at = strided_at(args.extent, args.stride[which], args.rank, i);
    return read_bits<A>(load_bits(args.factors[which], at, args.element_bytes), args.element);
}

template <typename A>
static __device__ void layer_norm(const struct group_elements<A> &x, double *shared,
                                  const struct group_place &place)
{
    const struct td_cuda_normalise_args &args = x.args;
    const double mean = join_terms<join_sum>(args, x.begin, x.step, 0, shared, place,
                                             [&](int64_t i) { return (double)x[i]; }) /
                        (double)args.n;
    const double squares =
        join_terms<join_sum>(args, x.begin, x.step, 0, shared, place, [&](int64_t i) {
            const double deviation = (double)x[i] - mean;
            return deviation * deviation;
        });
    const double factor = 1 / sqrt(squares / (double)args.n + args.epsilon);
    for (int64_t i = x.begin; i < args.n; i += x.step) {
        const A scaled = (A)(((double)x[i] - mean) * factor) * factor_at<A>(args, 0, i);
        x.store(i, args.factors[1] ? scaled + factor_at<A>(args, 1, i) : scaled);
    }
}

/* ---- Kernel ---------------------------------------------------------------------------------- */

template <typename A>
static __global__ void __launch_bounds__(THREADS)
    normalise(const __grid_constant__ struct td_cuda_normalise_args args)
{
    __shared__ double shared[THREADS];
    /* If inner is 1, neighbouring elements belong to the same group. */
    const struct group_place place = group_place_of(args.threads, args.inner == 1);
    const int64_t tiles = ceil_div(args.n_groups, place.groups);
    /* All threads of a block must iterate equally often, because join_group synchronizes them. */
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t group = tile * place.groups + place.group;
        int64_t column;
        const int64_t row = divide(group, args.inner, &column);
        const struct group_elements<A> x = {
            args, row *args.n *args.inner + column, group < args.n_groups ? place.lane : args.n,
                args.threads
        };
        if (args.normalisation == TD_CUDA_LAYER_NORM)
            layer_norm(x, shared, place);
        else if (args.normalisation == TD_CUDA_L2_NORMALIZE)
            l2_normalize(x, shared, place);
        else
            softmax(x, shared, place);
    }
}

cudaError_t td_cuda_normalise(const struct td_cuda_normalise_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(ceil_div(args->n_groups, THREADS / args->threads));
    if (args->element == TD_CUDA_ELEMENT_FLOAT64)
        normalise<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        normalise<float><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t td_cuda_normalise_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, normalise<float>);
    load_kernel(&error, normalise<double>);
    return error;
}
