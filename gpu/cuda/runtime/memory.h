/* memory.h - device and pinned host memory: alloc, free, host_alloc and host_free of the vtable.
 *
 *     streams ── reached ──► frees: cudaFreeAsync, after all that was submitted before ──► pool
 *                            allocs: cudaMallocFromPoolAsync, waits for nothing        ◄──┘
 *
 * Nothing here waits for a stream with work: cudaFree and cudaFreeHost do, for all of them, and so
 * stall whoever calls them during a long upload, or for ever beside a kernel that hangs. Device
 * memory goes back to a pool in the order of a stream that waits for the others. Pinned memory, of
 * which CUDA has no pool, is kept for later allocations, and freed when no stream has work. At most
 * as much is kept as the caller has had at a time, or 64 MiB; host_alloc is MEMORY_EXHAUSTED
 * beyond, until no stream has work.
 *
 * Source     "Stream Ordered Memory Allocator" in the CUDA Programming Guide. */
#ifndef TD_GPU_CUDA_RUNTIME_MEMORY_H
#define TD_GPU_CUDA_RUNTIME_MEMORY_H

#include "gpu/cuda/runtime/device.h"

/* Before any stream is opened. DEVICE_UNAVAILABLE if the device has no memory pools. */
TD_MUST_CHECK td_status td_cuda_memory_open(struct td_device *device, struct td_error *err);

/* After the streams are closed: frees all allocations. Of a lost device only their records. */
void td_cuda_memory_close(struct td_device *device);

TD_MUST_CHECK td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                                           struct td_error *err);

/* Bytes of device memory that was freed and is still used by work. */
uint64_t td_cuda_memory_freeing(struct td_device *device);

/* Frees memory of either function, after the work that the streams have now; NULL is fine. */
void td_cuda_free(struct td_device *device, void *memory);

#endif
