#include "gpu/cuda/runtime/copy.h"

#include "gpu/cuda/runtime/memory.h"

#include <string.h>

static td_status copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                      enum cudaMemcpyKind kind, struct td_error *err)
{
    td_status status = td_cuda_set_current(stream->device, err);
    if (status != TD_OK || bytes == 0)
        return status;
    stream->awaited_ns = 0;
    return td_cuda_check(stream->device, cudaMemcpyAsync(to, from, bytes, kind, stream->stream),
                         "copy", err);
}

td_status td_cuda_copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                 size_t bytes, struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyHostToDevice, err);
}

td_status td_cuda_copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                               size_t bytes, struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyDeviceToHost, err);
}

/* ---- Uploads of launch parameters -------------------------------------------------------- */

/* Replaces the full staging memory with new memory, which is larger if the upload would not fit.
 * The old memory is freed after the copies from it end. Waits neither for these copies nor, as
 * cudaFreeHost would, for all streams. */
static td_status replace_staging(struct td_device_stream *stream, size_t bytes,
                                 struct td_error *err)
{
    size_t size = stream->staging_bytes;
    void *fresh;
    if (bytes > size)
        size = bytes > 2 * size ? bytes : 2 * size;
    const td_status status = td_cuda_host_alloc(stream->device, size, &fresh, err);
    if (status != TD_OK)
        return status;
    td_cuda_free(stream->device, stream->staging);
    stream->staging = fresh;
    stream->staging_bytes = size;
    stream->staging_used = 0;
    return TD_OK;
}

td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                         struct td_error *err)
{
    const size_t aligned = td_cuda_align_up(bytes);
    if (aligned > stream->staging_bytes - stream->staging_used) {
        td_status status = replace_staging(stream, aligned, err);
        if (status != TD_OK)
            return status;
    }
    char *staged = stream->staging + stream->staging_used;
    stream->staging_used += aligned;
    memcpy(staged, from, bytes);
    return td_cuda_copy_to_device(stream, to, staged, bytes, err);
}
