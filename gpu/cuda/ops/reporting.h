/* reporting.h - sets up the reports of bad indices that a kernel writes. */
#ifndef TD_GPU_CUDA_OPS_REPORTING_H
#define TD_GPU_CUDA_OPS_REPORTING_H

#include "gpu/cuda/ops/ops.h"

/* Returns the size in bytes of the workspace for reports, which is 0 for a few items. */
size_t td_cuda_reporting_bytes(struct td_device *device, const struct td_device_work *work);

/* Allocates the reports from the front of `workspace`. *out must be zero. If the caller wants no
 * reports, *out stays zero, which disables reports. */
TD_MUST_CHECK td_status td_cuda_reporting_begin(struct td_device_stream *stream,
                                                const struct td_device_work *work, char **workspace,
                                                struct td_cuda_reporting *out,
                                                struct td_error *err);

#endif
