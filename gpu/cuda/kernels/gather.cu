/* gather.cu - gather, batch_gather, gather_nd: copies rows of params by index.
 *
 * A launch is one kernel: it checks the indices, copies rows and reports bad indices. These are
 * counted in device memory, since atomics on host memory would cross the bus for every bad index.
 * The last block to finish writes the reports and clears the counters, so no memset is needed before
 * a launch. */
#include "gpu/cuda/kernels/common.cuh"

/* ---- Reports ----------------------------------------------------------------------------- */

/* Element `element` of indices is out of range. */
static __device__ void count_bad_index(const struct td_cuda_gather_args &args, int64_t element)
{
    if (args.reports == NULL)
        return;
    const int64_t *end = args.item_end != NULL ? args.item_end : args.inline_end;
    int low = 0, high = args.n_items - 1; /* the first item that ends after element */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (end[middle] > element)
            high = middle;
        else
            low = middle + 1;
    }
    const int64_t begin = low == 0 ? 0 : end[low - 1];
    atomicMax(&args.counters[low].first, (unsigned long long)(INT64_MAX - (element - begin)));
    atomicAdd(&args.counters[low].n_bad, 1ULL);
}

/* Called once by all threads of every block; the last block to arrive writes the reports. Only a
 * block that counted something fences before it arrives: a fence also waits for the stores of rows,
 * and the block occupies its multiprocessor meanwhile. */
static __device__ void write_reports(const struct td_cuda_gather_args &args, bool counted)
{
    __shared__ bool is_last;
    if (args.reports == NULL)
        return;
    const int any_counted = __syncthreads_or(counted);
    if (threadIdx.x == 0) {
        if (any_counted)
            __threadfence(); /* the counters are visible before the block is */
        /* wraps to 0 at the last block */
        is_last = atomicInc(args.blocks_done, gridDim.x - 1) == gridDim.x - 1;
        if (is_last)
            __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    for (int i = (int)threadIdx.x; i < args.n_items; i += THREADS) {
        const unsigned long long first = atomicExch(&args.counters[i].first, 0ULL);
        const unsigned long long n_bad = atomicExch(&args.counters[i].n_bad, 0ULL);
        args.reports[i].first_bad = INT64_MAX - (int64_t)first;
        args.reports[i].n_bad = (int64_t)n_bad;
    }
}

/* ---- Rows -------------------------------------------------------------------------------- */

enum { BOUNDS_ERROR, BOUNDS_ZERO, BOUNDS_CLIP, BOUNDS_WRAP };

/* Applies the bounds policy to an index out of range: an index in [0, bound), or -1 for a row of
 * zeros. */
static __device__ __forceinline__ int64_t resolve_index(int64_t index, int64_t bound, int policy)
{
    if (bound <= 0 || policy == BOUNDS_ERROR || policy == BOUNDS_ZERO)
        return -1;
    if (policy == BOUNDS_CLIP)
        return index < 0 ? 0 : bound - 1;
    const int64_t remainder = index % bound;
    return remainder < 0 ? remainder + bound : remainder;
}

/* The params row for an output row, -1 for zeros. `reports` is true for one of the threads that
 * look up the row; it counts bad indices, and sets *counted if there are any. */
static __device__ __forceinline__ int64_t params_row(const struct td_cuda_gather_args &args,
                                                     int64_t row, bool reports, bool *counted)
{
    int64_t slice = 0, tuple = row;
    if (args.slice_outputs != args.n_rows) {
        int64_t i;
        slice = divide(row, args.slice_outputs, &i);
        if (args.repeat != 1) {
            int64_t repetition;
            tuple = divide(slice, args.repeat, &repetition) * args.slice_outputs + i;
            reports = reports && repetition == 0; /* an index counts once */
        }
    }
    int64_t source = slice * args.slice_rows;
    bool zero = false;
    for (int c = 0; c < args.depth; c++) {
        const int64_t element = tuple * args.depth + c;
        int64_t index = index_at(args.indices, args.index_bytes, element);
        if ((uint64_t)index >= (uint64_t)args.bound[c]) {
            if (reports) {
                count_bad_index(args, element);
                *counted = true;
            }
            index = resolve_index(index, args.bound[c], args.bounds);
            zero = zero || index < 0;
        }
        source += index * args.stride[c];
    }
    return zero ? -1 : source;
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ struct td_cuda_gather_args args)
{
    const int64_t row_bytes = args.copy.vectors * (int64_t)sizeof(V);
    struct chunk_loop loop = chunk_loop_begin(args.copy, args.n_rows);
    bool counted = false;
    for (; loop.i < loop.end; loop.i += loop.step) {
        int64_t chunk;
        const int64_t row = chunk_loop_row(loop, args.copy, &chunk);
        const int64_t source = params_row(args, row, loop.lane == 0 && chunk == 0, &counted);
        if (args.copy.vectors != 0)
            copy_chunk<V>(args.copy, args.out + row * row_bytes,
                          source < 0 ? NULL : args.params + source * row_bytes, chunk, loop.lane);
    }
    write_reports(args, counted);
}

cudaError_t td_cuda_gather(const struct td_cuda_gather_args *args, cudaStream_t stream)
{
    const unsigned int blocks = chunk_loop_blocks(&args->copy, args->n_rows);
#define LAUNCH(V) gather<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
