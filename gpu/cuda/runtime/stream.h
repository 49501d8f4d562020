/* stream.h - streams of a CUDA device: opened with all memory that a launch needs, polled, awaited.
 *
 * stream_open, stream_close, poll and wait of gpu/device.h. */
#ifndef TD_GPU_CUDA_RUNTIME_STREAM_H
#define TD_GPU_CUDA_RUNTIME_STREAM_H

#include "gpu/cuda/kernels/kernels.h"
#include "gpu/cuda/runtime/cublas.h"
#include "gpu/cuda/runtime/device.h"

struct td_device_stream {
    struct td_device *device;
    struct td_device_stream *next;
    cudaStream_t stream;
    cudaEvent_t reached;   /* where the stream was when memory was freed last (memory.c) */
    cublasHandle_t cublas; /* NULL without cuBLAS */
    void *cublas_workspace;
    /* Device memory for the reports of gathers: TD_CUDA_STREAM_COUNTERS counters, then
     * blocks_done. */
    struct td_cuda_counter *counters;
    unsigned int *blocks_done;
    /* Pinned staging memory of td_cuda_upload, used from its start; empty again once the stream is
     * idle. */
    char *staging;
    size_t staging_bytes, staging_used;
    int64_t awaited_ns; /* first poll since work was submitted that found it incomplete; 0: none */
};

TD_MUST_CHECK td_status td_cuda_stream_open(struct td_device *device, struct td_device_stream **out,
                                            struct td_error *err);
void td_cuda_stream_close(struct td_device_stream *stream);

TD_MUST_CHECK td_status td_cuda_poll(struct td_device_stream *stream, bool *done,
                                     struct td_error *err);
TD_MUST_CHECK td_status td_cuda_wait(struct td_device_stream *stream, int64_t timeout_ns,
                                     bool *done, struct td_error *err);

#endif
