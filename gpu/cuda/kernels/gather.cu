/* gather.cu - gather, batch_gather, gather_nd: copies rows of params by index. A single kernel
 * checks the indices, copies the rows and reports bad indices. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/indices.cuh"

/* ---- Rows -------------------------------------------------------------------------------- */

/* Returns the params row for an output row, or -1 for a row of zeros. `reports` is true for only
 * one of the threads that look up the row. That thread counts bad indices, and sets *counted if it
 * has counted any. */
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
            reports = reports && repetition == 0; /* count each index once */
        }
    }
    int64_t source = slice * args.slice_rows;
    bool zero = false;
    for (int c = 0; c < args.depth; c++) {
        const int64_t element = tuple * args.depth + c;
        int64_t index = index_at(args.indices, args.index_bytes, element);
        if ((uint64_t)index >= (uint64_t)args.bound[c]) {
            if (reports) {
                count_bad_index(args.reporting, element);
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
                          source < 0 ? args.default_row + row * args.default_bytes
                                     : args.params + source * row_bytes,
                          chunk, loop.lane);
    }
    write_reports(args.reporting, counted);
}

/* ---- Short rows -------------------------------------------------------------------------- */

/* Number of loads that a thread has in flight. A thread that copies one vector has only one load in
 * flight: first the index, then the vector. By Little's law, a device of 4.8 TB/s and 700 ns needs
 * 25 KB in flight in each of 132 multiprocessors. The 2048 threads of a multiprocessor, with a
 * vector of 16 bytes each, have 32 KB in flight, but only while no thread waits for its index or
 * stores. Each thread therefore copies several rows: it loads LOADS indices, then LOADS vectors,
 * and then stores.
 *
 * The rows of a block are consecutive, as are the rows that its groups copy at the same time.
 * Indices and stores therefore coalesce. */
#define LOADS 4

/* Minimum number of blocks for gather_short, enough to fill any device. With fewer blocks, more
 * threads help more than several loads per thread. */
#define MIN_SHORT_BLOCKS (MAX_BLOCKS / 64)

template <typename I, int rows>
static __device__ __forceinline__ void load_indices(int64_t *index, const void *indices,
                                                    int64_t first, int64_t step, int64_t end)
{
#pragma unroll
    for (int k = 0; k < rows; k++)
        index[k] = first + k * step < end ? (int64_t)((const I *)indices)[first + k * step] : 0;
}

/* Returns the address of the row or default that an index selects, or NULL for a row of zeros. */
static __device__ __forceinline__ const char *row_at(const struct td_cuda_gather_args &args,
                                                     int64_t index, int64_t row, bool reports,
                                                     bool *counted)
{
    if ((uint64_t)index >= (uint64_t)args.bound[0]) {
        if (reports) {
            count_bad_index(args.reporting, row);
            *counted = true;
        }
        index = resolve_index(index, args.bound[0], args.bounds);
        if (index < 0)
            return args.default_row + row * args.default_bytes;
    }
    return args.params + index * args.stride[0] * args.copy.vectors * args.copy.vector_bytes;
}

/* Gathers rows of at most LOADS / rows vectors per thread. Requires a single slice. The indices
 * must not be tuples. */
template <typename V, int rows>
static __global__ void __launch_bounds__(THREADS)
    gather_short(const __grid_constant__ struct td_cuda_gather_args args)
{
    constexpr int vectors = LOADS / rows; /* vectors of a row per thread */
    const int group = 1 << args.copy.group_log2, groups = THREADS >> args.copy.group_log2;
    const int lane = (int)threadIdx.x & (group - 1);
    const int64_t step = (int64_t)gridDim.x * groups * rows;
    int64_t first =
        (int64_t)blockIdx.x * groups * rows + ((int)threadIdx.x >> args.copy.group_log2);
    bool counted = false;
    for (; first < args.n_rows; first += step) {
        int64_t index[rows];
        const char *from[rows];
        V v[rows][vectors];
        if (args.index_bytes == 8)
            load_indices<int64_t, rows>(index, args.indices, first, groups, args.n_rows);
        else if (args.index_bytes == 4)
            load_indices<int32_t, rows>(index, args.indices, first, groups, args.n_rows);
        else
            load_indices<int16_t, rows>(index, args.indices, first, groups, args.n_rows);
#pragma unroll
        for (int k = 0; k < rows; k++) {
            const int64_t row = first + (int64_t)k * groups;
            from[k] = row < args.n_rows ? row_at(args, index[k], row, lane == 0, &counted) : NULL;
        }
#pragma unroll
        for (int k = 0; k < rows; k++)
#pragma unroll
            for (int i = 0; i < vectors; i++) {
                v[k][i] = V{};
                if (from[k] != NULL && lane + i * group < args.copy.vectors)
                    v[k][i] = __ldg((const V *)from[k] + lane + i * group);
            }
#pragma unroll
        for (int k = 0; k < rows; k++) {
            const int64_t row = first + (int64_t)k * groups;
#pragma unroll
            for (int i = 0; i < vectors; i++)
                if (row < args.n_rows && lane + i * group < args.copy.vectors)
                    __stcs((V *)args.out + row * args.copy.vectors + lane + i * group, v[k][i]);
        }
    }
    write_reports(args.reporting, counted);
}

/* Returns the number of rows that a thread of gather_short copies at a time, or 0 if the rows do
 * not suit gather_short. */
static int rows_at_a_time(const struct td_cuda_gather_args *args)
{
    const int64_t group = (int64_t)1 << args->copy.group_log2;
    if (args->depth != 1 || args->slice_outputs != args->n_rows || args->copy.chunks != 1)
        return 0;
    const int rows = args->copy.vectors <= group       ? LOADS
                     : args->copy.vectors <= 2 * group ? LOADS / 2
                                                       : 0;
    if (rows == 0 || args->n_rows / (THREADS / group * rows) < MIN_SHORT_BLOCKS)
        return 0;
    return rows;
}

static cudaError_t launch_short(const struct td_cuda_gather_args *args, int rows,
                                cudaStream_t stream)
{
    const int groups = THREADS >> args->copy.group_log2;
    const unsigned int blocks = grid_blocks(ceil_div(args->n_rows, (int64_t)groups * rows));
    if (rows == LOADS) {
#define LAUNCH(V) gather_short<V, LOADS><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    } else {
#define LAUNCH(V) gather_short<V, LOADS / 2><<<blocks, THREADS, 0, stream>>>(*args)
        DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    }
    return cudaGetLastError();
}

cudaError_t td_cuda_gather(const struct td_cuda_gather_args *args, cudaStream_t stream)
{
    const int rows = rows_at_a_time(args);
    if (rows > 0)
        return launch_short(args, rows, stream);
    const unsigned int blocks = chunk_loop_blocks(&args->copy, args->n_rows);
#define LAUNCH(V) gather<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t td_cuda_gather_load(void)
{
    cudaError_t error = cudaSuccess;
#define LOAD(V)                                                                                    \
    load_kernel(&error, gather<V>);                                                                \
    load_kernel(&error, gather_short<V, LOADS>);                                                   \
    load_kernel(&error, gather_short<V, LOADS / 2>)
    EACH_VECTOR(LOAD);
#undef LOAD
    return error;
}
