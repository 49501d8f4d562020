#include "gpu/cuda/runtime/stream.h"

#include <sys/prctl.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Streams ----------------------------------------------------------------------------- */

/* What cuBLAS asks for on the devices where it asks for most; it would allocate it by itself, at
 * some call or other. */
#define BLAS_MEMORY ((size_t)32 << 20)

#define STAGING_BYTES ((size_t)64 << 10)

static td_status open_blas(struct td_device_stream *stream, struct td_error *err)
{
    const struct td_cuda_blas *blas = td_cuda_blas();
    struct td_device *device = stream->device;
    if (!blas)
        return TD_OK;
    td_status status =
        td_cuda_check(device, cudaMalloc(&stream->blas_memory, BLAS_MEMORY), "serve cuBLAS", err);
    if (status != TD_OK)
        return status;
    cublasStatus_t result = blas->create(&stream->blas);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->set_stream(stream->blas, stream->stream);
    if (result == CUBLAS_STATUS_SUCCESS) /* behind the stream, which sets it back */
        result = blas->set_workspace(stream->blas, stream->blas_memory, BLAS_MEMORY);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->set_math_mode(
            stream->blas,
            (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    if (result == CUBLAS_STATUS_SUCCESS)
        return TD_OK;
    /* Without memory it may say as well that it is not initialized. Then the context goes on. */
    bool done;
    status = td_cuda_poll(stream, &done, err);
    if (status == TD_OK &&
        (result == CUBLAS_STATUS_ALLOC_FAILED || result == CUBLAS_STATUS_NOT_INITIALIZED))
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "cuBLAS does not start on %s (status %d): it has no memory left, most "
                            "likely",
                            device->info.name, (int)result);
    return status != TD_OK ? status : td_cuda_lose(device, "cuBLAS does not start on it", err);
}

/* Of a stream that is idle, or of a device that is not lost. */
static void free_stream(struct td_device_stream *stream)
{
    if (stream->blas)
        (void)td_cuda_blas()->destroy(stream->blas);
    (void)cudaFree(stream->blas_memory);
    (void)cudaFree(stream->slots);
    (void)cudaFreeHost(stream->staging);
    (void)cudaFreeHost(stream->relay);
    if (stream->stream)
        (void)cudaStreamDestroy(stream->stream);
}

/* After the stream has ended; of a lost device only what is on the host is freed. */
static void end_stream(struct td_device_stream *stream)
{
    struct td_device *device = stream->device;
    struct td_error ignored;
    td_status status = td_cuda_enter(device, &ignored);
    if (status == TD_OK && stream->stream)
        status = td_cuda_check(device, cudaStreamSynchronize(stream->stream), "finish a stream",
                               &ignored);
    if (status == TD_OK) {
        free_stream(stream);
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
    end_stream(stream);
}

static td_status fill_stream(struct td_device_stream *stream, struct td_error *err)
{
    const size_t slot_bytes = TD_CUDA_SLOTS * sizeof(struct td_cuda_slot);
    struct td_device *device = stream->device;
    void *slots = NULL, *staging = NULL;
    td_status status =
        td_cuda_check(device, cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking),
                      "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaMalloc(&slots, slot_bytes + sizeof(*stream->ticket)),
                               "open a stream", err);
    if (status != TD_OK)
        return status;
    stream->slots = slots;
    stream->ticket = (unsigned int *)(void *)((char *)slots + slot_bytes);
    status = td_cuda_check(
        device, cudaMemsetAsync(slots, 0, slot_bytes + sizeof(*stream->ticket), stream->stream),
        "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaHostAlloc(&staging, STAGING_BYTES, cudaHostAllocDefault),
                               "open a stream", err);
    if (status != TD_OK)
        return status;
    stream->staging = staging;
    stream->staging_bytes = STAGING_BYTES;
    return open_blas(stream, err);
}

td_status td_cuda_stream_open(struct td_device *device, struct td_device_stream **out,
                              struct td_error *err)
{
    td_status status = td_cuda_enter(device, err);
    if (status != TD_OK)
        return status;
    struct td_device_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a stream");
    stream->device = device;
    stream->next = device->streams;
    device->streams = stream;
    status = fill_stream(stream, err);
    if (status != TD_OK) {
        td_cuda_stream_close(stream);
        return status;
    }
    *out = stream;
    return TD_OK;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static td_status copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                      enum cudaMemcpyKind kind, struct td_error *err)
{
    td_status status = td_cuda_enter(stream->device, err);
    if (status != TD_OK || bytes == 0)
        return status;
    return td_cuda_check(stream->device, cudaMemcpyAsync(to, from, bytes, kind, stream->stream),
                         "copy", err);
}

/* Of memory that is not pinned CUDA makes a copy of its own, while the calling thread waits. So large
 * copies of such memory go through a piece of pinned memory, which a thread of CUDA's fills, in the
 * order of the stream. */
#define LARGE_BYTES  ((size_t)1 << 20)
#define PIECE_BYTES  ((size_t)4 << 20)
#define MOST_RELAYED 64 /* copies until the stream is idle again */

/* What is left of a copy. */
struct td_cuda_relayed {
    const char *from;
    size_t bytes;
    char *piece;
};

/* All of it pinned memory, so that it is there for as long as CUDA may call fill_piece: a device that
 * is lost takes it along when it is reset. */
struct td_cuda_relay {
    int n_copies;
    struct td_cuda_relayed copies[MOST_RELAYED];
    char piece[PIECE_BYTES];
};

/* Called by CUDA; must not call it. */
static void CUDART_CB fill_piece(void *argument)
{
    struct td_cuda_relayed *copy = argument;
    const size_t bytes = copy->bytes < PIECE_BYTES ? copy->bytes : PIECE_BYTES;
    memcpy(copy->piece, copy->from, bytes);
    copy->from += bytes;
    copy->bytes -= bytes;
}

/* Is there a relay for the copy, and does it need one? */
static bool is_relayed(struct td_device_stream *stream, const void *from, size_t bytes)
{
    struct cudaPointerAttributes attributes;
    void *relay = NULL;
    if (bytes < LARGE_BYTES)
        return false;
    cudaError_t error = cudaPointerGetAttributes(&attributes, from);
    if (error == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered)
        return false;
    if (error == cudaSuccess && !stream->relay)
        error = cudaHostAlloc(&relay, sizeof(*stream->relay), cudaHostAllocDefault);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* else the next launch would report it */
        return false;
    }
    if (relay) {
        stream->relay = relay;
        stream->relay->n_copies = 0;
    }
    return stream->relay->n_copies < MOST_RELAYED;
}

static td_status relay(struct td_device_stream *stream, char *to, const void *from, size_t bytes,
                       struct td_error *err)
{
    struct td_device *device = stream->device;
    struct td_cuda_relayed *copy = &stream->relay->copies[stream->relay->n_copies++];
    cudaError_t error = cudaSuccess;
    *copy = (struct td_cuda_relayed){ from, bytes, stream->relay->piece };
    for (size_t at = 0; at < bytes && error == cudaSuccess; at += PIECE_BYTES) {
        const size_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        error = cudaLaunchHostFunc(stream->stream, fill_piece, copy);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(to + at, stream->relay->piece, n, cudaMemcpyHostToDevice,
                                    stream->stream);
    }
    if (error != cudaSuccess) /* what was submitted still reads memory of the caller's */
        (void)cudaStreamSynchronize(stream->stream);
    return td_cuda_check(device, error, "copy", err);
}

td_status td_cuda_copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                 size_t bytes, struct td_error *err)
{
    td_status status = td_cuda_enter(stream->device, err);
    if (status != TD_OK)
        return status;
    return is_relayed(stream, from, bytes)
               ? relay(stream, to, from, bytes, err)
               : copy(stream, to, from, bytes, cudaMemcpyHostToDevice, err);
}

td_status td_cuda_copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                               size_t bytes, struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyDeviceToHost, err);
}

/* Makes room for so many bytes: waits until what is there has been copied. */
static td_status empty_staging(struct td_device_stream *stream, size_t bytes, struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status =
        td_cuda_check(device, cudaStreamSynchronize(stream->stream), "finish a stream", err);
    if (status != TD_OK)
        return status;
    stream->staging_used = 0;
    if (bytes <= stream->staging_bytes)
        return TD_OK;
    void *larger = NULL;
    status = td_cuda_check(device, cudaHostAlloc(&larger, bytes, cudaHostAllocDefault),
                           "pass on a table", err);
    if (status != TD_OK)
        return status;
    status = td_cuda_check(device, cudaFreeHost(stream->staging), "free memory", err);
    stream->staging = larger;
    stream->staging_bytes = bytes;
    return status;
}

td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                         struct td_error *err)
{
    const size_t room = td_cuda_aligned(bytes);
    if (room > stream->staging_bytes - stream->staging_used) {
        td_status status = empty_staging(stream, room, err);
        if (status != TD_OK)
            return status;
    }
    char *staged = stream->staging + stream->staging_used;
    stream->staging_used += room;
    memcpy(staged, from, bytes);
    return td_cuda_copy_to_device(stream, to, staged, bytes, err);
}

/* ---- Waiting ----------------------------------------------------------------------------- */

td_status td_cuda_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    *done = false;
    td_status status = td_cuda_enter(stream->device, err);
    if (status != TD_OK)
        return status;
    cudaError_t error = cudaStreamQuery(stream->stream);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* else the next launch would report it */
        return TD_OK;
    }
    status = td_cuda_check(stream->device, error, "finish a stream", err);
    if (status == TD_OK) {
        *done = true;
        stream->staging_used = 0;
        if (stream->relay)
            stream->relay->n_copies = 0;
    }
    return status;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define SPIN_NS 20000

/* The kernel wakes a thread up to 50 us late unless it is told not to; most work is done sooner. */
static void sleep_ns(int64_t ns)
{
    const int slack_ns = prctl(PR_GET_TIMERSLACK);
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
    if (slack_ns > 0)
        (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
}

/* The runtime cannot wait for a limited time; so this sleeps, an eighth of what it has waited. */
td_status td_cuda_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                       struct td_error *err)
{
    enum { LONGEST_NS = 1000000 };
    const int64_t begun = now_ns();
    for (;;) {
        td_status status = td_cuda_poll(stream, done, err);
        const int64_t waited = now_ns() - begun;
        if (status != TD_OK || *done || waited >= timeout_ns)
            return status;
        if (waited < SPIN_NS)
            continue;
        int64_t pause = waited / 8 < LONGEST_NS ? waited / 8 : LONGEST_NS;
        if (pause > timeout_ns - waited)
            pause = timeout_ns - waited;
        sleep_ns(pause);
    }
}
