/* memory.h - device and pinned host memory: alloc, free, host_alloc and host_free of the vtable. */
#ifndef TD_GPU_CUDA_RUNTIME_MEMORY_H
#define TD_GPU_CUDA_RUNTIME_MEMORY_H

#include "gpu/cuda/runtime/device.h"

TD_MUST_CHECK td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                                           struct td_error *err);

/* Frees memory of either function, after the work of all streams; NULL is fine. */
void td_cuda_free(struct td_device *device, void *memory);

/* Frees all allocations of a device that is being closed. */
void td_cuda_free_all(struct td_device *device);

#endif
