/* device.h - an open CUDA device, and how errors of the CUDA runtime become a td_status.
 *
 *     plugin ─► ops/    gather, stitch, partition, einsum ─► contract ─► gemm ─► sumprod, permute
 *        │        └───► kernels/, runtime/
 *        └────► measure ─► ops/contract, runtime/
 *
 * Ownership  A device owns its streams and its allocations, which close frees.
 * Threads    As gpu/device.h.
 * Errors     A runtime call that runs out of memory is MEMORY_EXHAUSTED, one with an invalid
 *            argument INTERNAL. After any other error the CUDA context is assumed to be corrupted:
 *            the device is lost, and every call returns DEVICE_UNAVAILABLE until it is closed. */
#ifndef TD_GPU_CUDA_RUNTIME_DEVICE_H
#define TD_GPU_CUDA_RUNTIME_DEVICE_H

#include "gpu/device.h"

#include <cuda_runtime_api.h>

struct td_device {
    int ordinal;
    int capability; /* compute capability; 90 for 9.0 */
    bool lost;
    bool tf32;
    struct td_device_info info;
    struct td_cuda_allocation *allocations; /* of alloc and host_alloc */
    /* What the caller has freed: device memory that streams use, and pinned memory, for the next
     * one. */
    struct td_cuda_allocation *freeing, *retired;
    /* Bytes of pinned memory: of the caller now, and at most so far; of `retired`. */
    uint64_t pinned, pinned_most, pinned_retired;
    struct td_device_stream *streams;
    /* Device memory is allocated and freed in the order of these streams (memory.h). */
    cudaMemPool_t pool;
    cudaStream_t allocs, frees;
    bool pool_is_trimmed; /* since the last allocation */
    char lost_reason[TD_DEVICE_TEXT];
};

/* All open devices on a GPU share a context of this process, which a reset would take from all of
 * them, with the pinned memory from which replies are sent: one that is never closed, as a call on
 * it does not return, too. */
void td_cuda_context_enter(int ordinal);
/* Resets the context if no open device is on it any more and one has been lost: only that clears a
 * sticky error. */
void td_cuda_context_leave(int ordinal, bool lost);

/* Converts the result of a runtime call; `action` completes "could not ...". TD_OK for
 * cudaSuccess. */
TD_MUST_CHECK td_status td_cuda_check(struct td_device *device, cudaError_t error,
                                      const char *action, struct td_error *err);

/* Makes the device current for this thread. DEVICE_UNAVAILABLE if it is lost. */
TD_MUST_CHECK td_status td_cuda_set_current(struct td_device *device, struct td_error *err);

/* Marks the device as lost; returns DEVICE_UNAVAILABLE. */
td_status td_cuda_mark_lost(struct td_device *device, const char *reason, struct td_error *err);

/* Rounds up to the alignment of alloc; SIZE_MAX if that overflows. */
static inline size_t td_cuda_align_up(size_t bytes)
{
    return bytes > SIZE_MAX - 255 ? SIZE_MAX : (bytes + 255) / 256 * 256;
}

/* a + b; SIZE_MAX if that overflows. */
static inline size_t td_cuda_add_sizes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

#endif
