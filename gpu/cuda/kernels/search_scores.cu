/* search_scores.cu - search: converts the queries, and scores a block of rows against a group of
 * queries.
 *
 *     rows       256 rows of the table and a few columns, converted, in shared memory
 *     queries    the same columns of Q queries, in shared memory
 *     threads    each has a row, and sums its products (or squared differences) with Q queries
 *
 * Every sum is blocked: the columns that are in shared memory at one time are summed first. A sum
 * is the same in every call.
 *
 * Cost  For q queries, n rows and d columns: 2qnd FLOPs (l2: 3qnd; cosine: 2nd more for each tile
 *       of Q queries). The table is read from device memory once for a group of queries, because
 *       the blocks that score the same rows against the other queries of the group run at the same
 *       time and find the rows in the L2 cache. One or a few queries are bound by this reading:
 *       a thread loads 8 elements before it uses the first. Many queries are bound by the loads
 *       from shared memory: an element of a row and a vector of queries for 4 multiply-adds. If
 *       cuBLAS computes the products instead, the table is read once more for cosines. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/numbers.cuh"
#include "gpu/cuda/kernels/scaling.cuh"

#include <math.h>

/* Number of columns in shared memory. */
template <typename A> struct tile_columns {
    static constexpr int n = 128 / (int)sizeof(A);
};

static __device__ __forceinline__ bool is_quantized(enum td_cuda_number type)
{
    return type == TD_CUDA_INT8 || type == TD_CUDA_UINT8;
}

template <typename A>
static __device__ __forceinline__ struct scaling<A>
row_scaling(const struct td_cuda_search_args &args, int64_t row) {
    return load_scaling<A>(args.scaling, row,
                           (const char *)args.params + row * args.row_bytes + args.columns);
}

template <typename A>
static __device__ __forceinline__ A scaled(A element, const struct scaling<A> &s)
{
    return (element - s.zero) * s.scale + s.offset;
}

/* ---- Row numbers ------------------------------------------------------------------------- */

/* Marks a row. Returns false if the row is not in the table, or has been marked. */
static __device__ __forceinline__ bool mark(const struct td_cuda_search_args &args, int64_t row)
{
    if ((uint64_t)row >= (uint64_t)args.n_rows)
        return false;
    const unsigned int bit = 1u << (unsigned int)(row % 32);
    return (atomicOr(&args.marked[row / 32], bit) & bit) == 0;
}

static __global__ void __launch_bounds__(THREADS)
    mark_excluded(const __grid_constant__ struct td_cuda_search_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_exclude; i += step)
        (void)mark(args, index_at(args.exclude, args.exclude_bytes, i));
}

/* Of several candidates that are the same row, one is scored. */
static __global__ void __launch_bounds__(THREADS)
    number_candidates(const __grid_constant__ struct td_cuda_search_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_scored; i += step) {
        const int64_t row = index_at(args.candidates, args.candidates_bytes, i);
        args.numbers[i] = mark(args, row) ? (int32_t)row : -1;
    }
}

/* ---- Queries ----------------------------------------------------------------------------- */

/* Returns a number of a query that is a row of params, or 0 if the row is not in the table. */
template <typename A>
static __device__ __forceinline__ A load_element(const struct td_cuda_search_args &args,
                                                 int64_t row, int64_t column)
{
    if ((uint64_t)row >= (uint64_t)args.n_rows)
        return 0;
    const A element =
        load_number<A>((const char *)args.params + row * args.row_bytes, column, args.params_type);
    return is_quantized(args.params_type) ? scaled(element, row_scaling<A>(args, row)) : element;
}

/* Copies an element of 2 bytes of a query. */
static __device__ __forceinline__ void copy_factor(const struct td_cuda_search_args &args,
                                                   int64_t query, int64_t row, int64_t column)
{
    const int64_t i = query * args.columns + column;
    const uint16_t *from = (const uint16_t *)args.given;
    uint16_t element = 0;
    if (from != NULL)
        element = from[i];
    else if ((uint64_t)row < (uint64_t)args.n_rows)
        element = ((const uint16_t *)args.params)[row * args.columns + column];
    args.factors[i] = element;
}

/* Converts queries, one in each block, and computes their norms. */
template <typename A>
static __global__ void __launch_bounds__(THREADS)
    read_queries(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ A sums[THREADS];
    for (int64_t q = blockIdx.x; q < args.all_queries; q += gridDim.x) {
        const int64_t row = args.given == NULL ? index_at(args.rows, args.rows_bytes, q) : 0;
        A sum = 0;
        for (int64_t c = threadIdx.x; c < args.columns; c += THREADS) {
            const A x = args.given == NULL
                            ? load_element<A>(args, row, c)
                            : load_number<A>(args.given, q * args.columns + c, args.given_type);
            ((A *)args.queries)[q * args.columns + c] = x;
            sum += x * x;
            if (args.factors != NULL)
                copy_factor(args, q, row, c);
        }
        sums[threadIdx.x] = sum;
        for (int half = THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if ((int)threadIdx.x < half)
                sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        if (threadIdx.x == 0 && args.query_roots != NULL)
            ((A *)args.query_roots)[q] = sqrt(sums[0]);
        __syncthreads();
    }
}

/* ---- Tiles ------------------------------------------------------------------------------- */

/* Loads and converts the columns [column, column + tile_columns) of the numbered rows, with zeros
 * outside the table. Neighbouring threads load along the columns. */
template <typename T, typename A>
static __device__ __forceinline__ void
load_rows(const struct td_cuda_search_args &args, const int32_t *numbers,
          const struct scaling<A> *scalings, int64_t column, A (*rows)[tile_columns<A>::n + 1])
{
    constexpr int columns = tile_columns<A>::n, step = THREADS / columns, in_flight = 8;
    const int c = (int)threadIdx.x % columns;
    const char *from = (const char *)args.params + (column + c) * (int64_t)sizeof(T);
    const bool has_column = column + c < args.columns;
    for (int r = (int)threadIdx.x / columns; r < THREADS; r += step * in_flight) {
        T loaded[in_flight];
#pragma unroll
        for (int k = 0; k < in_flight; k++)
            if (has_column && numbers[r + k * step] >= 0)
                loaded[k] = *(const T *)(from + numbers[r + k * step] * args.row_bytes);
#pragma unroll
        for (int k = 0; k < in_flight; k++) {
            A x = 0;
            if (has_column && numbers[r + k * step] >= 0)
                x = sizeof(T) == 1 ? scaled(widen<A>(loaded[k]), scalings[r + k * step])
                                   : widen<A>(loaded[k]);
            rows[r + k * step][c] = x;
        }
    }
}

template <typename A>
static __device__ __forceinline__ void
load_any_rows(const struct td_cuda_search_args &args, const int32_t *numbers,
              const struct scaling<A> *scalings, int64_t column, A (*rows)[tile_columns<A>::n + 1])
{
    switch (args.params_type) {
    case TD_CUDA_FLOAT16:
        load_rows<__half>(args, numbers, scalings, column, rows);
        return;
    case TD_CUDA_BFLOAT16:
        load_rows<__nv_bfloat16>(args, numbers, scalings, column, rows);
        return;
    case TD_CUDA_FLOAT64:
        load_rows<double>(args, numbers, scalings, column, rows);
        return;
    case TD_CUDA_INT8:
        load_rows<int8_t>(args, numbers, scalings, column, rows);
        return;
    case TD_CUDA_UINT8:
        load_rows<uint8_t>(args, numbers, scalings, column, rows);
        return;
    default:
        load_rows<float>(args, numbers, scalings, column, rows);
        return;
    }
}

/* Loads the same columns of Q queries, with zeros after the last query and the last column. */
template <typename A, int Q>
static __device__ __forceinline__ void load_queries(const struct td_cuda_search_args &args,
                                                    int64_t query, int64_t column, A (*queries)[Q])
{
    constexpr int columns = tile_columns<A>::n;
    const A *from = (const A *)args.queries + args.first_query * args.columns;
    for (int e = (int)threadIdx.x; e < Q * columns; e += THREADS) {
        const int q = e / columns, c = e % columns;
        const bool exists = query + q < args.n_queries && column + c < args.columns;
        queries[c][q] = exists ? from[(query + q) * args.columns + column + c] : (A)0;
    }
}

/* Adds the columns of a tile to the sums of a row and Q queries. The last sum is the square of the
 * row's norm, for cosine. */
template <int metric, typename A, int Q>
static __device__ __forceinline__ void add_columns(const A *row, const A (*queries)[Q],
                                                   A (&sums)[Q + 1])
{
    A part[Q + 1] = {};
#pragma unroll 4
    for (int c = 0; c < tile_columns<A>::n; c++) {
        const A x = row[c];
#pragma unroll
        for (int q = 0; q < Q; q++) {
            const A difference = x - queries[c][q];
            part[q] += metric == TD_CUDA_SEARCH_L2 ? difference * difference : x * queries[c][q];
        }
        if (metric == TD_CUDA_SEARCH_COSINE)
            part[Q] += x * x;
    }
#pragma unroll
    for (int q = 0; q <= Q; q++)
        sums[q] += part[q];
}

/* Returns the score of a sum, in which larger is better. */
template <typename A>
static __device__ __forceinline__ A score_of(const struct td_cuda_search_args &args, A sum,
                                             A square, int64_t query)
{
    if (args.metric == TD_CUDA_SEARCH_L2)
        return -sqrt(sum);
    if (args.metric == TD_CUDA_SEARCH_DOT)
        return sum;
    const A root = ((const A *)args.query_roots)[args.first_query + query];
    return root == 0 || square == 0 ? (A)0 : sum / root / sqrt(square);
}

/* Finds the number of row i of the block, or -1 if it is not scored, and its scaling. */
template <typename A>
static __device__ __forceinline__ void find_row(const struct td_cuda_search_args &args, int64_t i,
                                                int32_t *number, struct scaling<A> *scaling)
{
    int32_t row = -1;
    if (i < args.n)
        row = args.numbers != NULL ? args.numbers[args.first + i] : (int32_t)(args.first + i);
    if (is_quantized(args.params_type) && row >= 0)
        *scaling = row_scaling<A>(args, row);
    *number = row;
}

template <typename A, int Q>
static __global__ void __launch_bounds__(THREADS)
    score_rows(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ A rows[THREADS][tile_columns<A>::n + 1];
    __shared__ __align__(16) A queries[tile_columns<A>::n][Q];
    __shared__ int32_t numbers[THREADS];
    __shared__ struct scaling<A> scalings[THREADS];
    const int thread = (int)threadIdx.x;
    const int64_t row_tiles = ceil_div(args.n, THREADS), query_tiles = ceil_div(args.n_queries, Q);
    for (int64_t t = blockIdx.x; t < row_tiles * query_tiles; t += gridDim.x) {
        int64_t query;
        const int64_t i = divide(t, query_tiles, &query) * THREADS + thread;
        query *= Q;
        find_row(args, i, &numbers[thread], &scalings[thread]);
        A sums[Q + 1] = {};
        for (int64_t column = 0; column < args.columns; column += tile_columns<A>::n) {
            __syncthreads(); /* the previous columns have been used */
            load_any_rows(args, numbers, scalings, column, rows);
            load_queries<A, Q>(args, query, column, queries);
            __syncthreads();
            if (args.metric == TD_CUDA_SEARCH_L2)
                add_columns<TD_CUDA_SEARCH_L2, A, Q>(rows[thread], queries, sums);
            else if (args.metric == TD_CUDA_SEARCH_COSINE)
                add_columns<TD_CUDA_SEARCH_COSINE, A, Q>(rows[thread], queries, sums);
            else
                add_columns<TD_CUDA_SEARCH_DOT, A, Q>(rows[thread], queries, sums);
        }
#pragma unroll
        for (int q = 0; q < Q; q++)
            if (i < args.n && query + q < args.n_queries)
                ((A *)args.scores)[(query + q) * args.score_pitch + i] =
                    score_of(args, sums[q], sums[Q], query + q);
    }
}

/* Divides the products of cuBLAS by the norms. A thread has a row. */
template <typename A>
static __global__ void __launch_bounds__(THREADS)
    make_cosines(const __grid_constant__ struct td_cuda_search_args args)
{
    __shared__ A rows[THREADS][tile_columns<A>::n + 1];
    __shared__ int32_t numbers[THREADS];
    __shared__ struct scaling<A> scalings[THREADS];
    const int thread = (int)threadIdx.x;
    for (int64_t t = blockIdx.x; t < ceil_div(args.n, THREADS); t += gridDim.x) {
        const int64_t i = t * THREADS + thread;
        A square = 0;
        find_row(args, i, &numbers[thread], &scalings[thread]);
        for (int64_t column = 0; column < args.columns; column += tile_columns<A>::n) {
            __syncthreads();
            load_any_rows(args, numbers, scalings, column, rows);
            __syncthreads();
            A part = 0;
            for (int c = 0; c < tile_columns<A>::n; c++)
                part += rows[thread][c] * rows[thread][c];
            square += part;
        }
        for (int64_t query = 0; i < args.n && query < args.n_queries; query++) {
            A *score = (A *)args.scores + query * args.score_pitch + i;
            *score = score_of(args, *score, square, query);
        }
    }
}

/* ---- Launches ---------------------------------------------------------------------------- */

static cudaError_t prepare_numbers(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    if (args->n_exclude > 0) {
        const unsigned int blocks = grid_blocks(ceil_div(args->n_exclude, THREADS));
        mark_excluded<<<blocks, THREADS, 0, stream>>>(*args);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess && args->numbers != NULL) {
        const unsigned int blocks = grid_blocks(ceil_div(args->n_scored, THREADS));
        number_candidates<<<blocks, THREADS, 0, stream>>>(*args);
        error = cudaGetLastError();
    }
    return error;
}

cudaError_t td_cuda_search_prepare(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(args->all_queries);
    const cudaError_t error = prepare_numbers(args, stream);
    if (error != cudaSuccess)
        return error;
    if (args->is_double)
        read_queries<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        read_queries<float><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename A>
static cudaError_t launch_scores(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    const int at_once = args->n_queries == 1 ? 1 : args->n_queries <= 4 ? 4 : 16;
    const unsigned int blocks =
        grid_blocks(ceil_div(args->n, THREADS) * ceil_div(args->n_queries, at_once));
    if (at_once == 1)
        score_rows<A, 1><<<blocks, THREADS, 0, stream>>>(*args);
    else if (at_once == 4)
        score_rows<A, 4><<<blocks, THREADS, 0, stream>>>(*args);
    else
        score_rows<A, 16><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t td_cuda_search_scores(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    return args->is_double ? launch_scores<double>(args, stream)
                           : launch_scores<float>(args, stream);
}

cudaError_t td_cuda_search_cosines(const struct td_cuda_search_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(ceil_div(args->n, THREADS));
    if (args->is_double)
        make_cosines<double><<<blocks, THREADS, 0, stream>>>(*args);
    else
        make_cosines<float><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename A> static void load(cudaError_t *error)
{
    load_kernel(error, make_cosines<A>);
    load_kernel(error, read_queries<A>);
    load_kernel(error, score_rows<A, 1>);
    load_kernel(error, score_rows<A, 4>);
    load_kernel(error, score_rows<A, 16>);
}

cudaError_t td_cuda_search_scores_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, mark_excluded);
    load_kernel(&error, number_candidates);
    load<float>(&error);
    load<double>(&error);
    return error;
}
