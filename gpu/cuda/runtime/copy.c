#include "gpu/cuda/runtime/copy.h"

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
