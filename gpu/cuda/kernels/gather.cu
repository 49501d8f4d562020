/* gather.cu - gather, batch_gather, gather_nd: copies rows of params by index. A launch is one kernel:
 * it checks the indices, copies rows and reports bad indices. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/indices.cuh"

/* ---- Rows -------------------------------------------------------------------------------- */

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
                          source < 0 ? args.default_row : args.params + source * row_bytes, chunk,
                          loop.lane);
    }
    write_reports(args.reporting, counted);
}

cudaError_t td_cuda_gather(const struct td_cuda_gather_args *args, cudaStream_t stream)
{
    const unsigned int blocks = chunk_loop_blocks(&args->copy, args->n_rows);
#define LAUNCH(V) gather<V><<<blocks, THREADS, 0, stream>>>(*args)
    DISPATCH_VECTOR(args->copy.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
