/* devices.h - what computes beside the processor, and which calls go there.
 *
 *     --gpu auto|off|cuda|reference|PATH ──► plugin (gpu/device.h) ──► batcher (batcher.h)
 *
 * `"device": "gpu"` goes to the device or is refused: DEVICE_UNAVAILABLE where it is not there now,
 * UNSUPPORTED_DTYPE where it never computes this; "cpu" never goes there; "auto" does where the device is there, has a kernel, and is estimated to answer sooner: copies at
 * the measured rates, launches, FLOPs, and what is in front of it. A table counts as bytes to be
 * copied until it is on the device.
 *
 * Threads  open and close by who starts and stops the server; the rest any. */
#ifndef TD_SERVER_DEVICES_DEVICES_H
#define TD_SERVER_DEVICES_DEVICES_H

#include "api/message/message.h"
#include "server/config/config.h"
#include "server/devices/batcher.h"
#include "server/observe/log.h"

struct td_devices;

/* With `auto`, what takes a CPU less than this is computed there. */
enum { TD_DEVICES_LEAST_NS = 50000 };

/* What only the system can tell of --gpu: that a device that is asked for by name can be loaded, and
 * knows its options. False with a sentence for td_config_check_system's reader. "auto" and "off" are
 * always good. */
bool td_devices_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* NULL (logged) when a device that was asked for by name cannot be loaded, or without memory. "auto"
 * and "off" always give something, if need be something without a device; that of "auto" is opened in
 * the background, and DEVICE_UNAVAILABLE says so until then. */
struct td_devices *td_devices_open(const struct td_config *config, struct td_buffer_pool *buffers,
                                   const struct td_log *log);
void td_devices_trim(struct td_devices *devices);  /* memory is short: see td_batcher_trim */
void td_devices_drain(struct td_devices *devices); /* gives back what waits, now and later */
void td_devices_close(struct td_devices *devices); /* gives back what waits; NULL is fine */

/* NULL when there is none. */
struct td_batcher *td_devices_batcher(struct td_devices *devices);

/* Of a request with "device": "gpu": is the device there? DEVICE_UNAVAILABLE says why not. */
TD_MUST_CHECK td_status td_devices_check(struct td_devices *devices, td_device_choice choice,
                                         struct td_error *err);
/* Where is this inferred request computed, which costs `cost`, on the CPU cpu_ns? `resident` as in
 * struct td_batch_item. *there is true for the device. With "device": "gpu" it is that or refused:
 * UNSUPPORTED_DTYPE where the device has no kernel for it, also while the device is not there, because
 * a retry would not help; or DEVICE_UNAVAILABLE. */
TD_MUST_CHECK td_status td_devices_place(struct td_devices *devices,
                                         const struct td_request *request, uint32_t resident,
                                         const struct td_cost *cost, uint64_t cpu_ns, bool *there,
                                         struct td_error *err);

/* GET /v1/devices */
TD_MUST_CHECK td_status td_devices_describe(struct td_devices *devices,
                                            const struct td_config *config, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);

#endif
