/* reporting.h - reports of bad indices: what a kernel needs to write them. */
#ifndef TD_GPU_CUDA_OPS_REPORTING_H
#define TD_GPU_CUDA_OPS_REPORTING_H

#include "gpu/cuda/ops/ops.h"

/* Bytes of workspace; none for few items. */
size_t td_cuda_reporting_bytes(struct td_device *device, const struct td_device_work *work);

/* Takes these bytes from the front of the workspace. *out must be zero; it stays so, which means no
 * reports, if the work wants none. */
TD_MUST_CHECK td_status td_cuda_reporting_begin(struct td_device_stream *stream,
                                                const struct td_device_work *work, char **workspace,
                                                struct td_cuda_reporting *out,
                                                struct td_error *err);

#endif
