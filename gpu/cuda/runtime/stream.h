/* stream.h - streams of a CUDA device: stream_open, stream_close, poll and wait of gpu/device.h. A
 * stream is opened with all the memory that launches on it need. */
#ifndef TD_GPU_CUDA_RUNTIME_STREAM_H
#define TD_GPU_CUDA_RUNTIME_STREAM_H

#include "gpu/cuda/kernels/kernels.h"
#include "gpu/cuda/runtime/cublas.h"
#include "gpu/cuda/runtime/device.h"

struct td_device_stream {
    struct td_device *device;
    struct td_device_stream *next;
    cudaStream_t stream;
    /* Event that marks the position of the stream when memory was last freed (memory.c). */
    cudaEvent_t reached;
    cublasHandle_t cublas; /* NULL if cuBLAS is not available */
    void *cublas_workspace;
    /* Device memory for the reports of gathers: TD_CUDA_STREAM_COUNTERS counters, followed by
     * blocks_done. */
    struct td_cuda_counter *counters;
    unsigned int *blocks_done;
    /* Pinned memory in which td_cuda_upload stages data. It is filled from the start, and is empty
     * whenever the stream is idle. */
    char *staging;
    size_t staging_bytes, staging_used;
    /* Time of the first poll that found the work incomplete since the last submission, or 0 if no
     * poll did. */
    int64_t awaited_ns;
};

TD_MUST_CHECK td_status td_cuda_stream_open(struct td_device *device, struct td_device_stream **out,
                                            struct td_error *err);
void td_cuda_stream_close(struct td_device_stream *stream);

TD_MUST_CHECK td_status td_cuda_poll(struct td_device_stream *stream, bool *done,
                                     struct td_error *err);
TD_MUST_CHECK td_status td_cuda_wait(struct td_device_stream *stream, int64_t timeout_ns,
                                     bool *done, struct td_error *err);

#endif
