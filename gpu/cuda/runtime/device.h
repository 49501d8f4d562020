/* device.h - an open CUDA device, and the conversion of errors of the CUDA runtime to a td_status.
 *
 *     plugin ─► ops/    gather, stitch, partition, einsum ─► contract ─► gemm ─► sumprod, permute
 *        │        └───► kernels/, runtime/
 *        └────► measure ─► ops/contract, runtime/
 *
 * Ownership  A device owns its streams and its allocations. Closing the device frees them.
 * Threads    See gpu/device.h.
 * Errors     A runtime call that runs out of memory returns MEMORY_EXHAUSTED. A call with an
 *            invalid argument returns INTERNAL. Any other error is assumed to corrupt the CUDA
 *            context, so the device is lost, and every call returns DEVICE_UNAVAILABLE until the
 *            device is closed. */
#ifndef TD_GPU_CUDA_RUNTIME_DEVICE_H
#define TD_GPU_CUDA_RUNTIME_DEVICE_H

#include "gpu/device.h"

#include <cuda_runtime_api.h>

struct td_device {
    int ordinal;
    int capability; /* compute capability, such as 90 for 9.0 */
    bool lost;
    bool tf32;
    struct td_device_info info;
    struct td_cuda_allocation *allocations; /* allocations by alloc and host_alloc */
    /* Allocations that the caller has freed. `freeing` is device memory that streams still use.
     * `retired` is pinned memory, which is kept for later allocations. */
    struct td_cuda_allocation *freeing, *retired;
    /* Bytes of pinned memory that the caller has allocated, the peak of this number, and bytes in
     * `retired`. */
    uint64_t pinned, pinned_most, pinned_retired;
    struct td_device_stream *streams;
    /* Streams on which device memory is allocated and freed, in the order of these calls
     * (memory.h). */
    cudaMemPool_t pool;
    cudaStream_t allocs, frees;
    bool pool_is_trimmed; /* trimmed since the last allocation */
    char lost_reason[TD_DEVICE_TEXT];
};

/* Registers an open device in the context of its GPU. All open devices on a GPU share one context
 * of this process. A reset would destroy the context for all of them, including a device that is
 * never closed because a call on it does not return. A reset would also free the pinned memory from
 * which replies are sent. */
void td_cuda_context_enter(int ordinal);
/* Unregisters a device. Resets the context if no open device uses it and at least one device has
 * been lost, because only a reset clears a sticky error. */
void td_cuda_context_leave(int ordinal, bool lost);

/* Converts the result of a CUDA runtime call to a status: TD_OK for cudaSuccess. `action` completes
 * the message "could not ...". */
TD_MUST_CHECK td_status td_cuda_check(struct td_device *device, cudaError_t error,
                                      const char *action, struct td_error *err);

/* Makes the device current for this thread. Returns DEVICE_UNAVAILABLE if the device is lost. */
TD_MUST_CHECK td_status td_cuda_set_current(struct td_device *device, struct td_error *err);

/* Marks the device as lost and returns DEVICE_UNAVAILABLE. */
td_status td_cuda_mark_lost(struct td_device *device, const char *reason, struct td_error *err);

/* Rounds up to the alignment of alloc. Returns SIZE_MAX on overflow. */
static inline size_t td_cuda_align_up(size_t bytes)
{
    return bytes > SIZE_MAX - 255 ? SIZE_MAX : (bytes + 255) / 256 * 256;
}

/* Returns a + b, or SIZE_MAX on overflow. */
static inline size_t td_cuda_add_sizes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

#endif
