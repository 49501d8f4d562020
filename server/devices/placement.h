/* placement.h - decides whether a request is computed on the device or on the CPU.
 *
 * A request with "device": "gpu" is computed on the device or refused: DEVICE_UNAVAILABLE if the
 * device is not available now, UNSUPPORTED_DTYPE if it has no kernel. A request with "cpu" is never
 * computed on the device. A request with "auto" is computed on the device if the device is
 * available, has a kernel and is estimated to finish sooner than the CPU.
 *
 * The estimate counts launches, FLOPs, the queue, and copies at the measured rates: into pinned
 * memory, to the device and back. Until a table is on the device, its bytes are counted as bytes to
 * copy. */
#ifndef TD_SERVER_DEVICES_PLACEMENT_H
#define TD_SERVER_DEVICES_PLACEMENT_H

#include "server/devices/devices.h"

/* With "auto", a computation that takes the CPU less than this time runs on the CPU. */
enum { TD_DEVICES_MIN_NS = 50000 };

/* Places an inferred request with this cost, which takes cpu_ns on the CPU, and sets *on_device.
 * `resident` are the tables among the inputs. A request with "device": "gpu" is placed on the
 * device or refused. The error is UNSUPPORTED_DTYPE if the device has no kernel, even while the
 * device is not available, because a retry would not help. Otherwise the error is
 * DEVICE_UNAVAILABLE. */
TD_MUST_CHECK td_status td_devices_place(struct td_devices *devices,
                                         const struct td_request *request,
                                         const struct td_batch_tables *resident,
                                         const struct td_cost *cost, uint64_t cpu_ns,
                                         bool *on_device, struct td_error *err);

#endif
