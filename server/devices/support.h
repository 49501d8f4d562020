/* support.h - checks whether a device can compute a call.
 *
 * A program is supported if the device has a kernel for each step that does more than reshape, if
 * the shapes do not depend on computed values, and if no computed value needs a check by the host
 * (td_op.valid).
 *
 * Errors     UNSUPPORTED_DTYPE names the input at fault, the device, and the step of a program.
 * Threads    Any thread. */
#ifndef TD_SERVER_DEVICES_SUPPORT_H
#define TD_SERVER_DEVICES_SUPPORT_H

#include "gpu/device.h"

/* Implements td_batcher_check_kernel. */
TD_MUST_CHECK td_status td_support_check(const struct td_device_api *api, const struct td_op *op,
                                         const struct td_op_args *args, struct td_error *err);

#endif
