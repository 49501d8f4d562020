#include "gpu/cuda/ops/reporting.h"

#include "gpu/cuda/runtime/copy.h"

#include <string.h>

/* A few items need no workspace, because their ends are passed by value in the kernel arguments and
 * their counters are in the stream. */
size_t td_cuda_reporting_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    size_t bytes = 0;
    if (!work->reports)
        return 0;
    if (work->n_items > TD_CUDA_INLINE_ITEMS)
        bytes = td_cuda_align_up((size_t)work->n_items * sizeof(int64_t));
    if (work->n_items > TD_CUDA_STREAM_COUNTERS)
        bytes += td_cuda_align_up((size_t)work->n_items * sizeof(struct td_cuda_counter));
    return bytes;
}

td_status td_cuda_reporting_begin(struct td_device_stream *stream,
                                  const struct td_device_work *work, char **workspace,
                                  struct td_cuda_reporting *out, struct td_error *err)
{
    const size_t n_items = (size_t)work->n_items;
    if (!work->reports)
        return TD_OK;
    out->n_items = work->n_items;
    out->reports = (struct td_cuda_report *)(void *)work->reports;
    out->counters = stream->counters;
    out->blocks_done = stream->blocks_done;
    if (n_items > TD_CUDA_INLINE_ITEMS) {
        void *ends = td_cuda_take(workspace, n_items * sizeof(int64_t));
        td_status status =
            td_cuda_upload(stream, ends, work->item_end, n_items * sizeof(int64_t), err);
        if (status != TD_OK)
            return status;
        out->item_end = ends;
    } else if (n_items > 1) {
        memcpy(out->inline_end, work->item_end, n_items * sizeof(int64_t));
    }
    if (n_items <= TD_CUDA_STREAM_COUNTERS)
        return TD_OK;
    const size_t bytes = n_items * sizeof(struct td_cuda_counter);
    out->counters = td_cuda_take(workspace, bytes);
    return td_cuda_check(stream->device, cudaMemsetAsync(out->counters, 0, bytes, stream->stream),
                         "clear memory", err);
}
