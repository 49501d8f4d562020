/* cuda_device.h - a CUDA device as the files of the plugin see it, and what becomes of CUDA's errors.
 *
 *     plugin ─► ops: shapes, einsum ─► contract ─► matrices ─► loops ─► stream ─► cuda_device
 *        └────► measure ─► contract, memory ─► stream
 *
 * Ownership  A device owns its streams and remembers what was allocated, for close.
 * Threads    As gpu/device.h.
 * Errors     A call of CUDA that fails for want of memory is MEMORY_EXHAUSTED, one that was asked
 *            the wrong thing is INTERNAL; after any other the context is taken to be broken, the
 *            device is lost, and it answers the same until it is closed. */
#ifndef TD_GPU_CUDA_CUDA_DEVICE_H
#define TD_GPU_CUDA_CUDA_DEVICE_H

#include "gpu/device.h"

#include <cuda_runtime_api.h>

struct td_cuda_memory;

struct td_device {
    int ordinal;
    bool lost;
    bool tf32;
    struct td_device_info info;
    struct td_cuda_memory *memory; /* all that alloc and host_alloc gave */
    struct td_device_stream *streams;
    char why[TD_DEVICE_TEXT]; /* it is lost */
};

/* Of a call of the runtime; `what` it was to do. TD_OK for cudaSuccess. */
TD_MUST_CHECK td_status td_cuda_check(struct td_device *device, cudaError_t error, const char *what,
                                      struct td_error *err);

/* What a lost device answers; TD_OK of one that is not. Makes the device the thread's. */
TD_MUST_CHECK td_status td_cuda_enter(struct td_device *device, struct td_error *err);

/* Marks the device as lost. */
td_status td_cuda_lose(struct td_device *device, const char *why, struct td_error *err);

/* Rounded up to what alloc aligns to; SIZE_MAX stays what it is. */
static inline size_t td_cuda_aligned(size_t bytes)
{
    return bytes > SIZE_MAX - 255 ? SIZE_MAX : (bytes + 255) / 256 * 256;
}

static inline size_t td_cuda_sum(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

#endif
