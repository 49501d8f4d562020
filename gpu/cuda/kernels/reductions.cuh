/* reductions.cuh - sums, means, products, maxima and minima and their positions.
 *
 * Floats are added and multiplied as double, and rounded once. Maxima and minima compare integers
 * that sort as the elements do (order_of_element), so NaN and -0 need no special cases. */
#ifndef TD_GPU_CUDA_KERNELS_REDUCTIONS_CUH
#define TD_GPU_CUDA_KERNELS_REDUCTIONS_CUH

#include "gpu/cuda/kernels/elements.cuh"

#include <math.h>

/* ---- Reductions ------------------------------------------------------------------------------ */

/* A reduction is a type with these members: the type W of partial results; `none`, the result of no
 * elements; `one`, the result of one element; `join`, which joins two results; and a function that
 * returns the bits of the output. */
struct float_sum {
    typedef double W;
    static __device__ __forceinline__ W none()
    {
        return 0;
    }
    static __device__ __forceinline__ W one(const struct td_cuda_reduced &args, uint64_t bits,
                                            int64_t)
    {
        return read_float(bits, args.element);
    }
    static __device__ __forceinline__ W join(W a, W b)
    {
        return a + b;
    }
    static __device__ __forceinline__ uint64_t output(const struct td_cuda_reduced &args, W all,
                                                      int64_t n)
    {
        return round_double(args.reduction == TD_CUDA_REDUCE_MEAN ? all / (double)n : all,
                            args.result);
    }
};

struct float_product : float_sum {
    static __device__ __forceinline__ W none()
    {
        return 1;
    }
    static __device__ __forceinline__ W join(W a, W b)
    {
        return a * b;
    }
};

/* Adds modulo 2^64. The low bits of the sum are the sum modulo the width of the integer. */
struct integer_sum {
    typedef uint64_t W;
    static __device__ __forceinline__ W none()
    {
        return 0;
    }
    static __device__ __forceinline__ W one(const struct td_cuda_reduced &, uint64_t bits, int64_t)
    {
        return bits;
    }
    static __device__ __forceinline__ W join(W a, W b)
    {
        return a + b;
    }
    static __device__ __forceinline__ uint64_t output(const struct td_cuda_reduced &args, W all,
                                                      int64_t)
    {
        return round_result(all, args.result);
    }
};

struct integer_product : integer_sum {
    static __device__ __forceinline__ W none()
    {
        return 1;
    }
    static __device__ __forceinline__ W join(W a, W b)
    {
        return a * b;
    }
};

/* Finds the element with the largest order. Among equal elements, the lowest position wins. */
struct best_element {
    struct W {
        uint64_t order;
        int64_t position;
    };
    static __device__ __forceinline__ W none()
    {
        return { 0, INT64_MAX };
    }
    static __device__ __forceinline__ bool is_least(const struct td_cuda_reduced &args)
    {
        return args.reduction == TD_CUDA_REDUCE_MIN || args.reduction == TD_CUDA_REDUCE_ARGMIN;
    }
    /* NaN wins. The positions of 0 and -0 are equal. */
    static __device__ __forceinline__ W one(const struct td_cuda_reduced &args, uint64_t bits,
                                            int64_t position)
    {
        const bool is_position = args.reduction >= TD_CUDA_REDUCE_ARGMAX;
        const uint64_t order = order_of_element(bits, args.element, is_position);
        const bool is_nan = is_float(args.element) && order == ~(uint64_t)0;
        return { is_least(args) && !is_nan ? ~order : order, position };
    }
    static __device__ __forceinline__ W join(W a, W b)
    {
        return b.order > a.order || (b.order == a.order && b.position < a.position) ? b : a;
    }
    static __device__ __forceinline__ uint64_t output(const struct td_cuda_reduced &args, W all,
                                                      int64_t)
    {
        if (args.reduction >= TD_CUDA_REDUCE_ARGMAX)
            return (uint64_t)all.position;
        if (is_float(args.element) && all.order == ~(uint64_t)0)
            return round_double((double)NAN, args.result);
        const uint64_t order = is_least(args) ? ~all.order : all.order;
        if (is_float(args.element))
            return round_double(double_of_order(order), args.result);
        return round_result(is_signed(args.element) ? order ^ SIGN_BIT : order, args.result);
    }
};
static_assert(sizeof(best_element::W) == TD_CUDA_PARTIAL_BYTES, "size of the workspace");

/* Calls LAUNCH with the reduction. */
#define DISPATCH_REDUCTION(numbers, LAUNCH)                                                        \
    if ((numbers).reduction >= TD_CUDA_REDUCE_MAX)                                                 \
        LAUNCH(best_element);                                                                      \
    else if ((numbers).element >= TD_CUDA_ELEMENT_FLOAT16 &&                                       \
             (numbers).reduction == TD_CUDA_REDUCE_PROD)                                           \
        LAUNCH(float_product);                                                                     \
    else if ((numbers).element >= TD_CUDA_ELEMENT_FLOAT16)                                         \
        LAUNCH(float_sum);                                                                         \
    else if ((numbers).reduction == TD_CUDA_REDUCE_PROD)                                           \
        LAUNCH(integer_product);                                                                   \
    else                                                                                           \
        LAUNCH(integer_sum)

/* Calls LAUNCH for each reduction. */
#define EACH_REDUCTION(LAUNCH)                                                                     \
    LAUNCH(float_sum);                                                                             \
    LAUNCH(float_product);                                                                         \
    LAUNCH(integer_sum);                                                                           \
    LAUNCH(integer_product);                                                                       \
    LAUNCH(best_element)

#endif
