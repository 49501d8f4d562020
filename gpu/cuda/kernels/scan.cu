/* scan.cu - cumsum. Floats are added as double, and each result is rounded once. Integers are added
 * modulo 2^64. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/elements.cuh"

/* The elements of a row in the order in which they are added. W is the type of the sums. */
template <typename W> struct scanned_row {
    const struct td_cuda_scan_args &args;
    int64_t base;

    __device__ __forceinline__ scanned_row(const struct td_cuda_scan_args &of, int64_t row)
        : args(of)
    {
        int64_t column;
        const int64_t outer = divide(row, of.inner, &column);
        base = outer * of.n * of.inner + column;
    }
    __device__ __forceinline__ int64_t at(int64_t i) const
    {
        return base + (args.reverse ? args.n - 1 - i : i) * args.inner;
    }
    __device__ __forceinline__ W load(int64_t i) const;
    __device__ __forceinline__ void store(int64_t i, W sum) const;
};

template <> __device__ __forceinline__ double scanned_row<double>::load(int64_t i) const
{
    return read_float(load_bits(args.x, at(i), args.element_bytes), args.element);
}
template <> __device__ __forceinline__ uint64_t scanned_row<uint64_t>::load(int64_t i) const
{
    return load_bits(args.x, at(i), args.element_bytes);
}
template <> __device__ __forceinline__ void scanned_row<double>::store(int64_t i, double sum) const
{
    store_bits(args.out, at(i), args.element_bytes, round_double(sum, args.element));
}
template <>
__device__ __forceinline__ void scanned_row<uint64_t>::store(int64_t i, uint64_t sum) const
{
    store_bits(args.out, at(i), args.element_bytes, sum);
}

/* A thread computes a row. Neighbouring threads compute neighbouring rows. */
template <typename W>
static __global__ void __launch_bounds__(THREADS)
    scan_by_thread(const __grid_constant__ struct td_cuda_scan_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t r = (int64_t)blockIdx.x * THREADS + threadIdx.x; r < args.n_rows; r += step) {
        const scanned_row<W> row(args, r);
        W sum = 0;
        for (int64_t i = 0; i < args.n; i++) {
            const W before = sum;
            sum += row.load(i);
            row.store(i, args.exclusive ? before : sum);
        }
    }
}

/* A block computes a row, THREADS elements at a time. */
template <typename W>
static __global__ void __launch_bounds__(THREADS)
    scan_by_block(const __grid_constant__ struct td_cuda_scan_args args)
{
    __shared__ W sums[THREADS];
    const int tid = (int)threadIdx.x;
    for (int64_t r = blockIdx.x; r < args.n_rows; r += gridDim.x) {
        const scanned_row<W> row(args, r);
        W carry = 0; /* the sum of all elements before */
        for (int64_t begin = 0; begin < args.n; begin += THREADS) {
            const int64_t i = begin + tid;
            sums[tid] = i < args.n ? row.load(i) : 0;
            __syncthreads();
            for (int distance = 1; distance < THREADS; distance *= 2) {
                const W before = tid >= distance ? sums[tid - distance] : 0;
                __syncthreads();
                sums[tid] += before;
                __syncthreads();
            }
            if (i < args.n)
                row.store(i, !args.exclusive ? carry + sums[tid]
                             : tid > 0       ? carry + sums[tid - 1]
                                             : carry);
            carry += sums[THREADS - 1];
            __syncthreads(); /* before `sums` is reused */
        }
    }
}

template <typename W>
static cudaError_t launch(const struct td_cuda_scan_args *args, cudaStream_t stream)
{
    const unsigned int blocks =
        grid_blocks(args->by_block ? args->n_rows : ceil_div(args->n_rows, THREADS));
    if (args->by_block)
        scan_by_block<W><<<blocks, THREADS, 0, stream>>>(*args);
    else
        scan_by_thread<W><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t td_cuda_scan(const struct td_cuda_scan_args *args, cudaStream_t stream)
{
    return args->element >= TD_CUDA_ELEMENT_FLOAT16 ? launch<double>(args, stream)
                                                    : launch<uint64_t>(args, stream);
}

cudaError_t td_cuda_scan_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, scan_by_thread<double>);
    load_kernel(&error, scan_by_thread<uint64_t>);
    load_kernel(&error, scan_by_block<double>);
    load_kernel(&error, scan_by_block<uint64_t>);
    return error;
}
