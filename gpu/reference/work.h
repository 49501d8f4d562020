/* work.h - runs a launch on the reference device: checks the launch against the contract of
 * gpu/device.h, then calls the op's kernel. */
#ifndef TD_GPU_REFERENCE_WORK_H
#define TD_GPU_REFERENCE_WORK_H

#include "gpu/reference/state.h"

/* These functions implement the vtable. */
bool td_reference_supports(const struct td_op *op, const struct td_op_args *args);
size_t td_reference_workspace_bytes(struct td_device *device, const struct td_device_work *work);
td_status td_reference_run(struct td_device_stream *stream, const struct td_device_work *work,
                           struct td_error *err);

#endif
