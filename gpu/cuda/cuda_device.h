/* cuda_device.h - a CUDA device and its streams, as the files of the plugin see them.
 *
 * Ownership  A device owns its streams and remembers what was allocated, for close.
 * Threads    As gpu/device.h.
 * Errors     A call of CUDA that fails for want of memory is MEMORY_EXHAUSTED, one that was asked
 *            the wrong thing is INTERNAL; after any other the context is taken to be broken, the
 *            device is lost, and it answers the same until it is closed. */
#ifndef TD_GPU_CUDA_CUDA_DEVICE_H
#define TD_GPU_CUDA_CUDA_DEVICE_H

#include "gpu/cuda/blas.h"
#include "gpu/cuda/kernels.h"
#include "gpu/device.h"

struct td_cuda_memory;

struct td_device {
    int number;
    bool lost;
    bool tf32;
    struct td_device_info info;
    struct td_cuda_memory *memory; /* all that alloc and host_alloc gave */
    struct td_device_stream *streams;
    char why[TD_DEVICE_TEXT]; /* it is lost */
};

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
};

/* Of a call of the runtime; `what` it was to do. TD_OK for cudaSuccess. */
TD_MUST_CHECK td_status td_cuda_check(struct td_device *device, cudaError_t error, const char *what,
                                      struct td_error *err);

/* What a lost device answers; TD_OK of one that is not. Makes the device the thread's. */
TD_MUST_CHECK td_status td_cuda_enter(struct td_device *device, struct td_error *err);

/* Marks the device as lost. */
td_status td_cuda_lose(struct td_device *device, const char *why, struct td_error *err);

/* A copy to the device, of memory that the caller may change as soon as this returns. */
TD_MUST_CHECK td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from,
                                       size_t bytes, struct td_error *err);

/* Rounded up to what alloc aligns to; SIZE_MAX stays what it is. */
static inline size_t td_cuda_aligned(size_t bytes)
{
    return bytes > SIZE_MAX - 255 ? SIZE_MAX : (bytes + 255) / 256 * 256;
}

static inline size_t td_cuda_sum(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* An op's kernels. workspace is SIZE_MAX where that cannot be had. */
struct td_cuda_op {
    const char *name;
    bool (*supports)(const struct td_op_args *args);
    size_t (*workspace)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);
};

/* NULL where there is none. */
const struct td_cuda_op *td_cuda_op_find(const char *name);

extern const struct td_cuda_op td_cuda_gather_op, td_cuda_batch_gather_op, td_cuda_gather_nd_op,
    td_cuda_stitch_op, td_cuda_parallel_stitch_op, td_cuda_partition_op, td_cuda_einsum_op;

/* Fills what td_device_info says is measured; some 100 ms. */
TD_MUST_CHECK td_status td_cuda_measure(struct td_device *device, struct td_error *err);

extern const struct td_device_api td_cuda_api;

#endif
