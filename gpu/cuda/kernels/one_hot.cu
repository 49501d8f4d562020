/* one_hot.cu - one_hot. An index outside [0, depth) gives a row of zeros. */
#include "gpu/cuda/kernels/common.cuh"

#include <string.h>

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    one_hot(const __grid_constant__ struct td_cuda_one_hot_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    const V zero = {};
    V one;
    memcpy(&one, args.one, sizeof(one));
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n; i += step) {
        int64_t column;
        const int64_t row = divide(i, args.depth, &column);
        __stcs((V *)args.out + i,
               index_at(args.indices, args.index_bytes, row) == column ? one : zero);
    }
}

cudaError_t td_cuda_one_hot(const struct td_cuda_one_hot_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(ceil_div(args->n, THREADS));
#define LAUNCH(V) one_hot<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->element_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_one_hot_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(V) load_kernel(&error, one_hot<V>)
    EACH_VECTOR(LOAD);
#undef LOAD
    return error;
}
