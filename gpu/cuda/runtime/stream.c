#include "gpu/cuda/runtime/stream.h"

#include "gpu/cuda/runtime/memory.h"

#include <sys/prctl.h>

#include <stdlib.h>
#include <time.h>

/* ---- Opening and closing ----------------------------------------------------------------- */

/* The largest workspace that cuBLAS recommends for any device. Without this workspace, cuBLAS would
 * allocate its own during a call. */
#define CUBLAS_WORKSPACE ((size_t)32 << 20)

#define STAGING_BYTES ((size_t)64 << 10)

static td_status open_cublas(struct td_device_stream *stream, struct td_error *err)
{
    const struct td_cublas *cublas = td_cublas();
    struct td_device *device = stream->device;
    if (!cublas)
        return TD_OK;
    td_status status =
        td_cuda_check(device,
                      cudaMallocFromPoolAsync(&stream->cublas_workspace, CUBLAS_WORKSPACE,
                                              device->pool, stream->stream),
                      "start cuBLAS", err);
    if (status != TD_OK)
        return status;
    cublasStatus_t result = cublas->create(&stream->cublas);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = cublas->set_stream(stream->cublas, stream->stream);
    if (result == CUBLAS_STATUS_SUCCESS) /* after set_stream, which resets the workspace */
        result = cublas->set_workspace(stream->cublas, stream->cublas_workspace, CUBLAS_WORKSPACE);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = cublas->set_math_mode(
            stream->cublas,
            (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    if (result == CUBLAS_STATUS_SUCCESS)
        return TD_OK;
    /* cuBLAS can also report NOT_INITIALIZED if it is out of memory, which leaves the context
     * usable. */
    bool done;
    status = td_cuda_poll(stream, &done, err);
    if (status == TD_OK &&
        (result == CUBLAS_STATUS_ALLOC_FAILED || result == CUBLAS_STATUS_NOT_INITIALIZED))
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "cuBLAS failed to start on %s (status %d), most likely because the "
                            "device is out of memory",
                            device->info.name, (int)result);
    return status != TD_OK ? status : td_cuda_mark_lost(device, "cuBLAS failed to start", err);
}

/* Frees the resources of an idle stream. The device must not be lost. */
static void free_resources(struct td_device_stream *stream)
{
    if (stream->cublas)
        (void)td_cublas()->destroy(stream->cublas);
    if (stream->cublas_workspace)
        (void)cudaFreeAsync(stream->cublas_workspace, stream->stream);
    if (stream->counters)
        (void)cudaFreeAsync(stream->counters, stream->stream);
    td_cuda_free(stream->device, stream->staging);
    if (stream->reached)
        (void)cudaEventDestroy(stream->reached);
    if (stream->stream)
        (void)cudaStreamDestroy(stream->stream);
}

/* Waits for the stream's work, then frees the stream. If the device is lost, frees only the
 * struct. */
static void destroy_stream(struct td_device_stream *stream)
{
    struct td_device *device = stream->device;
    struct td_error unused;
    td_status status = td_cuda_set_current(device, &unused);
    if (status == TD_OK && stream->stream)
        status = td_cuda_check(device, cudaStreamSynchronize(stream->stream),
                               "synchronize a stream", &unused);
    if (status == TD_OK) {
        free_resources(stream);
        (void)cudaGetLastError();
    }
    free(stream);
}

void td_cuda_stream_close(struct td_device_stream *stream)
{
    if (!stream)
        return;
    struct td_device_stream **at = &stream->device->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    destroy_stream(stream);
}

static td_status allocate_resources(struct td_device_stream *stream, struct td_error *err)
{
    const size_t counter_bytes = TD_CUDA_STREAM_COUNTERS * sizeof(struct td_cuda_counter);
    struct td_device *device = stream->device;
    void *counters = NULL, *staging = NULL;
    td_status status =
        td_cuda_check(device, cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking),
                      "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device,
                               cudaEventCreateWithFlags(&stream->reached, cudaEventDisableTiming),
                               "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device,
                               cudaMallocFromPoolAsync(&counters,
                                                       counter_bytes + sizeof(*stream->blocks_done),
                                                       device->pool, stream->stream),
                               "open a stream", err);
    if (status != TD_OK)
        return status;
    stream->counters = counters;
    stream->blocks_done = (unsigned int *)(void *)((char *)counters + counter_bytes);
    status = td_cuda_check(
        device,
        cudaMemsetAsync(counters, 0, counter_bytes + sizeof(*stream->blocks_done), stream->stream),
        "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_host_alloc(device, STAGING_BYTES, &staging, err);
    if (status != TD_OK)
        return status;
    stream->staging = staging;
    stream->staging_bytes = STAGING_BYTES;
    status = open_cublas(stream, err);
    if (status != TD_OK)
        return status;
    /* Waits only for the stream's own allocations and the memset, because a new stream is idle. */
    return td_cuda_check(device, cudaStreamSynchronize(stream->stream), "open a stream", err);
}

td_status td_cuda_stream_open(struct td_device *device, struct td_device_stream **out,
                              struct td_error *err)
{
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    struct td_device_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "not enough host memory to open a stream");
    stream->device = device;
    stream->next = device->streams;
    device->streams = stream;
    status = allocate_resources(stream, err);
    if (status != TD_OK) {
        td_cuda_stream_close(stream);
        return status;
    }
    *out = stream;
    return TD_OK;
}

/* ---- Waiting ----------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

td_status td_cuda_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    *done = false;
    td_status status = td_cuda_set_current(stream->device, err);
    if (status != TD_OK)
        return status;
    cudaError_t error = cudaStreamQuery(stream->stream);
    if (error == cudaErrorNotReady) {
        /* Clears the error, which the next launch would otherwise report. */
        (void)cudaGetLastError();
        if (stream->awaited_ns == 0)
            stream->awaited_ns = now_ns();
        return TD_OK;
    }
    status = td_cuda_check(stream->device, error, "complete the work of a stream", err);
    if (status == TD_OK) {
        *done = true;
        stream->awaited_ns = 0;
        stream->staging_used = 0;
    }
    return status;
}

/* Time for which a wait spins. Most batches of lookups take less time, and waking up from a sleep
 * would add about 10 us. */
#define SPIN_NS 100000

/* Sleeps with the minimum timer slack. The default timer slack delays a wake-up by up to 50 us,
 * which is longer than most launches take. */
static void sleep_ns(int64_t ns)
{
    const int slack_ns = prctl(PR_GET_TIMERSLACK);
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
    if (slack_ns > 0)
        (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
}

/* Polls and, between polls, sleeps for an eighth of the time waited so far, because the runtime has
 * no wait with a timeout. The waiting time counts from the first poll after work was submitted, not
 * from this call. Otherwise, the wait would spin for as long as the work takes, because the batcher
 * waits in slices of 100 us. */
td_status td_cuda_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                       struct td_error *err)
{
    enum { MAX_SLEEP_NS = 1000000 };
    const int64_t begin = now_ns();
    for (;;) {
        td_status status = td_cuda_poll(stream, done, err);
        const int64_t now = now_ns(), waited = now - stream->awaited_ns;
        if (status != TD_OK || *done || now - begin >= timeout_ns)
            return status;
        if (waited < SPIN_NS)
            continue;
        int64_t pause = waited / 8 < MAX_SLEEP_NS ? waited / 8 : MAX_SLEEP_NS;
        if (pause > timeout_ns - (now - begin))
            pause = timeout_ns - (now - begin);
        sleep_ns(pause);
    }
}
