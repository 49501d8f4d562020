/* measure.c - small benchmarks when a device is opened, for the choice between device and CPU; each is
 * the best of a few repetitions. */
#include "gpu/cuda/measure.h"

#include "gpu/cuda/ops/contract.h"
#include "gpu/cuda/runtime/copy.h"
#include "gpu/cuda/runtime/memory.h"

#include <time.h>

#define COPY_BYTES     ((size_t)16 << 20)
#define DEVICE_BYTES   ((size_t)128 << 20)
#define LAUNCH_REPEATS 20
#define REPEATS        3
#define SIDE           1024 /* of the matrices */

/* A stream and memory for the benchmarks, on the device and pinned. */
struct bench {
    struct td_device_stream *stream;
    size_t device_bytes, copy_bytes;
    void *device, *host;
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

static td_status bench_copy(const struct bench *bench, struct td_error *err)
{
    return td_cuda_copy_to_device(bench->stream, bench->device, bench->host, bench->copy_bytes,
                                  err);
}

static td_status bench_device_copy(const struct bench *bench, struct td_error *err)
{
    const size_t half = bench->device_bytes / 2;
    return td_cuda_check(bench->stream->device,
                         cudaMemcpyAsync((char *)bench->device + half, bench->device, half,
                                         cudaMemcpyDeviceToDevice, bench->stream->stream),
                         "copy", err);
}

static td_status bench_gemm(const struct bench *bench, struct td_error *err)
{
    struct td_loop loops[3] = {
        { SIDE, { SIDE, 0, SIDE } },
        { SIDE, { 0, 1, 1 } },
        { SIDE, { 1, SIDE, 0 } },
    };
    const struct td_contraction product = {
        .dtype = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32 },
        .has_b = true,
        .kind = TD_CONTRACT_GEMM,
        .rank = 3,
        .loops = loops,
    };
    const size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    char *at = bench->device;
    return td_cuda_contract(bench->stream, &product, at, at + bytes, at + 2 * bytes, NULL, err);
}

/* The shortest of n repetitions, after a warm-up; at least 1 ns. */
static td_status best_of(const struct bench *bench, bench_fn *submit, int n, uint64_t *best,
                         struct td_error *err)
{
    struct td_device *device = bench->stream->device;
    *best = UINT64_MAX;
    for (int i = 0; i <= n; i++) {
        uint64_t begin = now_ns();
        td_status status = submit(bench, err);
        if (status == TD_OK)
            status = td_cuda_check(device, cudaStreamSynchronize(bench->stream->stream),
                                   "complete a benchmark", err);
        if (status != TD_OK)
            return status;
        uint64_t took = now_ns() - begin;
        if (i > 0 && took < *best)
            *best = took > 0 ? took : 1;
    }
    return TD_OK;
}

/* Amount per microsecond, without the launch latency that ns includes; at least 1. */
static uint64_t rate(uint64_t amount, uint64_t ns, uint64_t launch_ns)
{
    if (ns > 2 * launch_ns)
        ns -= launch_ns;
    uint64_t result = (uint64_t)((double)amount * 1000 / (double)ns);
    return result > 0 ? result : 1;
}

static td_status run_benchmarks(const struct bench *bench, struct td_device_info *info,
                                struct td_error *err)
{
    struct td_device *device = bench->stream->device;
    uint64_t launch, copy, device_copy, gemm;
    td_status status = td_cuda_check(
        device, cudaMemsetAsync(bench->device, 0, bench->device_bytes, bench->stream->stream),
        "clear memory", err);
    if (status == TD_OK)
        status = best_of(bench, bench_launch, LAUNCH_REPEATS, &launch, err);
    if (status == TD_OK)
        status = best_of(bench, bench_copy, REPEATS, &copy, err);
    if (status == TD_OK)
        status = best_of(bench, bench_device_copy, REPEATS, &device_copy, err);
    if (status == TD_OK)
        status = best_of(bench, bench_gemm, REPEATS, &gemm, err);
    if (status != TD_OK)
        return status;
    info->launch_ns = launch;
    info->copy_bytes_per_us = rate(bench->copy_bytes, copy, launch);
    info->device_bytes_per_us = rate(bench->device_bytes, device_copy, launch);
    info->float32_flops_per_us = rate((uint64_t)2 * SIDE * SIDE * SIDE, gemm, launch);
    return TD_OK;
}

/* Never less than the matrices of bench_gemm. */
static size_t bench_bytes(const struct td_device *device)
{
    const size_t least = (size_t)3 * SIDE * SIDE * sizeof(float);
    size_t bytes = DEVICE_BYTES;
    while (bytes > 2 * least && bytes > device->info.memory / 4)
        bytes /= 2;
    return bytes;
}

td_status td_cuda_measure(struct td_device *device, struct td_error *err)
{
    struct bench bench = { .copy_bytes = COPY_BYTES, .device_bytes = bench_bytes(device) };
    td_status status = td_cuda_stream_open(device, &bench.stream, err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaMalloc(&bench.device, bench.device_bytes),
                               "measure its speed", err);
    if (status == TD_OK)
        status = td_cuda_host_alloc(device, bench.copy_bytes, &bench.host, err);
    if (status == TD_OK)
        status = run_benchmarks(&bench, &device->info, err);
    if (!device->lost) {
        (void)cudaFree(bench.device); /* not counted against the limit, which may be smaller */
        (void)cudaGetLastError();
    }
    if (bench.host)
        td_cuda_free(device, bench.host);
    td_cuda_stream_close(bench.stream);
    return status;
}
