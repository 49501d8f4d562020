/* bags.cu - embedding_bag: the sum, mean or maximum of the params rows that each bag selects.
 *
 *     bags     [--- 0 ---|- 1 -||------------- 3 -------------|- 4 -]     2 is empty
 *     parts    [--- 0 ---|- 1 -||--- 3a ---|--- 3b ---|- 3c --|- 4 -]
 *     threads  A group of up to 32 neighbouring threads sums each chunk of columns of a part. A
 *              thread sums one or a few columns, with the loads of several rows in flight.
 *
 * A bag of more than TD_CUDA_BAG_PART indices is split, so one group does not sum a long bag while
 * all other groups are idle. The split depends only on the length of the bag, so results do not
 * depend on the surrounding bags. A second kernel adds the sums of the parts.
 *
 * The host has checked that the starts of the bags never decrease. If a client changes them after
 * the check, results are wrong, but no access is out of bounds. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/indices.cuh"
#include "gpu/cuda/kernels/numbers.cuh"
#include "gpu/cuda/kernels/scaling.cuh"

#include <math.h>

#define ROWS_IN_FLIGHT 8

enum { MODE_SUM, MODE_MEAN, MODE_SQRTN, MODE_MAX };

/* ---- Bags and their parts ------------------------------------------------------------------ */

/* Returns the position of the first index of a bag, or n_indices after the last bag. */
static __device__ __forceinline__ int64_t bag_begin(const struct td_cuda_bags_args &args,
                                                    int64_t bag)
{
    if (bag >= args.n_bags)
        return args.n_indices;
    if (args.begins == NULL)
        return bag * args.bag_indices;
    const int64_t begin = index_at(args.begins, args.begin_bytes, bag);
    return begin < 0 ? 0 : begin > args.n_indices ? args.n_indices : begin;
}

/* Returns the bag that contains an index: the last bag that starts at or before the index. */
static __device__ int64_t bag_of_index(const struct td_cuda_bags_args &args, int64_t index)
{
    int64_t low = 0, high = args.n_bags;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (bag_begin(args, middle) <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct part {
    int64_t bag;
    int64_t begin, end; /* range of indices */
    int64_t number;     /* number of the part within its bag */
    bool whole;         /* the bag consists of only this part */
};

/* Finds the part with the given number. Returns false if there is none. The first parts of all bags
 * are numbered first, then all other parts. Each of the other parts is identified by the multiple
 * of TD_CUDA_BAG_PART at which it starts or that lies in the previous part of the bag. */
static __device__ __forceinline__ bool find_part(const struct td_cuda_bags_args &args,
                                                 int64_t number, struct part *part)
{
    if (number < args.n_bags) {
        part->bag = number;
        part->number = 0;
        part->begin = bag_begin(args, number);
    } else {
        const int64_t index = (number - args.n_bags + 1) * TD_CUDA_BAG_PART;
        if (index >= args.n_indices)
            return false;
        part->bag = bag_of_index(args, index);
        const int64_t begin = bag_begin(args, part->bag);
        if (begin >= index)
            return false;
        part->number = ceil_div(index - begin, TD_CUDA_BAG_PART);
        part->begin = begin + part->number * TD_CUDA_BAG_PART;
    }
    const int64_t end = bag_begin(args, part->bag + 1);
    part->whole = part->number == 0 && end - part->begin <= TD_CUDA_BAG_PART;
    part->end = end - part->begin > TD_CUDA_BAG_PART ? part->begin + TD_CUDA_BAG_PART : end;
    return part->number == 0 || part->begin < end;
}

/* Returns the row of part_sums for a part of a split bag. Each run of TD_CUDA_BAG_PART indices has
 * two rows, because at most one split bag and one later part of a bag can start in a run. */
static __device__ __forceinline__ int64_t part_row(int64_t begin, int64_t number)
{
    return begin / TD_CUDA_BAG_PART * 2 + (number > 0);
}

/* ---- Sums ---------------------------------------------------------------------------------- */

/* Parameters of the kernels: T is the type of an element of params, A the type in which rows are
 * summed, and n the number of elements of a vector. `maximum` is true if the mode is max. */
template <typename T_, typename A_, int n_, bool maximum_> struct bag_kind {
    typedef T_ T;
    typedef A_ A;
    static constexpr int n = n_;
    static constexpr bool maximum = maximum_;
    static constexpr bool quantized = sizeof(T_) == 1;
    typedef typename vector_of<n_ *(int)sizeof(T_)>::type vector;
};

/* Returns the larger value. NaN is larger than any number. */
template <typename A> static __device__ __forceinline__ A greater_of(A a, A b)
{
    return b > a || b != b ? b : a;
}

/* Sums of n columns, and the divisor: the number of rows, or the sum of their weights or of the
 * squared weights. The divisor can be much smaller than its terms, so its type is float64.
 *
 * For quantised rows, `bias` is the sum of the offsets, except the offset of the first row, which
 * is added with that row. */
template <typename A, int n> struct totals {
    A sum[n], bias;
    double weight;
    bool has_row;
};

template <bool maximum, typename A, int n>
static __device__ __forceinline__ void clear(struct totals<A, n> *t)
{
#pragma unroll
    for (int k = 0; k < n; k++)
        t->sum[k] = maximum ? (A)-INFINITY : (A)0;
    t->bias = 0;
    t->weight = 0;
    t->has_row = false;
}

/* Rounds once, as on the CPU. Without the intrinsics, the result would depend on nvcc's -fmad. */
static __device__ __forceinline__ float fused(float x, float y, float z)
{
    return __fmaf_rn(x, y, z);
}

static __device__ __forceinline__ double fused(double x, double y, double z)
{
    return __fma_rn(x, y, z);
}

/* Stores the columns of a bag, divided according to the mode. */
template <typename A, int n>
static __device__ __forceinline__ void store_bag(const struct td_cuda_bags_args &args, int64_t bag,
                                                 int64_t column, struct totals<A, n> *t)
{
    const bool divides = args.mode == MODE_MEAN || args.mode == MODE_SQRTN;
    const bool zero = (divides || args.mode == MODE_MAX) && t->weight == 0;
    A factor = 1;
    if (divides && !zero)
        factor = (A)(1 / (args.mode == MODE_SQRTN ? sqrt(t->weight) : t->weight));
#pragma unroll
    for (int k = 0; k < n; k++)
        t->sum[k] = zero ? 0 : t->sum[k] * factor;
    store_numbers(args.out, bag * args.columns + column, args.out_type, t->sum);
}

#define ROW_SKIPPED (-2)

/* Returns the row that an index selects, -1 for a row of zeros, or ROW_SKIPPED for padding.
 * `reports` is true for only one of the threads that look up the index. */
static __device__ __forceinline__ int64_t bag_row(const struct td_cuda_bags_args &args, int64_t i,
                                                  bool reports, bool *counted)
{
    const int64_t index = index_at(args.indices, args.index_bytes, i);
    int64_t row = index;
    if ((uint64_t)index >= (uint64_t)args.n_rows) {
        if (reports) {
            count_bad_index(args.reporting, i);
            *counted = true;
        }
        row = resolve_index(index, args.n_rows, args.bounds);
    }
    return index == args.padding && index >= 0 ? (int64_t)ROW_SKIPPED : row;
}

/* Rounds the product before adding, as the CPU does. */
static __device__ __forceinline__ float scaled(float element, const struct scaling<float> &s)
{
    return __fadd_rn(__fmul_rn(element - s.zero, s.scale), s.offset);
}

/* Adds a row in the same way and order as the CPU (kernels/embedding_bag/bags.inc). A row of zeros
 * has no scale or offset. A weight of NaN or infinity makes its values NaN. */
template <typename K>
static __device__ __forceinline__ void add_row(const struct td_cuda_bags_args &args, int64_t i,
                                               int64_t row, typename K::vector vector,
                                               struct totals<typename K::A, K::n> *t)
{
    typedef typename K::A A;
    if (row == ROW_SKIPPED)
        return;
    typename K::T values[K::n];
    memcpy((void *)values, &vector, sizeof(values));
    const A weight =
        args.weights == NULL ? (A)1 : load_number<A>(args.weights, i, args.weights_type);
    struct scaling<float> s = {
        0, 1, 0
    };
    if (K::quantized && row >= 0)
        s = load_scaling<float>(args.scaling, row,
                                (const char *)args.params + row * args.row_bytes + args.columns);
    s.scale = __fmul_rn(s.scale, (float)weight);
    s.offset = __fmul_rn(s.offset, (float)weight);
    const bool is_first = K::quantized && row >= 0 && !t->has_row;
#pragma unroll
    for (int k = 0; k < K::n; k++) {
        const A value = widen<A>(values[k]);
        if (K::maximum)
            t->sum[k] = greater_of(t->sum[k], K::quantized ? (A)scaled((float)value, s) : value);
        else if (is_first)
            t->sum[k] += scaled((float)value, s); /* added to 0, or to NaN */
        else if (K::quantized)
            t->sum[k] = fused((float)value - s.zero, s.scale, (float)t->sum[k]);
        else
            t->sum[k] = fused(value, weight, t->sum[k]);
    }
    if (!is_first)
        t->bias += s.offset;
    t->has_row |= row >= 0;
    t->weight += args.mode == MODE_SQRTN ? (double)weight * (double)weight : (double)weight;
}

template <typename K>
static __device__ __forceinline__ void
sum_part(const struct td_cuda_bags_args &args, const struct part &part, int64_t column,
         bool reports, bool *counted, struct totals<typename K::A, K::n> *t)
{
    typedef typename K::vector vector;
    const char *params = (const char *)args.params + column * (int64_t)sizeof(typename K::T);
    const bool has_column = column < args.columns;
    clear<K::maximum>(t);
    for (int64_t i = part.begin; i < part.end; i += ROWS_IN_FLIGHT) {
        int64_t row[ROWS_IN_FLIGHT];
        vector loaded[ROWS_IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < ROWS_IN_FLIGHT; k++)
            row[k] =
                i + k < part.end ? bag_row(args, i + k, reports, counted) : (int64_t)ROW_SKIPPED;
#pragma unroll
        for (int k = 0; k < ROWS_IN_FLIGHT; k++) {
            loaded[k] = {};
            if (row[k] >= 0 && has_column)
                loaded[k] = __ldg((const vector *)(const void *)(params + row[k] * args.row_bytes));
        }
#pragma unroll
        for (int k = 0; k < ROWS_IN_FLIGHT; k++)
            add_row<K>(args, i + k, row[k], loaded[k], t);
    }
#pragma unroll
    for (int k = 0; k < K::n; k++)
        if (K::quantized && !K::maximum)
            t->sum[k] += t->bias;
}

template <typename K>
static __global__ void __launch_bounds__(THREADS)
    sum_parts(const __grid_constant__ struct td_cuda_bags_args args)
{
    typedef typename K::A A;
    const int group = 1 << args.group_log2, groups = THREADS >> args.group_log2;
    const int lane = (int)threadIdx.x & (group - 1);
    const int64_t step = (int64_t)gridDim.x * groups;
    bool counted = false;
    int64_t i = (int64_t)blockIdx.x * groups + ((int)threadIdx.x >> args.group_log2);
    for (; i < args.n_parts * args.chunks; i += step) {
        int64_t chunk = 0;
        struct part part;
        if (!find_part(args, args.chunks == 1 ? i : divide(i, args.chunks, &chunk), &part))
            continue;
        const int64_t column = (chunk * group + lane) * K::n;
        const bool is_first = lane == 0 && chunk == 0;
        struct totals<A, K::n> t;
        sum_part<K>(args, part, column, is_first, &counted, &t);
        if (column >= args.columns)
            continue;
        if (part.whole) {
            store_bag(args, part.bag, column, &t);
            continue;
        }
        const int64_t row = part_row(part.begin, part.number);
        A *sums = (A *)args.part_sums + row * args.columns + column;
#pragma unroll
        for (int k = 0; k < K::n; k++)
            sums[k] = t.sum[k];
        if (is_first)
            args.part_weights[row] = t.weight;
    }
    write_reports(args.reporting, counted);
}

/* Adds the sums of the parts of each split bag in float64. The sums have type A. For each multiple
 * p of TD_CUDA_BAG_PART, at most one split bag starts in the run of indices before p: the bag that
 * contains index p. */
template <typename A, bool maximum>
static __global__ void __launch_bounds__(THREADS)
    add_parts(const __grid_constant__ struct td_cuda_bags_args args)
{
    const int64_t runs = args.n_indices / TD_CUDA_BAG_PART;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; i < runs * args.columns; i += step) {
        int64_t column;
        const int64_t p = (divide(i, args.columns, &column) + 1) * TD_CUDA_BAG_PART;
        const int64_t bag = p < args.n_indices ? bag_of_index(args, p) : args.n_bags;
        const int64_t begin = bag_begin(args, bag), end = bag_begin(args, bag + 1);
        if (begin < p - TD_CUDA_BAG_PART || begin >= p || end - begin <= TD_CUDA_BAG_PART)
            continue; /* a bag that starts at p is added in the next run */
        struct totals<double, 1> t;
        clear<maximum>(&t);
        for (int64_t at = begin; at < end; at += TD_CUDA_BAG_PART) {
            const int64_t row = part_row(at, at - begin);
            const double sum = ((const A *)args.part_sums)[row * args.columns + column];
            t.sum[0] = maximum ? greater_of(t.sum[0], sum) : t.sum[0] + sum;
            t.weight += args.part_weights[row];
        }
        store_bag(args, bag, column, &t);
    }
}

/* ---- Segments ------------------------------------------------------------------------------ */

/* Sets found_begins[i] to the position of the first segment id that is at least i. */
static __global__ void __launch_bounds__(THREADS)
    find_begins(const __grid_constant__ struct td_cuda_bags_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_bags; i += step) {
        int64_t low = 0, high = args.n_indices;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (index_at(args.segment_ids, args.segment_bytes, middle) < i)
                low = middle + 1;
            else
                high = middle;
        }
        args.found_begins[i] = low;
    }
}

/* ---- Launches ------------------------------------------------------------------------------ */

template <typename K>
static cudaError_t launch(const struct td_cuda_bags_args *args, cudaStream_t stream)
{
    const unsigned int blocks =
        grid_blocks(ceil_div(args->n_parts * args->chunks, THREADS >> args->group_log2));
    sum_parts<K><<<blocks, THREADS, 0, stream>>>(*args);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->part_sums == NULL)
        return error;
    const unsigned int adding =
        grid_blocks(ceil_div(args->n_indices / TD_CUDA_BAG_PART * args->columns, THREADS));
    add_parts<typename K::A, K::maximum><<<adding, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename T, typename A, int n>
static cudaError_t launch_mode(const struct td_cuda_bags_args *args, cudaStream_t stream)
{
    return args->mode == MODE_MAX ? launch<bag_kind<T, A, n, true>>(args, stream)
                                  : launch<bag_kind<T, A, n, false>>(args, stream);
}

/* Launches the kernel with vectors of 16 bytes, with vectors of 4 bytes if elements are smaller
 * than 4 bytes, or with single elements. */
template <typename T, typename A>
static cudaError_t launch_vector(const struct td_cuda_bags_args *args, cudaStream_t stream)
{
    constexpr int size = (int)sizeof(T);
    switch (args->vector_elements * size) {
    case 16:
        return launch_mode<T, A, 16 / size>(args, stream);
    case 4:
        return launch_mode < T, A, size < 4 ? 4 / size : 1 > (args, stream);
    default:
        return launch_mode<T, A, 1>(args, stream);
    }
}

cudaError_t td_cuda_bags(const struct td_cuda_bags_args *args, cudaStream_t stream)
{
    if (args->segment_ids != NULL) {
        const unsigned int blocks = grid_blocks(ceil_div(args->n_bags, THREADS));
        find_begins<<<blocks, THREADS, 0, stream>>>(*args);
        const cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess)
            return error;
    }
    switch (args->params_type) {
    case TD_CUDA_FLOAT16:
        return launch_vector<__half, float>(args, stream);
    case TD_CUDA_BFLOAT16:
        return launch_vector<__nv_bfloat16, float>(args, stream);
    case TD_CUDA_FLOAT64:
        return launch_vector<double, double>(args, stream);
    case TD_CUDA_INT8:
        return launch_vector<int8_t, float>(args, stream);
    case TD_CUDA_UINT8:
        return launch_vector<uint8_t, float>(args, stream);
    default:
        return launch_vector<float, float>(args, stream);
    }
}

template <typename K> static void load(cudaError_t *error)
{
    load_kernel(error, sum_parts<K>);
    load_kernel(error, add_parts<typename K::A, K::maximum>);
}

template <typename T, typename A, int n> static void load_modes(cudaError_t *error)
{
    load<bag_kind<T, A, n, true>>(error);
    load<bag_kind<T, A, n, false>>(error);
}

template <typename T, typename A> static void load_vectors(cudaError_t *error)
{
    constexpr int size = (int)sizeof(T), n = size < 4 ? 4 / size : 1;
    load_modes<T, A, 16 / size>(error);
    load_modes<T, A, n>(error);
    load_modes<T, A, 1>(error);
}

cudaError_t td_cuda_bags_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, find_begins);
    load_vectors<__half, float>(&error);
    load_vectors<__nv_bfloat16, float>(&error);
    load_vectors<double, double>(&error);
    load_vectors<int8_t, float>(&error);
    load_vectors<uint8_t, float>(&error);
    load_vectors<float, float>(&error);
    return error;
}
