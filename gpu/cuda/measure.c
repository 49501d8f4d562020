/* measure.c - runs small benchmarks when a device is opened. The results determine whether a call
 * runs on the device or on the CPU. Each result is the best of a few repetitions. */
#include "gpu/cuda/measure.h"

#include "gpu/cuda/ops/contract.h"
#include "gpu/cuda/runtime/copy.h"
#include "gpu/cuda/runtime/memory.h"
#include "gpu/cuda/runtime/stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPY_BYTES   ((size_t)16 << 20)
#define DEVICE_BYTES ((size_t)128 << 20)
/* Size in bytes of a small call's input, and of its result. */
#define CALL_BYTES   ((size_t)4 << 10)
#define CALL_REPEATS 20
#define REPEATS      3
#define LAUNCHES     20   /* number of launches that are measured together */
#define SIDE         1024 /* number of rows of the square matrices in the measured products */
#define WAIT_NS      INT64_C(60000000000)

/* A stream for the benchmarks, with memory on the device and on the host. */
struct bench {
    struct td_device_stream *stream;
    size_t device_bytes, copy_bytes;
    void *device, *host;
    void *pageable; /* unpinned memory, copy_bytes bytes */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Submits the work of a benchmark. */
typedef td_status bench_fn(const struct bench *bench, struct td_error *err);

static td_status bench_launch(const struct bench *bench, struct td_error *err)
{
    struct td_cuda_gather_args args = {
        .out = bench->device,
        .params = bench->device,
        .copy = td_cuda_row_copy_make(0, 0),
        .n_rows = 32,
        .slice_outputs = 32,
        .repeat = 1,
        .indices = bench->device,
        .index_bytes = 4,
        .depth = 1,
        .bound = { 1 },
    };
    return td_cuda_check(bench->stream->device, td_cuda_gather(&args, bench->stream->stream),
                         "launch a kernel", err);
}

/* Submits the launches of a program with small tensors. */
static td_status bench_launches(const struct bench *bench, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; i < LAUNCHES && status == TD_OK; i++)
        status = bench_launch(bench, err);
    return status;
}

/* Submits the same work as a batch of small calls. */
static td_status bench_call(const struct bench *bench, struct td_error *err)
{
    char *device = bench->device, *host = bench->host;
    td_status status =
        td_cuda_copy_to_device(bench->stream, device + CALL_BYTES, host, CALL_BYTES, err);
    if (status == TD_OK)
        status = bench_launch(bench, err);
    if (status == TD_OK)
        status = td_cuda_copy_to_host(bench->stream, host + CALL_BYTES, device + CALL_BYTES,
                                      CALL_BYTES, err);
    return status;
}

static td_status bench_copy(const struct bench *bench, struct td_error *err)
{
    return td_cuda_copy_to_device(bench->stream, bench->device, bench->host, bench->copy_bytes,
                                  err);
}

static td_status bench_back(const struct bench *bench, struct td_error *err)
{
    return td_cuda_copy_to_host(bench->stream, bench->host, bench->device, bench->copy_bytes, err);
}

/* Does no work on the device, to measure the work of a host thread before a copy. */
static td_status bench_fill(const struct bench *bench, struct td_error *err)
{
    (void)err;
    memcpy(bench->host, bench->pageable, bench->copy_bytes);
    return TD_OK;
}

static td_status bench_device_copy(const struct bench *bench, struct td_error *err)
{
    const size_t half = bench->device_bytes / 2;
    return td_cuda_check(bench->stream->device,
                         cudaMemcpyAsync((char *)bench->device + half, bench->device, half,
                                         cudaMemcpyDeviceToDevice, bench->stream->stream),
                         "copy", err);
}

/* Sizes of a batch of products. Both factors use the same memory of zeros, so the results are 0. */
struct products {
    int64_t batch, side; /* number of rows of the square matrices */
    bool transposed;     /* the second factor is stored column by column */
};

static td_status multiply(const struct bench *bench, td_dtype dtype, struct products of,
                          struct td_error *err)
{
    const int64_t side = of.side, all = side * side;
    struct td_loop loops[4] = {
        { of.batch, { all, all, all } },
        { side, { side, 0, side } },
        { side, { 0, of.transposed ? side : 1, 1 } },
        { side, { 1, of.transposed ? 1 : side, 0 } },
    };
    const int skipped = of.batch == 1;
    const struct td_contraction product = {
        .dtype = { dtype, dtype, dtype },
        .has_b = true,
        .kind = TD_CONTRACT_GEMM,
        .rank = 4 - skipped,
        .loops = loops + skipped,
    };
    char *at = bench->device, *out = at + bench->device_bytes / 2;
    return td_cuda_contract(bench->stream, &product, at, at, out, NULL, err);
}

static td_status bench_gemm(const struct bench *bench, struct td_error *err)
{
    return multiply(bench, TD_DTYPE_FLOAT32, (struct products){ 1, SIDE, false }, err);
}

/* ---- Kernels of libraries ---------------------------------------------------------------- */

/* Loads the kernels of cuBLAS, each of which is loaded on its first call. Loading takes up to a
 * second and can wait for other streams, so it must not happen during a client's call. The choice
 * of kernel depends on the sizes, so this function computes a few products of each kind, up to the
 * largest size that fits in the memory. */
static td_status load_products(const struct bench *bench, struct td_error *err)
{
    static const td_dtype dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16,  TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128 };
    static const struct products products[] = { { 1, 32, false },   { 1, 512, false },
                                                { 1, 2048, false }, { 1, 4096, false },
                                                { 64, 32, false },  { 16, 128, false } };
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        for (size_t k = 0; k < 2 * sizeof(products) / sizeof(products[0]) && status == TD_OK; k++) {
            struct products of = products[k / 2];
            const size_t bytes =
                (size_t)(of.batch * of.side * of.side) * td_dtype_info(dtypes[i])->size;
            of.transposed = k % 2 == 1;
            if (bytes <= bench->device_bytes / 2)
                status = multiply(bench, dtypes[i], of, err);
        }
    return status;
}

/* Loads the kernels of a partition's sort, which has different kernels for few and many rows, and
 * for keys with few and many bits. */
static td_status load_sorts(const struct bench *bench, struct td_error *err)
{
    static const int64_t rows[] = { 32, 16384 };
    static const int buckets[] = { 1, 200, 65534 };
    const size_t step = (size_t)64 << 10; /* 4 bytes for each row */
    char *zeros = bench->device, *at = zeros + bench->device_bytes / 2;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 6 && error == cudaSuccess; i++) {
        struct td_cuda_partition_args args = {
            .copy = td_cuda_row_copy_make(0, 0),
            .n_rows = rows[i % 2],
            .partitions = zeros,
            .index_bytes = 4,
            .n_buckets = buckets[i / 2],
            .buckets = (const struct td_cuda_bucket *)(const void *)zeros,
            .keys = { (uint16_t *)(void *)at, (uint16_t *)(void *)(at + step) },
            .rows = { (uint32_t *)(void *)(at + 2 * step), (uint32_t *)(void *)(at + 3 * step) },
            .sort_workspace = at + 4 * step,
        };
        error = td_cuda_partition_sort_bytes(args.n_rows, args.n_buckets, &args.sort_bytes);
        if (error == cudaSuccess && args.sort_bytes <= bench->device_bytes / 2 - 4 * step)
            error = td_cuda_partition(&args, bench->stream->stream);
    }
    return td_cuda_check(bench->stream->device, error, "sort", err);
}

/* ---- Benchmarks -------------------------------------------------------------------------- */

/* Waits in the same way as the batcher. */
static td_status complete(const struct bench *bench, struct td_error *err)
{
    bool done;
    const td_status status = td_cuda_wait(bench->stream, WAIT_NS, &done, err);
    if (status == TD_OK && !done)
        return td_cuda_mark_lost(bench->stream->device, "a benchmark did not finish", err);
    return status;
}

/* Measures the shortest of n repetitions, after a warm-up. The result is at least 1 ns. */
static td_status best_of(const struct bench *bench, bench_fn *submit, int n, uint64_t *best,
                         struct td_error *err)
{
    *best = UINT64_MAX;
    for (int i = 0; i <= n; i++) {
        uint64_t begin = now_ns();
        td_status status = submit(bench, err);
        if (status == TD_OK)
            status = complete(bench, err);
        if (status != TD_OK)
            return status;
        uint64_t took = now_ns() - begin;
        if (i > 0 && took < *best)
            *best = took > 0 ? took : 1;
    }
    return TD_OK;
}

/* Returns `amount` per microsecond, excluding the latency that is part of `ns`. The result is at
 * least 1. */
static uint64_t rate(uint64_t amount, uint64_t ns, uint64_t latency_ns)
{
    if (ns > 2 * latency_ns)
        ns -= latency_ns;
    uint64_t result = (uint64_t)((double)amount * 1000 / (double)ns);
    return result > 0 ? result : 1;
}

static td_status clear(const struct bench *bench, struct td_error *err)
{
    return td_cuda_check(
        bench->stream->device,
        cudaMemsetAsync(bench->device, 0, bench->device_bytes, bench->stream->stream),
        "clear memory", err);
}

static td_status run_benchmarks(const struct bench *bench, struct td_device_info *info,
                                struct td_error *err)
{
    uint64_t launch, launches, call, copy, back, fill, device_copy, gemm;
    td_status status = clear(bench, err);
    if (status == TD_OK)
        status = best_of(bench, bench_launch, CALL_REPEATS, &launch, err);
    if (status == TD_OK)
        status = best_of(bench, bench_launches, CALL_REPEATS, &launches, err);
    if (status == TD_OK)
        status = best_of(bench, bench_call, CALL_REPEATS, &call, err);
    if (status == TD_OK)
        status = best_of(bench, bench_copy, REPEATS, &copy, err);
    if (status == TD_OK)
        status = best_of(bench, bench_back, REPEATS, &back, err);
    if (status == TD_OK)
        status = best_of(bench, bench_fill, REPEATS, &fill, err);
    if (status == TD_OK)
        status = best_of(bench, bench_device_copy, REPEATS, &device_copy, err);
    if (status == TD_OK)
        status = clear(bench, err); /* clear what was copied */
    if (status == TD_OK)
        status = best_of(bench, bench_gemm, REPEATS, &gemm, err);
    if (status == TD_OK)
        status = load_products(bench, err);
    if (status == TD_OK)
        status = load_sorts(bench, err);
    if (status == TD_OK)
        status = complete(bench, err);
    if (status != TD_OK)
        return status;
    info->launch_ns = call;
    info->next_launch_ns = launches / LAUNCHES;
    info->copy_bytes_per_us = rate(bench->copy_bytes, copy, launch);
    info->back_bytes_per_us = rate(bench->copy_bytes, back, launch);
    info->fill_bytes_per_us = rate(bench->copy_bytes, fill, 0);
    info->device_bytes_per_us = rate(bench->device_bytes, device_copy, launch);
    info->float32_flops_per_us = rate((uint64_t)2 * SIDE * SIDE * SIDE, gemm, launch);
    return TD_OK;
}

/* Returns the size in bytes of the device memory for the benchmarks. Each half holds at least the
 * bytes that bench_copy copies. */
static size_t bench_bytes(const struct td_device *device)
{
    const size_t least = COPY_BYTES;
    size_t bytes = DEVICE_BYTES;
    while (bytes / 2 >= least && bytes > device->info.memory / 32)
        bytes /= 2;
    return bytes;
}

td_status td_cuda_measure(struct td_device *device, struct td_error *err)
{
    struct bench bench = { .copy_bytes = COPY_BYTES, .device_bytes = bench_bytes(device) };
    td_status status = td_cuda_stream_open(device, &bench.stream, err);
    bench.pageable = calloc(1, bench.copy_bytes);
    if (status == TD_OK && !bench.pageable)
        status =
            td_error_set(err, TD_MEMORY_EXHAUSTED, "not enough host memory to measure the device");
    if (status == TD_OK)
        status = td_cuda_check(device, cudaMalloc(&bench.device, bench.device_bytes),
                               "measure its speed", err);
    if (status == TD_OK)
        status = td_cuda_host_alloc(device, bench.copy_bytes, &bench.host, err);
    if (status == TD_OK)
        status = run_benchmarks(&bench, &device->info, err);
    if (!device->lost) {
        /* The benchmark's memory does not count towards the limit of the device, which can be
         * smaller. */
        (void)cudaFree(bench.device);
        (void)cudaGetLastError();
    }
    if (bench.host)
        td_cuda_free(device, bench.host);
    td_cuda_stream_close(bench.stream);
    free(bench.pageable);
    return status;
}
