/* copy.h - copies between host and device: copy_to_device and copy_to_host of gpu/device.h.
 *
 * A copy from pageable memory blocks the calling thread until CUDA has read the memory, so large
 * copies should come from pinned memory. */
#ifndef TD_GPU_CUDA_RUNTIME_COPY_H
#define TD_GPU_CUDA_RUNTIME_COPY_H

#include "gpu/cuda/runtime/stream.h"

TD_MUST_CHECK td_status td_cuda_copy_to_device(struct td_device_stream *stream, void *to,
                                               const void *from, size_t bytes,
                                               struct td_error *err);
TD_MUST_CHECK td_status td_cuda_copy_to_host(struct td_device_stream *stream, void *to,
                                             const void *from, size_t bytes, struct td_error *err);

/* Copies to the device from memory that the caller may change as soon as the function returns. */
TD_MUST_CHECK td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from,
                                       size_t bytes, struct td_error *err);

#endif
