/* permute.cu - copies elements between two layouts, and transposes tiles through shared memory. */
#include "gpu/cuda/kernels/nest.cuh"

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    permute(const __grid_constant__ struct td_cuda_permute_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n; i += step) {
        struct offsets at = {};
        add_offsets(&at, args.loops, args.n_loops, i);
        ((V *)args.c)[at.of[TD_CUDA_C]] = __ldg((const V *)args.a + at.of[TD_CUDA_A]);
    }
}

#define TILE 32

/* Transposes tiles. Loads and stores both coalesce along rows of 32 elements. A column of padding
 * in the shared memory of the tile prevents bank conflicts. */
template <typename V>
static __global__ void __launch_bounds__(THREADS)
    transpose(const __grid_constant__ struct td_cuda_permute_args args)
{
    __shared__ V tile[TILE][TILE + 1];
    const struct td_cuda_loop along_a = args.loops[args.n_loops - 2];
    const struct td_cuda_loop along_c = args.loops[args.n_loops - 1];
    const int64_t a_tiles = ceil_div(along_a.extent, TILE);
    const int64_t c_tiles = ceil_div(along_c.extent, TILE);
    const int64_t tiles = args.n / (along_a.extent * along_c.extent) * a_tiles * c_tiles;
    const int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t i, j;
        const int64_t rest = divide(t, a_tiles, &i);
        const int64_t matrix = divide(rest, c_tiles, &j);
        i *= TILE;
        j *= TILE;
        struct offsets at = {};
        add_offsets(&at, args.loops, args.n_loops - 2, matrix);
        const V *a = (const V *)args.a + at.of[TD_CUDA_A];
        V *c = (V *)args.c + at.of[TD_CUDA_C];
        for (int k = y; k < TILE; k += THREADS / TILE)
            if (i + x < along_a.extent && j + k < along_c.extent)
                tile[k][x] = __ldg(a + i + x + (j + k) * along_c.stride[TD_CUDA_A]);
        __syncthreads();
        for (int k = y; k < TILE; k += THREADS / TILE)
            if (j + x < along_c.extent && i + k < along_a.extent)
                c[j + x + (i + k) * along_a.stride[TD_CUDA_C]] = tile[x][k];
        __syncthreads();
    }
}

static cudaError_t launch_transpose(const struct td_cuda_permute_args *args, cudaStream_t stream)
{
    const int64_t rows = args->loops[args->n_loops - 2].extent;
    const int64_t columns = args->loops[args->n_loops - 1].extent;
    const unsigned int blocks =
        grid_blocks(args->n / (rows * columns) * ceil_div(rows, TILE) * ceil_div(columns, TILE));
#define LAUNCH(V) transpose<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->element_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_permute(const struct td_cuda_permute_args *args, cudaStream_t stream)
{
    if (args->tiled)
        return launch_transpose(args, stream);
    const unsigned int blocks = grid_blocks(ceil_div(args->n, THREADS));
#define LAUNCH(V) permute<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->element_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_permute_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(V)                                                                                    \
    load_kernel(&error, permute<V>);                                                               \
    load_kernel(&error, transpose<V>)
    EACH_VECTOR(LOAD);
#undef LOAD
    return error;
}
