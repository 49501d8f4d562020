/* devices.h - the compute device that the server uses in addition to the CPU: plugin, batcher,
 * description.
 *
 *     --gpu auto|off|cuda|reference|PATH ──► plugin (gpu/device.h) ──► batcher (batcher.h)
 *
 * Threads  The main thread calls open and close. Any thread can call the other functions. */
#ifndef TD_SERVER_DEVICES_DEVICES_H
#define TD_SERVER_DEVICES_DEVICES_H

#include "api/message/message.h"
#include "server/config/config.h"
#include "server/devices/batcher.h"
#include "server/observe/log.h"

struct td_devices;

/* Checks --gpu against the system: a named device must be loadable and accept its options. On
 * failure, returns false and sets a message in the style of td_config_check_system. "auto" and
 * "off" always pass. */
bool td_devices_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* Opens the device. Returns NULL (logged) if a named device cannot be loaded or allocation fails.
 * "auto" and "off" succeed without a device. With "auto", the device is opened in the background,
 * and calls get DEVICE_UNAVAILABLE until it is open. */
struct td_devices *td_devices_open(const struct td_config *config, struct td_buffer_pool *buffers,
                                   const struct td_log *log);
/* Frees memory that no batch uses (td_batcher_trim). Called when memory is short. */
void td_devices_trim(struct td_devices *devices);
void td_devices_drain(struct td_devices *devices); /* see td_batcher_drain */
bool td_devices_close(struct td_devices *devices); /* see td_batcher_free; accepts NULL */

/* Returns the number of threads that copy a large input into pinned memory. */
int td_devices_copying_threads(const struct td_devices *devices);

/* Returns the batcher, or NULL if there is no device. */
struct td_batcher *td_devices_batcher(struct td_devices *devices);

/* If the request has "device": "gpu", checks that the device is available. If it is not, returns
 * DEVICE_UNAVAILABLE with the reason. */
TD_MUST_CHECK td_status td_devices_check(struct td_devices *devices, td_device_choice choice,
                                         struct td_error *err);

/* GET /v1/devices */
TD_MUST_CHECK td_status td_devices_describe(struct td_devices *devices,
                                            const struct td_config *config, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);

#endif
