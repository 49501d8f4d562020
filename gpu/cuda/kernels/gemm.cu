/* gemm.cu - matrix products that cuBLAS does not support, which are products of integers and, if
 * cuBLAS is not available, products of all dtypes.
 *
 * A block computes a 64 x 64 tile of C from strips of A and B in shared memory, and each thread
 * computes 4 x 4 elements of the tile. Every element is one chain of multiply-adds over k. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/compute.cuh"

#define TILE       64
#define STRIP      8 /* length along k */
#define PER_THREAD 4 /* THREADS = (TILE / PER_THREAD)^2 */

/* Loads a strip as [k][i] or [k][j], with zeros outside the matrix. If k has stride 1, neighbouring
 * threads load along k. */
template <typename T>
static __device__ __forceinline__ void
load_strip(T (*strip)[TILE], const void *from, enum td_cuda_storage storage, int64_t base,
           int64_t i, int64_t n_i, int64_t i_stride, int64_t k, int64_t n_k, int64_t k_stride)
{
    for (int e = (int)threadIdx.x; e < TILE * STRIP; e += THREADS) {
        const int dk = k_stride == 1 ? e % STRIP : e / TILE;
        const int di = k_stride == 1 ? e / STRIP : e % TILE;
        T value = {};
        if (i + di < n_i && k + dk < n_k)
            value = element_access<T>::load(from, base + (i + di) * i_stride + (k + dk) * k_stride,
                                            storage);
        strip[dk][di] = value;
    }
}

template <int compute>
static __global__ void __launch_bounds__(THREADS)
    gemm(const __grid_constant__ struct td_cuda_gemm_args args)
{
    typedef typename compute_traits<compute>::type T;
    __shared__ T a_strip[STRIP][TILE], b_strip[STRIP][TILE];
    const int tx = (int)threadIdx.x % (TILE / PER_THREAD);
    const int ty = (int)threadIdx.x / (TILE / PER_THREAD);
    const int64_t m_tiles = ceil_div(args.m, TILE), n_tiles = ceil_div(args.n, TILE);
    for (int64_t t = blockIdx.x; t < args.batch * m_tiles * n_tiles; t += gridDim.x) {
        int64_t i, j;
        const int64_t rest = divide(t, n_tiles, &j);
        int64_t matrix = divide(rest, m_tiles, &i), base[3] = { 0, 0, 0 };
        i *= TILE;
        j *= TILE;
        for (int l = args.n_loops - 1; l >= 0; l--) {
            int64_t at;
            matrix = divide(matrix, args.loops[l].extent, &at);
            for (int o = 0; o < 3; o++)
                base[o] += at * args.loops[l].stride[o];
        }
        T sum[PER_THREAD][PER_THREAD] = {};
        for (int64_t k = 0; k < args.k; k += STRIP) {
            load_strip<T>(a_strip, args.a, args.storage[TD_CUDA_A], base[TD_CUDA_A], i, args.m,
                          args.a_m, k, args.k, args.a_k);
            load_strip<T>(b_strip, args.b, args.storage[TD_CUDA_B], base[TD_CUDA_B], j, args.n,
                          args.b_n, k, args.k, args.b_k);
            __syncthreads();
            /* Stops at the end of k, because zero padding times infinity would be NaN. */
            const int depth = args.k - k < STRIP ? (int)(args.k - k) : STRIP;
            for (int dk = 0; dk < depth; dk++)
                for (int r = 0; r < PER_THREAD; r++)
                    for (int c = 0; c < PER_THREAD; c++)
                        sum[r][c] = sum[r][c] + a_strip[dk][ty + r * (TILE / PER_THREAD)] *
                                                    b_strip[dk][tx + c * (TILE / PER_THREAD)];
            __syncthreads();
        }
        for (int r = 0; r < PER_THREAD; r++) {
            const int64_t row = i + ty + r * (TILE / PER_THREAD);
            for (int c = 0; c < PER_THREAD; c++) {
                const int64_t column = j + tx + c * (TILE / PER_THREAD);
                if (row < args.m && column < args.n)
                    element_access<T>::store(args.c,
                                             base[TD_CUDA_C] + row * args.c_m + column * args.c_n,
                                             args.storage[TD_CUDA_C], sum[r][c]);
            }
        }
    }
}

cudaError_t td_cuda_gemm(const struct td_cuda_gemm_args *args, cudaStream_t stream)
{
    const unsigned int blocks =
        grid_blocks(args->batch * ceil_div(args->m, TILE) * ceil_div(args->n, TILE));
#define LAUNCH(compute) gemm<compute><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_COMPUTE(args->compute, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_gemm_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(compute) load_kernel(&error, gemm<compute>)
    EACH_COMPUTE(LOAD);
#undef LOAD
    return error;
}
