/* placement.h - whether a request is computed on the device or on the CPU.
 *
 * A request with "device": "gpu" is computed on the device or refused: DEVICE_UNAVAILABLE if it is
 * not available now, UNSUPPORTED_DTYPE if it has no kernel. One with "cpu" is never computed there.
 * One with "auto" is if the device is available, has a kernel and is estimated to finish sooner.
 * The estimate counts copies at the measured rates, into pinned memory, to the device and back,
 * launches, FLOPs, and the queue. A table counts as bytes to copy until it is on the device. */
#ifndef TD_SERVER_DEVICES_PLACEMENT_H
#define TD_SERVER_DEVICES_PLACEMENT_H

#include "server/devices/devices.h"

/* With `auto`, a computation that takes the CPU less than this stays on the CPU. */
enum { TD_DEVICES_MIN_NS = 50000 };

/* Places an inferred request, of this cost and of cpu_ns on the CPU. `resident` as in struct
 * td_batch_item. *on_device is the result. "device": "gpu" is placed on the device or refused:
 * UNSUPPORTED_DTYPE if the device has no kernel for it, even while it is not available, because a
 * retry would not help; or DEVICE_UNAVAILABLE. */
TD_MUST_CHECK td_status td_devices_place(struct td_devices *devices,
                                         const struct td_request *request, uint32_t resident,
                                         const struct td_cost *cost, uint64_t cpu_ns,
                                         bool *on_device, struct td_error *err);

#endif
