/* elementwise.cu - elementwise ops: one kernel that interprets a chain of steps, so that a chain
 * reads and writes memory once. A single op is a chain of one step.
 *
 * Each step costs a few branches, which all threads take alike. A thread computes several elements
 * at a time to spread this cost. The results of steps are kept as bits, rounded to their element
 * type, so a chain returns the same bits as single ops. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/elements.cuh"

#include <float.h>
#include <math.h>

/* ---- Arithmetic ------------------------------------------------------------------------------ */

template <typename A> struct is_integer {
    static const bool value = true;
};
template <> struct is_integer<float> {
    static const bool value = false;
};
template <> struct is_integer<double> {
    static const bool value = false;
};

/* Integers are computed modulo 2^64 without signed overflow. */
#define WRAPPED(name, operation)                                                                   \
    static __device__ __forceinline__ uint64_t name(uint64_t x, uint64_t y)                        \
    {                                                                                              \
        return x operation y;                                                                      \
    }                                                                                              \
    static __device__ __forceinline__ int64_t name(int64_t x, int64_t y)                           \
    {                                                                                              \
        return (int64_t)((uint64_t)x operation(uint64_t) y);                                       \
    }                                                                                              \
    static __device__ __forceinline__ float name(float x, float y)                                 \
    {                                                                                              \
        return x operation y;                                                                      \
    }                                                                                              \
    static __device__ __forceinline__ double name(double x, double y)                              \
    {                                                                                              \
        return x operation y;                                                                      \
    }
WRAPPED(sum_of, +)
WRAPPED(difference_of, -)
WRAPPED(product_of, *)

/* NaN wins: the comparisons are false if y is NaN. */
template <typename A> static __device__ __forceinline__ A larger_of(A x, A y)
{
    return x > y || x != x ? x : y;
}

template <typename A> static __device__ __forceinline__ A smaller_of(A x, A y)
{
    return x < y || x != x ? x : y;
}

static __device__ __forceinline__ uint64_t negative_of(uint64_t x)
{
    return 0 - x;
}
static __device__ __forceinline__ int64_t negative_of(int64_t x)
{
    return (int64_t)(0 - (uint64_t)x);
}
static __device__ __forceinline__ float negative_of(float x)
{
    return -x;
}
static __device__ __forceinline__ double negative_of(double x)
{
    return -x;
}

static __device__ __forceinline__ uint64_t size_of(uint64_t x)
{
    return x;
}
static __device__ __forceinline__ int64_t size_of(int64_t x)
{
    return x < 0 ? negative_of(x) : x;
}
static __device__ __forceinline__ float size_of(float x)
{
    return fabsf(x);
}
static __device__ __forceinline__ double size_of(double x)
{
    return fabs(x);
}

static __device__ __forceinline__ uint64_t sign_of(uint64_t x)
{
    return x != 0;
}
template <typename A> static __device__ __forceinline__ A sign_of(A x)
{
    return x != x ? x : (A)((A)(x > (A)0) - (A)(x < (A)0));
}

/* A divisor that became 0 after the host has checked it is replaced by 1. */
static __device__ __forceinline__ uint64_t quotient_of(uint64_t x, uint64_t y)
{
    return x / (y + (y == 0));
}
static __device__ __forceinline__ int64_t quotient_of(int64_t x, int64_t y)
{
    if (y == -1) /* avoids the overflow of INT64_MIN / -1 */
        return negative_of(x);
    y += y == 0;
    return x / y - ((x % y != 0) & ((x < 0) != (y < 0)));
}
static __device__ __forceinline__ uint64_t remainder_of(uint64_t x, uint64_t y)
{
    return x - quotient_of(x, y) * (y + (y == 0));
}
static __device__ __forceinline__ int64_t remainder_of(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x - (uint64_t)quotient_of(x, y) * (uint64_t)(y + (y == 0)));
}

/* As in kernels/elementwise/loops.inc. */
#define FLOAT_QUOTIENT(type, suffix)                                                               \
    static __device__ __forceinline__ type remainder_of(type x, type y)                            \
    {                                                                                              \
        const type rest = fmod##suffix(x, y);                                                      \
        if (rest != 0)                                                                             \
            return (y < 0) != (rest < 0) ? rest + y : rest;                                        \
        return copysign##suffix((type)0, y);                                                       \
    }                                                                                              \
    static __device__ __forceinline__ type quotient_of(type x, type y)                             \
    {                                                                                              \
        if (y == 0)                                                                                \
            return x / y;                                                                          \
        const type rest = fmod##suffix(x, y);                                                      \
        const type borrow = rest != 0 && (y < 0) != (rest < 0) ? 1 : 0;                            \
        const type exact = (x - rest) / y - borrow, whole = floor##suffix(exact);                  \
        return exact == 0 ? copysign##suffix((type)0, x / y)                                       \
                          : whole + (type)(exact - whole > (type)0.5);                             \
    }
FLOAT_QUOTIENT(float, f)
FLOAT_QUOTIENT(double, )

static __device__ __forceinline__ uint64_t power_of(uint64_t x, uint64_t y)
{
    uint64_t result = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1)
            result *= x;
    return result;
}
static __device__ __forceinline__ int64_t power_of(int64_t x, int64_t y)
{
    return (int64_t)power_of((uint64_t)x, (uint64_t)y);
}
static __device__ __forceinline__ float power_of(float x, float y)
{
    return powf(x, y);
}
static __device__ __forceinline__ double power_of(double x, double y)
{
    return pow(x, y);
}

/* ---- Functions of floats --------------------------------------------------------------------- */

#define FLOAT_FUNCTIONS(type, suffix)                                                              \
    static __device__ __forceinline__ type exp_of(type x)                                          \
    {                                                                                              \
        return exp##suffix(x);                                                                     \
    }                                                                                              \
    static __device__ __forceinline__ type log_of(type x)                                          \
    {                                                                                              \
        return log##suffix(x);                                                                     \
    }                                                                                              \
    static __device__ __forceinline__ type sqrt_of(type x)                                         \
    {                                                                                              \
        return sqrt##suffix(x);                                                                    \
    }                                                                                              \
    static __device__ __forceinline__ type tanh_of(type x)                                         \
    {                                                                                              \
        return tanh##suffix(x);                                                                    \
    }                                                                                              \
    static __device__ __forceinline__ type erf_of(type x)                                          \
    {                                                                                              \
        return erf##suffix(x);                                                                     \
    }                                                                                              \
    static __device__ __forceinline__ type floor_of(type x)                                        \
    {                                                                                              \
        return floor##suffix(x);                                                                   \
    }                                                                                              \
    static __device__ __forceinline__ type ceil_of(type x)                                         \
    {                                                                                              \
        return ceil##suffix(x);                                                                    \
    }                                                                                              \
    static __device__ __forceinline__ type round_of(type x)                                        \
    {                                                                                              \
        return rint##suffix(x);                                                                    \
    }
FLOAT_FUNCTIONS(float, f)
FLOAT_FUNCTIONS(double, )

template <typename A> static __device__ __forceinline__ A sigmoid_of(A x)
{
    const A e = exp_of(-size_of(x));
    return (x < 0 ? e : 1) / (1 + e);
}

template <typename A> static __device__ __forceinline__ A gelu_of(A x)
{
    return (A)0.5 * x * (1 + erf_of(x * (A)0.70710678118654752440));
}

template <typename A> static __device__ __forceinline__ A gelu_tanh_of(A x)
{
    return x * sigmoid_of(x * ((A)0.07135481627260025 * (x * x) + (A)1.5957691216057308));
}

/* ---- One step -------------------------------------------------------------------------------- */

/* X(name, result for x, y and z). The result has the type of x. */
#define NUMBER_OPS(X)                                                                              \
    X(add, sum_of(x, y))                                                                           \
    X(subtract, difference_of(x, y))                                                               \
    X(multiply, product_of(x, y))                                                                  \
    X(floor_divide, quotient_of(x, y))                                                             \
    X(floor_mod, remainder_of(x, y))                                                               \
    X(power, power_of(x, y))                                                                       \
    X(maximum, larger_of(x, y))                                                                    \
    X(minimum, smaller_of(x, y))                                                                   \
    X(negative, negative_of(x))                                                                    \
    X(abs, size_of(x))                                                                             \
    X(sign, sign_of(x))                                                                            \
    X(square, product_of(x, x))                                                                    \
    X(clip, smaller_of(larger_of(x, y), z))

#define FLOAT_OPS(X)                                                                               \
    X(divide, x / y)                                                                               \
    X(exp, exp_of(x))                                                                              \
    X(log, log_of(x))                                                                              \
    X(sqrt, sqrt_of(x))                                                                            \
    X(rsqrt, 1 / sqrt_of(x))                                                                       \
    X(reciprocal, 1 / x)                                                                           \
    X(tanh, tanh_of(x))                                                                            \
    X(sigmoid, sigmoid_of(x))                                                                      \
    X(erf, erf_of(x))                                                                              \
    X(relu, (x > 0 || x != x ? x : 0)) /* NaN stays NaN */                                         \
    X(gelu, gelu_of(x))                                                                            \
    X(gelu_tanh, gelu_tanh_of(x))                                                                  \
    X(floor, floor_of(x))                                                                          \
    X(ceil, ceil_of(x))                                                                            \
    X(round, round_of(x))

/* The result is bool. The operands of logical ops are bools, which are 0 or 1. */
#define TRUTH_OPS(X)                                                                               \
    X(equal, x == y)                                                                               \
    X(not_equal, x != y)                                                                           \
    X(less, x < y)                                                                                 \
    X(less_equal, x <= y)                                                                          \
    X(greater, x > y)                                                                              \
    X(greater_equal, x >= y)                                                                       \
    X(logical_and, x != 0 && y != 0)                                                               \
    X(logical_or, x != 0 || y != 0)                                                                \
    X(logical_xor, (x != 0) != (y != 0))                                                           \
    X(logical_not, x == 0)                                                                         \
    X(is_nan, x != x)                                                                              \
    X(is_finite, x - x == 0)

#define EACH_ELEMENT(expression)                                                                   \
    _Pragma("unroll") for (int k = 0; k < N; k++)                                                  \
    {                                                                                              \
        const A x = read_bits<A>(in[0][k], from), y = read_bits<A>(in[1][k], from),                \
                z = read_bits<A>(in[2][k], from);                                                  \
        (void)x, (void)y, (void)z;                                                                 \
        out[k] = (expression);                                                                     \
    }
#define NUMBER_CASE(name, expression)                                                              \
    case TD_CUDA_ELEMENTWISE_##name:                                                               \
        EACH_ELEMENT(round_result((A)(expression), result))                                        \
        return;
#define TRUTH_CASE(name, expression)                                                               \
    case TD_CUDA_ELEMENTWISE_##name:                                                               \
        EACH_ELEMENT((uint64_t)(expression))                                                       \
        return;

/* Computes ops that only floats have. */
template <typename A, int N>
static __device__ __forceinline__ void
compute_floats(int name, int from, int result, const uint64_t (&in)[3][N], uint64_t (&out)[N])
{
    switch (name) {
        FLOAT_OPS(NUMBER_CASE)
    }
}

/* Computes N elements of a step whose operands are computed as A. */
template <typename A, int N>
static __device__ __forceinline__ void compute(int name, int from, int result,
                                               const uint64_t (&in)[3][N], uint64_t (&out)[N])
{
    switch (name) {
        NUMBER_OPS(NUMBER_CASE)
        TRUTH_OPS(TRUTH_CASE)
    case TD_CUDA_ELEMENTWISE_cast:
        EACH_ELEMENT(convert(x, result))
        return;
    default:
        if constexpr (!is_integer<A>::value)
            compute_floats<A, N>(name, from, result, in, out);
    }
}

template <int N>
static __device__ __forceinline__ void compute_any(int name, int from, int result,
                                                   const uint64_t (&in)[3][N], uint64_t (&out)[N])
{
    const bool is_where = name == TD_CUDA_ELEMENTWISE_where;
    if (is_where || (name == TD_CUDA_ELEMENTWISE_cast && from == result)) { /* moves the bits */
#pragma unroll
        for (int k = 0; k < N; k++)
            out[k] = !is_where ? in[0][k] : in[0][k] != 0 ? in[1][k] : in[2][k];
        return;
    }
    if (from == TD_CUDA_ELEMENT_FLOAT64)
        compute<double, N>(name, from, result, in, out);
    else if (from >= TD_CUDA_ELEMENT_FLOAT16)
        compute<float, N>(name, from, result, in, out);
    else if (is_signed(from))
        compute<int64_t, N>(name, from, result, in, out);
    else
        compute<uint64_t, N>(name, from, result, in, out);
}

/* ---- A chain --------------------------------------------------------------------------------- */

/* Returns the position in an input of element i. */
static __device__ __forceinline__ int64_t repeated_at(const struct td_cuda_elementwise_args &args,
                                                      int input, int64_t i)
{
    if (args.inputs[input].repeat == TD_CUDA_REPEAT_NEVER)
        return i;
    if (args.inputs[input].repeat == TD_CUDA_REPEAT_SCALAR)
        return 0;
    return strided_at(args.extent, args.stride[input], args.rank, i);
}

/* Computes the N elements begin, begin + THREADS, ... of a thread. Elements past the end are
 * computed from zeros and not stored. */
template <int SLOTS, int N>
static __device__ __forceinline__ void run_chain(const struct td_cuda_elementwise_args &args,
                                                 int64_t begin)
{
    uint64_t slots[SLOTS][N];
    for (int s = 0; s < args.n_steps; s++) {
        const auto &step = args.steps[s];
        uint64_t in[3][N], out[N];
#pragma unroll
        for (int o = 0; o < 3; o++) {
            const int operand = step.operands[o];
#pragma unroll
            for (int k = 0; k < N; k++) {
                const int64_t i = begin + k * THREADS;
                if (o > 0 && operand == step.operands[0])
                    in[o][k] = in[0][k];
                else if (operand >= TD_CUDA_ELEMENTWISE_INPUTS)
                    in[o][k] = slots[operand - TD_CUDA_ELEMENTWISE_INPUTS][k];
                else
                    in[o][k] = i < args.n ? load_bits(args.inputs[operand].data,
                                                      repeated_at(args, operand, i),
                                                      args.inputs[operand].bytes)
                                          : 0;
            }
        }
        compute_any<N>(step.name, step.from, step.result, in, out);
#pragma unroll
        for (int k = 0; k < N; k++) {
            slots[step.slot][k] = out[k];
            if (step.to && begin + k * THREADS < args.n)
                store_bits(step.to, begin + k * THREADS, step.bytes, out[k]);
        }
    }
}

template <int SLOTS, int N>
static __global__ void __launch_bounds__(THREADS)
    elementwise(const __grid_constant__ struct td_cuda_elementwise_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS * N;
    for (int64_t i = (int64_t)blockIdx.x * THREADS * N + threadIdx.x; i < args.n; i += step)
        run_chain<SLOTS, N>(args, i);
}

/* Slots are in local memory, which a device reserves for all of its threads. Nearly all chains need
 * few slots, so a kernel with few slots reserves less. */
#define FEW_SLOTS 8
#define FEW_N     4

cudaError_t td_cuda_elementwise(const struct td_cuda_elementwise_args *args, cudaStream_t stream)
{
    if (args->n_slots <= FEW_SLOTS) {
        const unsigned int blocks = grid_blocks(ceil_div(args->n, THREADS * FEW_N));
        elementwise<FEW_SLOTS, FEW_N><<<blocks, THREADS, 0, stream>>>(*args);
    } else {
        const unsigned int blocks = grid_blocks(ceil_div(args->n, THREADS));
        elementwise<TD_CUDA_ELEMENTWISE_STEPS, 1><<<blocks, THREADS, 0, stream>>>(*args);
    }
    return cudaGetLastError();
}

cudaError_t td_cuda_elementwise_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, elementwise<FEW_SLOTS, FEW_N>);
    load_kernel(&error, elementwise<TD_CUDA_ELEMENTWISE_STEPS, 1>);
    return error;
}
