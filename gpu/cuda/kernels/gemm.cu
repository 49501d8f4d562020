/* product.cu - matrix products of what cuBLAS has no product for: integers, and all other dtypes
 * where there is no cuBLAS.
 *
 * A block makes a tile of 64 x 64 of C, each thread 4 x 4 of it, from strips of A and B in shared
 * memory. Every element is one chain of multiply-adds over k. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/compute.cuh"

#define SIDE  64
#define DEPTH 8
#define EACH  4 /* of THREADS = (SIDE / EACH)^2 */

/* A strip, [k][i] or [k][j], zero outside of the matrix; read along k where that moves by 1. */
template <typename T>
static __device__ __forceinline__ void load_strip(T (*strip)[SIDE], const void *from,
                                                  enum td_cuda_stored stored, int64_t base,
                                                  int64_t side, int64_t n_side, int64_t side_stride,
                                                  int64_t k, int64_t n_k, int64_t k_stride)
{
    for (int e = (int)threadIdx.x; e < SIDE * DEPTH; e += THREADS) {
        const int dk = k_stride == 1 ? e % DEPTH : e / SIDE;
        const int di = k_stride == 1 ? e / DEPTH : e % SIDE;
        T value = {};
        if (side + di < n_side && k + dk < n_k)
            value = elements<T>::load(from, base + (side + di) * side_stride + (k + dk) * k_stride,
                                      stored);
        strip[dk][di] = value;
    }
}

template <int compute>
static __global__ void __launch_bounds__(THREADS)
    product(const __grid_constant__ struct td_cuda_product job)
{
    typedef typename numbers<compute>::type T;
    __shared__ T a_strip[DEPTH][SIDE], b_strip[DEPTH][SIDE];
    const int tx = (int)threadIdx.x % (SIDE / EACH), ty = (int)threadIdx.x / (SIDE / EACH);
    const int64_t m_tiles = (job.m + SIDE - 1) / SIDE, n_tiles = (job.n + SIDE - 1) / SIDE;
    for (int64_t unit = blockIdx.x; unit < job.batch * m_tiles * n_tiles; unit += gridDim.x) {
        int64_t i, j;
        const int64_t rest = divide(unit, n_tiles, &j);
        int64_t item = divide(rest, m_tiles, &i), base[3] = { 0, 0, 0 };
        i *= SIDE;
        j *= SIDE;
        for (int l = job.n_loops - 1; l >= 0; l--) {
            int64_t at;
            item = divide(item, job.loops[l].extent, &at);
            for (int o = 0; o < 3; o++)
                base[o] += at * job.loops[l].stride[o];
        }
        T sum[EACH][EACH] = {};
        for (int64_t k = 0; k < job.k; k += DEPTH) {
            load_strip<T>(a_strip, job.a, job.stored[TD_CUDA_A], base[TD_CUDA_A], i, job.m, job.a_m,
                          k, job.k, job.a_k);
            load_strip<T>(b_strip, job.b, job.stored[TD_CUDA_B], base[TD_CUDA_B], j, job.n, job.b_n,
                          k, job.k, job.b_k);
            __syncthreads();
            /* Not beyond the end of k: zeros times an infinity are NaN. */
            const int depth = job.k - k < DEPTH ? (int)(job.k - k) : DEPTH;
            for (int dk = 0; dk < depth; dk++)
                for (int r = 0; r < EACH; r++)
                    for (int c = 0; c < EACH; c++)
                        sum[r][c] = sum[r][c] + a_strip[dk][ty + r * (SIDE / EACH)] *
                                                    b_strip[dk][tx + c * (SIDE / EACH)];
            __syncthreads();
        }
        for (int r = 0; r < EACH; r++) {
            const int64_t row = i + ty + r * (SIDE / EACH);
            for (int c = 0; c < EACH; c++) {
                const int64_t column = j + tx + c * (SIDE / EACH);
                if (row < job.m && column < job.n)
                    elements<T>::store(job.c, base[TD_CUDA_C] + row * job.c_m + column * job.c_n,
                                       job.stored[TD_CUDA_C], sum[r][c]);
            }
        }
    }
}

cudaError_t td_cuda_product(const struct td_cuda_product *job, cudaStream_t stream)
{
    const int64_t tiles = ((job->m + SIDE - 1) / SIDE) * ((job->n + SIDE - 1) / SIDE);
    const unsigned int blocks = blocks_for(job->batch * tiles);
#define LAUNCH(compute) product<compute><<<blocks, THREADS, 0, stream>>>(*job)
    BY_COMPUTE(job->compute, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
