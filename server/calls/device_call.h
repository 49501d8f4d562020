/* device_call.h - places calls on the device (away.h) through the batcher.
 *
 * Errors  A completed call can fail with the errors of td_borrowed_check. */
#ifndef TD_SERVER_CALLS_DEVICE_CALL_H
#define TD_SERVER_CALLS_DEVICE_CALL_H

#include "server/calls/call.h"

/* Decides where an admitted call is computed. Sets TD_AWAY_DUE if the device computes the call. A
 * call with "device": "gpu" is computed on the device or refused. Fails with the errors of
 * td_devices_place and with MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_device_call_place(struct td_call *call);

/* Places the upload of a resident table, for a computed call that replies after the upload. The
 * upload is never refused. Returns false if there is no device or allocation fails. */
bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table);

#endif
