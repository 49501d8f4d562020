/* memory.h - what alloc and host_alloc of the vtable give, and take back after the streams' work. */
#ifndef TD_GPU_CUDA_MEMORY_H
#define TD_GPU_CUDA_MEMORY_H

#include "gpu/cuda/runtime/device.h"

TD_MUST_CHECK td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                                           struct td_error *err);

/* Of either; NULL is fine. */
void td_cuda_free(struct td_device *device, void *memory);

/* All that is left, when the device is closed. */
void td_cuda_free_all(struct td_device *device);

#endif
