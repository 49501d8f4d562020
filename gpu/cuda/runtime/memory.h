/* memory.h - device and pinned host memory: alloc, free, host_alloc and host_free of the vtable.
 *
 *     streams ── reached ──► frees: cudaFreeAsync, after all that was submitted before ──► pool
 *                            allocs: cudaMallocFromPoolAsync, does not wait        ◄──┘
 *
 * None of these functions waits for a stream that has work. cudaFree and cudaFreeHost wait for all
 * streams, so they would stall their caller during a long upload, or forever if a kernel hangs.
 *
 * Device memory is returned to a pool on a stream that waits for the other streams. CUDA has no
 * pool for pinned memory, so the plugin keeps it for later allocations and frees it when no stream
 * has work. The plugin keeps at most the caller's peak or 64 MiB, whichever is larger. Beyond that
 * limit, host_alloc returns MEMORY_EXHAUSTED until no stream has work.
 *
 * Source     "Stream Ordered Memory Allocator" in the CUDA Programming Guide. */
#ifndef TD_GPU_CUDA_RUNTIME_MEMORY_H
#define TD_GPU_CUDA_RUNTIME_MEMORY_H

#include "gpu/cuda/runtime/device.h"

/* Creates the pool. Must run before any stream is opened. Returns DEVICE_UNAVAILABLE if the device
 * does not support memory pools. */
TD_MUST_CHECK td_status td_cuda_memory_open(struct td_device *device, struct td_error *err);

/* Frees all allocations. Must run after the streams are closed. If the device is lost, frees only
 * the records. */
void td_cuda_memory_close(struct td_device *device);

TD_MUST_CHECK td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                                           struct td_error *err);

/* Returns the number of bytes of device memory that the caller has freed but submitted work still
 * uses. */
uint64_t td_cuda_memory_freeing(struct td_device *device);

/* Frees memory from td_cuda_alloc or td_cuda_host_alloc after the streams have finished their
 * current work. Does nothing if `memory` is NULL. */
void td_cuda_free(struct td_device *device, void *memory);

#endif
