/* device_call.h - places calls on the device (away.h), through the batcher.
 *
 * Errors  A call that is done: those of td_sources_check. */
#ifndef TD_SERVER_CALLS_DEVICE_CALL_H
#define TD_SERVER_CALLS_DEVICE_CALL_H

#include "server/calls/call.h"

/* Decides where an admitted call is computed; it is TD_AWAY_DUE afterwards if that is the device. A
 * call with "device": "gpu" is computed there or refused. Errors: those of td_devices_place, and
 * MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_device_call_place(struct td_call *call);

/* Places the upload of a resident table, for a computed call that replies after the upload. It is
 * never refused. False if there is no device or no memory. */
bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table);

#endif
