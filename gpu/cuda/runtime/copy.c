#include "gpu/cuda/runtime/copy.h"

#include <string.h>

static td_status copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                      enum cudaMemcpyKind kind, struct td_error *err)
{
    td_status status = td_cuda_set_current(stream->device, err);
    if (status != TD_OK || bytes == 0)
        return status;
    return td_cuda_check(stream->device, cudaMemcpyAsync(to, from, bytes, kind, stream->stream),
                         "copy", err);
}

/* ---- Staged copies from pageable memory -------------------------------------------------- */

#define STAGED_MIN_BYTES ((size_t)1 << 20)
#define CHUNK_BYTES      ((size_t)4 << 20)
#define MAX_STAGED       64 /* copies until the stream is idle again */

/* The remainder of a copy. */
struct staged_copy {
    const char *from;
    size_t bytes;
    char *chunk;
};

/* Pinned memory, so that it exists for as long as CUDA may call fill_chunk: only the reset of a lost
 * device frees it. */
struct td_cuda_staged_copies {
    struct staged_copy copies[MAX_STAGED];
    char chunk[CHUNK_BYTES];
};

/* A host function in the stream; it must not call CUDA. */
static void CUDART_CB fill_chunk(void *argument)
{
    struct staged_copy *staged = argument;
    const size_t bytes = staged->bytes < CHUNK_BYTES ? staged->bytes : CHUNK_BYTES;
    memcpy(staged->chunk, staged->from, bytes);
    staged->from += bytes;
    staged->bytes -= bytes;
}

/* Is the copy to be staged, and is there pinned memory and an entry for it? */
static bool can_stage(struct td_device_stream *stream, const void *from, size_t bytes)
{
    struct cudaPointerAttributes attributes;
    void *staged = NULL;
    if (bytes < STAGED_MIN_BYTES)
        return false;
    cudaError_t error = cudaPointerGetAttributes(&attributes, from);
    if (error == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered)
        return false;
    if (error == cudaSuccess && !stream->staged)
        error = cudaHostAlloc(&staged, sizeof(*stream->staged), cudaHostAllocDefault);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* clears it: otherwise the next launch would report it */
        return false;
    }
    if (staged)
        stream->staged = staged;
    return stream->n_staged < MAX_STAGED;
}

static td_status copy_staged(struct td_device_stream *stream, char *to, const void *from,
                             size_t bytes, struct td_error *err)
{
    struct td_device *device = stream->device;
    char *chunk = stream->staged->chunk;
    struct staged_copy *staged = &stream->staged->copies[stream->n_staged++];
    cudaError_t error = cudaSuccess;
    *staged = (struct staged_copy){ from, bytes, chunk };
    for (size_t at = 0; at < bytes && error == cudaSuccess; at += CHUNK_BYTES) {
        const size_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        error = cudaLaunchHostFunc(stream->stream, fill_chunk, staged);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(to + at, chunk, n, cudaMemcpyHostToDevice, stream->stream);
    }
    if (error != cudaSuccess) /* host functions already submitted still read the caller's memory */
        (void)cudaStreamSynchronize(stream->stream);
    return td_cuda_check(device, error, "copy", err);
}

/* ---- Copies of the vtable ---------------------------------------------------------------- */

td_status td_cuda_copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                 size_t bytes, struct td_error *err)
{
    td_status status = td_cuda_set_current(stream->device, err);
    if (status != TD_OK)
        return status;
    return can_stage(stream, from, bytes)
               ? copy_staged(stream, to, from, bytes, err)
               : copy(stream, to, from, bytes, cudaMemcpyHostToDevice, err);
}

td_status td_cuda_copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                               size_t bytes, struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyDeviceToHost, err);
}

/* ---- Uploads of launch parameters -------------------------------------------------------- */

/* Waits until all staged bytes have been copied, and grows the staging memory to `bytes`. */
static td_status empty_staging(struct td_device_stream *stream, size_t bytes, struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status =
        td_cuda_check(device, cudaStreamSynchronize(stream->stream), "synchronize a stream", err);
    if (status != TD_OK)
        return status;
    stream->staging_used = 0;
    if (bytes <= stream->staging_bytes)
        return TD_OK;
    void *larger = NULL;
    status = td_cuda_check(device, cudaHostAlloc(&larger, bytes, cudaHostAllocDefault),
                           "upload launch parameters", err);
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
    const size_t aligned = td_cuda_align_up(bytes);
    if (aligned > stream->staging_bytes - stream->staging_used) {
        td_status status = empty_staging(stream, aligned, err);
        if (status != TD_OK)
            return status;
    }
    char *staged = stream->staging + stream->staging_used;
    stream->staging_used += aligned;
    memcpy(staged, from, bytes);
    return td_cuda_copy_to_device(stream, to, staged, bytes, err);
}
