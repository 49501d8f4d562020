/* nest.cu - sums of products over any nest of loops, and elements moved by any strides: all that
 * einsum needs beside matrix products. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/compute.cuh"

struct offsets {
    int64_t by[3]; /* by TD_CUDA_A, TD_CUDA_B, TD_CUDA_C */
};

/* Adds where iteration `i` of these loops is, the last of them moving fastest. */
static __device__ __forceinline__ void
add_place(struct offsets *to, const struct td_cuda_loop *loops, int n_loops, int64_t i)
{
    for (int l = n_loops - 1; l >= 0; l--) {
        int64_t at = i;
        if (l > 0)
            i = divide(i, loops[l].extent, &at);
        for (int o = 0; o < 3; o++)
            to->by[o] += at * loops[l].stride[o];
    }
}

/* ---- Sums -------------------------------------------------------------------------------- */

/* Terms that are added in the type computed in before they go to the total: 1024 cost float32 more
 * than its last digit. */
#define RUN_TERMS 128

template <int compute>
static __device__ typename numbers<compute>::total
sum_terms(const struct td_cuda_nest &job, const struct offsets &base, int64_t begin, int64_t end,
          int64_t step)
{
    typedef numbers<compute> N;
    typedef elements<typename N::type> E;
    const struct td_cuda_loop *loops = job.loops + job.n_out_loops;
    typename N::total total = {};
    for (int64_t s = begin; s < end;) {
        typename N::type run = {};
        for (int k = 0; k < RUN_TERMS && s < end; k++, s += step) {
            struct offsets at = base;
            add_place(&at, loops, job.n_sum_loops, s);
            typename N::type term = E::load(job.a, at.by[TD_CUDA_A], job.stored[TD_CUDA_A]);
            if (job.b != NULL)
                term = term * E::load(job.b, at.by[TD_CUDA_B], job.stored[TD_CUDA_B]);
            /* Where nothing is summed it stays as it is: added to 0, -0 would be 0. */
            run = job.n_sum == 1 ? term : run + term;
        }
        total = job.n_sum == 1 ? N::widen(run) : total + N::widen(run);
    }
    return total;
}

/* Adds what the threads with the same output have; the first of them has the sum then. */
template <typename W>
static __device__ W add_up(W mine, W *shared, int y, int y_threads, int distance)
{
    const int tid = (int)threadIdx.x;
    shared[tid] = mine;
    __syncthreads();
    for (int half = y_threads / 2; half > 0; half /= 2) {
        if (y < half)
            shared[tid] = shared[tid] + shared[tid + half * distance];
        __syncthreads();
    }
    mine = shared[tid];
    __syncthreads(); /* before the next use */
    return mine;
}

template <int compute>
static __global__ void __launch_bounds__(THREADS)
    nest(const __grid_constant__ struct td_cuda_nest job)
{
    typedef numbers<compute> N;
    typedef typename N::total W;
    __shared__ W shared[THREADS];
    const int tid = (int)threadIdx.x, x_threads = THREADS / job.y_threads;
    const int x = job.lanes_sum ? tid / job.y_threads : tid % x_threads;
    const int y = job.lanes_sum ? tid % job.y_threads : tid / x_threads;
    const int64_t tiles = (job.n_out + x_threads - 1) / x_threads;
    /* The same number of rounds for all threads of a block: they wait for each other. */
    for (int64_t unit = blockIdx.x; unit < tiles * job.parts; unit += gridDim.x) {
        int64_t part = 0;
        const int64_t tile = job.parts == 1 ? unit : divide(unit, job.parts, &part);
        const int64_t out = tile * x_threads + x;
        const int64_t begin = part * job.part_terms;
        const int64_t end = begin + job.part_terms < job.n_sum ? begin + job.part_terms : job.n_sum;
        struct offsets base = {};
        W total = {};
        if (out < job.n_out) {
            add_place(&base, job.loops, job.n_out_loops, out);
            total = sum_terms<compute>(job, base, begin + y, end, job.y_threads);
        }
        if (job.y_threads > 1)
            total = add_up(total, shared, y, job.y_threads, job.lanes_sum ? 1 : x_threads);
        if (y != 0 || out >= job.n_out)
            continue;
        if (job.parts > 1)
            ((W *)job.totals)[part * job.n_out + out] = total;
        else
            elements<typename N::type>::store(job.c, base.by[TD_CUDA_C], job.stored[TD_CUDA_C],
                                              N::narrow(total));
    }
}

template <int compute>
static __global__ void __launch_bounds__(THREADS)
    add_parts(const __grid_constant__ struct td_cuda_nest job)
{
    typedef numbers<compute> N;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t out = (int64_t)blockIdx.x * THREADS + threadIdx.x; out < job.n_out; out += step) {
        const typename N::total *totals = (const typename N::total *)job.totals + out;
        typename N::total total = totals[0];
        for (int64_t part = 1; part < job.parts; part++)
            total = total + totals[part * job.n_out];
        struct offsets at = {};
        add_place(&at, job.loops, job.n_out_loops, out);
        elements<typename N::type>::store(job.c, at.by[TD_CUDA_C], job.stored[TD_CUDA_C],
                                          N::narrow(total));
    }
}

size_t td_cuda_total_bytes(enum td_cuda_compute compute)
{
    size_t bytes = 0;
#define BYTES(compute) bytes = sizeof(numbers<compute>::total)
    BY_COMPUTE(compute, BYTES)
#undef BYTES
    return bytes;
}

cudaError_t td_cuda_nest(const struct td_cuda_nest *job, cudaStream_t stream)
{
    const int64_t x_threads = THREADS / job->y_threads;
    const unsigned int blocks = blocks_for((job->n_out + x_threads - 1) / x_threads * job->parts);
#define LAUNCH(compute) nest<compute><<<blocks, THREADS, 0, stream>>>(*job)
    BY_COMPUTE(job->compute, LAUNCH)
#undef LAUNCH
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || job->parts == 1)
        return error;
    const unsigned int part_blocks = blocks_for((job->n_out + THREADS - 1) / THREADS);
#define LAUNCH(compute) add_parts<compute><<<part_blocks, THREADS, 0, stream>>>(*job)
    BY_COMPUTE(job->compute, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

/* ---- Moves ------------------------------------------------------------------------------- */

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    permute(const __grid_constant__ struct td_cuda_permute job)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.n; i += step) {
        struct offsets at = {};
        add_place(&at, job.loops, job.n_loops, i);
        ((V *)job.c)[at.by[TD_CUDA_C]] = __ldg((const V *)job.a + at.by[TD_CUDA_A]);
    }
}

#define TILE 32

/* Both reading and writing go along rows of 32 elements; in between they lie in shared memory, one
 * column wider than it is, so that neither way hits one bank only. */
template <typename V>
static __global__ void __launch_bounds__(THREADS)
    transpose(const __grid_constant__ struct td_cuda_permute job)
{
    __shared__ V tile[TILE][TILE + 1];
    const struct td_cuda_loop along_a = job.loops[job.n_loops - 2];
    const struct td_cuda_loop along_c = job.loops[job.n_loops - 1];
    const int64_t a_tiles = (along_a.extent + TILE - 1) / TILE;
    const int64_t c_tiles = (along_c.extent + TILE - 1) / TILE;
    const int64_t units = job.n / (along_a.extent * along_c.extent) * a_tiles * c_tiles;
    const int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        int64_t i, j;
        const int64_t rest = divide(unit, a_tiles, &i);
        const int64_t matrix = divide(rest, c_tiles, &j);
        i *= TILE;
        j *= TILE;
        struct offsets at = {};
        add_place(&at, job.loops, job.n_loops - 2, matrix);
        const V *a = (const V *)job.a + at.by[TD_CUDA_A];
        V *c = (V *)job.c + at.by[TD_CUDA_C];
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

static cudaError_t launch_transpose(const struct td_cuda_permute *job, cudaStream_t stream)
{
    const int64_t rows = job->loops[job->n_loops - 2].extent;
    const int64_t columns = job->loops[job->n_loops - 1].extent;
    const unsigned int blocks = blocks_for(job->n / (rows * columns) * ((rows + TILE - 1) / TILE) *
                                           ((columns + TILE - 1) / TILE));
#define LAUNCH(V) transpose<V><<<blocks, THREADS, 0, stream>>>(*job)
    BY_VECTOR(job->bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_permute(const struct td_cuda_permute *job, cudaStream_t stream)
{
    if (job->tiled)
        return launch_transpose(job, stream);
    const unsigned int blocks = blocks_for((job->n + THREADS - 1) / THREADS);
#define LAUNCH(V) permute<V><<<blocks, THREADS, 0, stream>>>(*job)
    BY_VECTOR(job->bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
