/* stream.h - streams of a CUDA device: opened with all that a launch needs, copies, waiting.
 *
 * The functions of the vtable do what gpu/device.h says of them. */
#ifndef TD_GPU_CUDA_STREAM_H
#define TD_GPU_CUDA_STREAM_H

#include "gpu/cuda/kernels/kernels.h"
#include "gpu/cuda/runtime/cublas.h"
#include "gpu/cuda/runtime/device.h"

struct td_device_stream {
    struct td_device *device;
    struct td_device_stream *next;
    cudaStream_t stream;
    cublasHandle_t blas; /* NULL without cuBLAS */
    void *blas_memory;
    struct td_cuda_slot *slots; /* TD_CUDA_SLOTS, and the ticket behind them */
    unsigned int *ticket;
    /* Tables on their way to the device: pinned memory, filled from the front; empty again when the
     * stream is idle. */
    char *staging;
    size_t staging_bytes, staging_used;
    struct td_cuda_relay *relay; /* NULL until it is needed */
};

TD_MUST_CHECK td_status td_cuda_stream_open(struct td_device *device, struct td_device_stream **out,
                                            struct td_error *err);
void td_cuda_stream_close(struct td_device_stream *stream);

TD_MUST_CHECK td_status td_cuda_copy_to_device(struct td_device_stream *stream, void *to,
                                               const void *from, size_t bytes,
                                               struct td_error *err);
TD_MUST_CHECK td_status td_cuda_copy_to_host(struct td_device_stream *stream, void *to,
                                             const void *from, size_t bytes, struct td_error *err);

/* A copy to the device, of memory that the caller may change as soon as this returns. */
TD_MUST_CHECK td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from,
                                       size_t bytes, struct td_error *err);

TD_MUST_CHECK td_status td_cuda_poll(struct td_device_stream *stream, bool *done,
                                     struct td_error *err);
TD_MUST_CHECK td_status td_cuda_wait(struct td_device_stream *stream, int64_t timeout_ns,
                                     bool *done, struct td_error *err);

#endif
