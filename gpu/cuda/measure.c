/* measure.c - what the device can do, for the choice between it and the processor: small trials at
 * opening, each the best of a few. */
#include "gpu/cuda/measure.h"

#include "gpu/cuda/ops/contract.h"
#include "gpu/cuda/runtime/memory.h"

#include <time.h>

#define COPY_BYTES   ((size_t)16 << 20)
#define DEVICE_BYTES ((size_t)128 << 20)
#define LAUNCHES     20
#define TRIALS       3
#define SIDE         1024

/* Memory of the trials: two halves on the device, one block on the host. */
struct trials {
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

/* A trial submits its work. */
typedef td_status trial_fn(const struct trials *trials, struct td_error *err);

static td_status launch_trial(const struct trials *trials, struct td_error *err)
{
    struct td_cuda_rows job = {
        .out = trials->device,
        .table = trials->device,
        .move = td_cuda_move_make(0, 0),
        .n_rows = 32,
        .per_slice = 32,
        .slices = 1,
        .indices = trials->device,
        .index_bytes = 4,
        .depth = 1,
        .bound = { 1 },
    };
    return td_cuda_check(trials->stream->device, td_cuda_gather(&job, trials->stream->stream),
                         "launch a kernel", err);
}

static td_status copy_trial(const struct trials *trials, struct td_error *err)
{
    return td_cuda_copy_to_device(trials->stream, trials->device, trials->host, trials->copy_bytes,
                                  err);
}

static td_status device_trial(const struct trials *trials, struct td_error *err)
{
    const size_t half = trials->device_bytes / 2;
    return td_cuda_check(trials->stream->device,
                         cudaMemcpyAsync((char *)trials->device + half, trials->device, half,
                                         cudaMemcpyDeviceToDevice, trials->stream->stream),
                         "copy", err);
}

static td_status product_trial(const struct trials *trials, struct td_error *err)
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
    char *at = trials->device;
    return td_cuda_contract(trials->stream, &product, at, at + bytes, at + 2 * bytes, NULL, err);
}

/* The fewest nanoseconds of several, after one that warms up; 1 at the least. */
static td_status best_of(const struct trials *trials, trial_fn *trial, int n, uint64_t *best,
                         struct td_error *err)
{
    struct td_device *device = trials->stream->device;
    *best = UINT64_MAX;
    for (int i = 0; i <= n; i++) {
        uint64_t begun = now_ns();
        td_status status = trial(trials, err);
        if (status == TD_OK)
            status = td_cuda_check(device, cudaStreamSynchronize(trials->stream->stream),
                                   "finish a trial", err);
        if (status != TD_OK)
            return status;
        uint64_t took = now_ns() - begun;
        if (i > 0 && took < *best)
            *best = took > 0 ? took : 1;
    }
    return TD_OK;
}

/* Amount per microsecond, beside the launch that is in the time; 1 at the least. */
static uint64_t rate(uint64_t amount, uint64_t ns, uint64_t launch_ns)
{
    if (ns > 2 * launch_ns)
        ns -= launch_ns;
    uint64_t result = (uint64_t)((double)amount * 1000 / (double)ns);
    return result > 0 ? result : 1;
}

static td_status run_trials(const struct trials *trials, struct td_device_info *info,
                            struct td_error *err)
{
    struct td_device *device = trials->stream->device;
    uint64_t launch, copy, own, product;
    td_status status = td_cuda_check(
        device, cudaMemsetAsync(trials->device, 0, trials->device_bytes, trials->stream->stream),
        "clear memory", err);
    if (status == TD_OK)
        status = best_of(trials, launch_trial, LAUNCHES, &launch, err);
    if (status == TD_OK)
        status = best_of(trials, copy_trial, TRIALS, &copy, err);
    if (status == TD_OK)
        status = best_of(trials, device_trial, TRIALS, &own, err);
    if (status == TD_OK)
        status = best_of(trials, product_trial, TRIALS, &product, err);
    if (status != TD_OK)
        return status;
    info->launch_ns = launch;
    info->copy_bytes_per_us = rate(trials->copy_bytes, copy, launch);
    info->device_bytes_per_us = rate(trials->device_bytes, own, launch);
    info->float32_flops_per_us = rate((uint64_t)2 * SIDE * SIDE * SIDE, product, launch);
    return TD_OK;
}

/* Never less than the matrices of the product take. */
static size_t trial_bytes(const struct td_device *device)
{
    const size_t least = (size_t)3 * SIDE * SIDE * sizeof(float);
    size_t bytes = DEVICE_BYTES;
    while (bytes > 2 * least && bytes > device->info.memory / 4)
        bytes /= 2;
    return bytes;
}

td_status td_cuda_measure(struct td_device *device, struct td_error *err)
{
    struct trials trials = { .copy_bytes = COPY_BYTES, .device_bytes = trial_bytes(device) };
    td_status status = td_cuda_stream_open(device, &trials.stream, err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaMalloc(&trials.device, trials.device_bytes),
                               "be measured", err);
    if (status == TD_OK)
        status = td_cuda_host_alloc(device, trials.copy_bytes, &trials.host, err);
    if (status == TD_OK)
        status = run_trials(&trials, &device->info, err);
    if (!device->lost) {
        (void)cudaFree(trials.device); /* beside the limit, which may be smaller */
        (void)cudaGetLastError();
    }
    if (trials.host)
        td_cuda_free(device, trials.host);
    td_cuda_stream_close(trials.stream);
    return status;
}
